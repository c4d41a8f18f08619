"""The HTTP API: validate requests, have jobs placed, submit them and report their state."""
