"""Training and evaluation of ControlNets for the project's models."""
