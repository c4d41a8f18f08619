"""What README and docs show, taken out of them to be checked and run."""
