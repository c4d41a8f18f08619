"""Which blocks of a model can a mask cut, and how do they learn what to do at each forward pass?"""

from collections.abc import Callable, Sequence

from torch import Tensor
from torch.nn import Linear

from worker.masking.attention import KeysOfAll
from worker.masking.crop import CroppedConvolutions
from worker.masking.flux import cut_flux_block
from worker.masking.joint import cut_joint_block
from worker.masking.rows import MaskedRow, RecordedRow, Row, Whole, caption_of
from worker.masking.unet import can_cut_unet_block, cut_unet_block
from worker.stock import Argument, Module, TransformerBlock, hook_forward

#: Layers of a block that see the caption, or the timestep, instead of the picture.
_OF_TEXT = ("attn2.to_k", "attn2.to_v", "attn.add_", "attn.to_add_out", "ff_context", "norm")

#: Runs a block for some masked rows; gives its answer, and the image tokens in it.
Cut = Callable[..., tuple[Argument, Tensor]]

#: Blocks of transformers, by the name of their class: importing Flux's takes a second.
_CUTS: dict[str, Cut] = {
    "JointTransformerBlock": cut_joint_block,
    "FluxTransformerBlock": cut_flux_block,
    "FluxSingleTransformerBlock": cut_flux_block,
}


class MaskedBlocks:
    """The blocks of one model, which ask here how to treat each row."""

    def __init__(self, model: Module, *, is_cropped: bool = False) -> None:
        """Hook every block that a mask can cut; others always run in full.

        `is_cropped`: blocks of convolutions are cut too.
        """
        self.rows: Sequence[Row] = ()  #: of the forward pass at hand; empty is none of interest
        self.names: list[str] = []  #: of the hooked blocks, in the order they run
        self.weights: dict[str, int] = {}  #: parameters that a token of the picture meets
        for name, module in model.named_modules():
            if isinstance(module, TransformerBlock) and can_cut_unet_block(module):
                self._hook(name, module, cut_unet_block)
            elif cut := _CUTS.get(type(module).__name__):
                KeysOfAll.install(module)
                self._hook(name, module, cut)
        crops = CroppedConvolutions(model, lambda: self.rows) if is_cropped else None
        self.cropped = crops.names if crops else []  #: what is recorded of convolutions
        # A UNet names its way up before its middle, and runs it after.
        self.names.sort(key=lambda name: name.startswith("up_blocks"))

    def _hook(self, name: str, block: Module, cut: Cut) -> None:
        def forward(whole: Whole, block: Module, *args: Argument, **kwargs: Argument) -> Argument:
            return self._forward(name, cut, whole, block, *args, **kwargs)

        hook_forward(block, "masking", forward)
        self.names.append(name)
        self.weights[name] = sum(
            layer.weight.numel()
            for part, layer in block.named_modules()
            if isinstance(layer, Linear) and not part.startswith(_OF_TEXT)
        )

    def _forward(
        self,
        name: str,
        cut: Cut,
        whole: Whole,
        block: Module,
        *args: Argument,
        **kwargs: Argument,
    ) -> Argument:
        masked = {
            at: row
            for at, row in enumerate(self.rows)
            if isinstance(row, MaskedRow) and name in row.cached
        }
        if masked:
            answer, image = cut(whole, block, masked, name, *args, **kwargs)
        else:
            answer = whole(*args, **kwargs)
            image = answer[-1] if isinstance(answer, tuple) else answer
        caption = answer[0] if isinstance(answer, tuple) else None
        for at, row in enumerate(self.rows):
            if isinstance(row, RecordedRow):
                row.outputs[name] = image[at]
                if row.has_caption and caption is not None:
                    row.outputs[caption_of(name)] = caption[at]
        return answer
