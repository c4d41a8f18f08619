"""Architecture of the UNet families (SD, SDXL)."""

from worker.control.client import steerable
from worker.masking.blocks.unet import UNET_CUTS
from worker.pipeline.architecture import Architecture

UNET = Architecture(
    part="unet",
    compiled=frozenset(["ResnetBlock2D", "BasicTransformerBlock"]),
    cuts=UNET_CUTS,
    steerability=steerable.UNET,
)
