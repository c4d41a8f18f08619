"""One command for a person: starts the whole service on one machine, and asks it for images."""
