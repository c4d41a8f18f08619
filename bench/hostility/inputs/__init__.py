"""What a hostile client sends: a list of inputs a file."""
