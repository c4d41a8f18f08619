"""Reports for people: one HTML page that works offline, with PNG, JSON and CSV beside it."""
