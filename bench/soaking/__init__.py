"""Loading a service for long, and watching what it holds."""
