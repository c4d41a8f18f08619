"""Load a ControlNet folder into the network that computes its class."""

from collections.abc import Mapping
from pathlib import Path

from worker.control.server.joint_network import JointNetwork
from worker.control.server.network import Network
from worker.control.server.unet_network import UNetNetwork
from worker.diffusion.device import parse_device, parse_dtype
from worker.diffusion.stock import load_controlnet

#: Class of diffusers, one of `catalog.weights.CONTROLNETS` -> what computes it.
NETWORKS: Mapping[str, type[Network]] = {
    "ControlNetModel": UNetNetwork,
    "SD3ControlNetModel": JointNetwork,
}


def load_network(folder: Path, *, device: str, dtype: str) -> Network:
    """Load a stock folder. Raises: BadWeights naming the file and the reason."""
    target, precision = parse_device(device), parse_dtype(dtype)
    controlnet = load_controlnet(folder, precision).to(target)
    return NETWORKS[type(controlnet).__name__](controlnet, device=target, dtype=precision)
