"""LoRA: load adapters in another process, and apply them to a batch between two steps."""
