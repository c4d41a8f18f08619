"""ControlNets beside the base model, and what passes between them."""
