"""ControlNets computed beside the base model, and their transport between processes."""
