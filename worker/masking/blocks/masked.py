"""Hook the blocks of a model that can compute a subset of tokens."""

from collections.abc import Mapping
from functools import partial

from torch import Tensor
from torch.nn import Linear

from catalog.masking.config import Keep
from worker.diffusion.forward_context import ForwardContext, HookedModel
from worker.diffusion.stock import Argument, Module
from worker.masking.blocks.attention import JOINT_KWARGS, WIDEN, KeysOfAll
from worker.masking.blocks.cropped_convolutions import CroppedConvolutions
from worker.masking.blocks.cut import Cut, Cuts
from worker.masking.blocks.keys import has_keys, keys_of, listening_to
from worker.masking.blocks.rows import MaskedRow, RecordedRow, Whole, caption_of, rows_of

#: Layers of a block that see the caption, or the timestep, instead of the picture.
_OF_TEXT = ("attn2.to_k", "attn2.to_v", "attn.add_", "attn.to_add_out", "ff_context", "norm")


class MaskedBlocks:
    """The blocks of one model, each of which treats rows as the call at hand says."""

    def __init__(self, model: Module, cuts: Cuts, *, is_cropped: bool = False) -> None:
        """Hook every block that a mask can cut; others always run in full.

        `is_cropped`: blocks of convolutions are cut too.
        """
        self.hooked = HookedModel.of(model)
        self.names: list[str] = []  #: of the hooked blocks, in the order they run
        self.keys: dict[str, list[str]] = {}  #: what can be kept of a block but its output
        self.weights: dict[str, int] = {}  #: parameters that a token of the picture meets
        for name, module in model.named_modules():
            cut = cuts.get(type(module).__name__)
            if cut is None or not cut.fits(module):
                continue
            if cut.has_keys:
                KeysOfAll.install(module)
            self._hook(name, module, cut)
            if cut.has_keys:
                self.keys[name] = keys_of(name, module)
        crops = CroppedConvolutions(model) if is_cropped else None
        self.cropped = crops.names if crops else []  #: what is recorded of convolutions
        # A UNet names its way up before its middle, and runs it after.
        self.names.sort(key=lambda name: name.startswith("up_blocks"))

    def parts(self, name: str, keeps: Keep) -> list[str]:
        """Name what is kept of a block, or rather of the picture in it."""
        return self.keys[name] if keeps is Keep.KEYS else [name]

    def all_parts(self, keeps: Keep) -> list[str]:
        """Name what is kept of all blocks, in the order they run."""
        return [part for name in self.names for part in self.parts(name, keeps)]

    def can_keep(self, keeps: Keep) -> bool:
        """Tell whether it can be kept of every block: a UNet's convolutions need its outputs."""
        return keeps is Keep.OUTPUTS or len(self.keys) == len(self.names)

    def _hook(self, name: str, block: Module, cut: Cut) -> None:
        self.hooked.hook(block, "masking", partial(_forward, name, cut))
        self.names.append(name)
        self.weights[name] = sum(
            layer.weight.numel()
            for part, layer in block.named_modules()
            if isinstance(layer, Linear) and not part.startswith(_OF_TEXT)
        )


def _forward(
    name: str,
    cut: Cut,
    context: ForwardContext,
    whole: Whole,
    block: Module,
    *args: Argument,
    **kwargs: Argument,
) -> Argument:
    rows = rows_of(context)
    masked = {
        at: row
        for at, row in enumerate(rows)
        if isinstance(row, MaskedRow) and (name in row.cached or has_keys(row.cached, name))
    }
    recorded = {at: row for at, row in enumerate(rows) if isinstance(row, RecordedRow)}
    heard: dict[str, Tensor] = {}
    if any(row.keeps is Keep.KEYS for row in recorded.values()):
        kwargs[JOINT_KWARGS] = {WIDEN: listening_to(block, heard)}
    if masked:
        answer, image = cut.run(whole, block, masked, name, *args, **kwargs)
    else:
        answer = whole(*args, **kwargs)
        image = answer[-1] if isinstance(answer, tuple) else answer
    caption = answer[0] if isinstance(answer, tuple) else None
    for at, row in recorded.items():
        if row.keeps is Keep.OUTPUTS:
            row.outputs[name] = image[at]
        else:
            # Heard are the rows in full, of which there are fewer than rows.
            in_full = at - sum(other < at for other in masked)
            row.outputs.update(_picture(heard, name, in_full, image.shape[1]))
        if row.has_caption and caption is not None:
            row.outputs[caption_of(name)] = caption[at]
    return answer


def _picture(heard: Mapping[str, Tensor], name: str, row: int, length: int) -> dict[str, Tensor]:
    """Take what was heard of one row's picture, and let the others go. Shapes: [L, C] each."""
    return {f"{name}/{part}": made[row, -length:].clone() for part, made in heard.items()}
