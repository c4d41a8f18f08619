"""Pictures steered by a second picture: ControlNets, and how to tell that they obeyed."""
