"""LoRA: parse untrusted files, and apply adapters to a batch between two steps."""
