"""Command-line interface `atelier`: run the service on one machine, and use it."""
