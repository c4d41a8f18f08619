"""What requests ask for: prompts, applications, edits, adapters, sizes, cancels. Pure."""
