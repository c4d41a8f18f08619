"""Load a ControlNet folder into the network that computes its class."""

from collections.abc import Mapping
from pathlib import Path

from worker.control.server.adapter_network import AdapterNetwork
from worker.control.server.flux_network import FluxNetwork
from worker.control.server.joint_network import JointNetwork
from worker.control.server.network import Network
from worker.control.server.unet_network import UNetNetwork
from worker.control.server.union_network import UnionNetwork
from worker.diffusion.device import parse_device, parse_dtype
from worker.diffusion.loading.pipelines import load_controlnet

#: Class of diffusers, one of `catalog.weights.CONTROLNETS` -> what computes it.
NETWORKS: Mapping[str, type[Network]] = {
    "ControlNetModel": UNetNetwork,
    "ControlNetUnionModel": UnionNetwork,
    "FluxControlNetModel": FluxNetwork,
    "SD3ControlNetModel": JointNetwork,
    "T2IAdapter": AdapterNetwork,
}


def load_network(folder: Path, *, device: str, dtype: str) -> Network:
    """Load a stock folder. Raises: BadWeights naming the file and the reason."""
    target, precision = parse_device(device), parse_dtype(dtype)
    controlnet = load_controlnet(folder, precision, target)
    return NETWORKS[type(controlnet).__name__](controlnet, device=target, dtype=precision)
