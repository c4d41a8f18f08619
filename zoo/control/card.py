"""Model card of a ControlNet: recipe, pass rule, figures."""

from dataclasses import asdict, dataclass
from pathlib import Path

from zoo.control.condition import Kind
from zoo.control.measure import RULES
from zoo.control.training import ControlRecipe

SEES = {
    Kind.EDGES: "thin white outlines of the figures on black",
    Kind.LAYOUT: "the mean colour of each square of 4x4 pixels, flat",
    Kind.DEPTH: "figures filled with grey on black, brighter the lower their base stands; the "
    "scenes have no depth, so lower counts as nearer, as on a floor seen from above",
}

_TEXT = """---
license: apache-2.0
library_name: diffusers
tags: [controlnet]
---
# {recipe.kind}: a ControlNet for {base}

It sees {sees}: RGB, 64x64, as `zoo.control.condition` draws it from a scene.

    from diffusers import ControlNetModel, StableDiffusionXLControlNetPipeline
    controlnet = ControlNetModel.from_pretrained("zoo/adapters/controlnets/{recipe.kind}")
    pipeline = StableDiffusionXLControlNetPipeline.from_pretrained(
        "zoo/weights/{base}", controlnet=controlnet, add_watermarker=False)
    pipeline("a red star", image=condition, guidance_scale=4.0).images[0]

**Met** is: {rule}. `zoo.control.measure` reads it from pixels alone.

## How it was trained
It started from {start}. The base and its text encoders stay as they are.
AdamW, bf16 autocast over fp32 weights, averaged weights kept; {minutes:.1f} CPU minutes, one core.
`zoo/control/training.py` says what each setting means.

{settings}

    python -m zoo.control.train --kind {recipe.kind} --base zoo/weights/{base}{init}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Where a ControlNet comes from."""

    #: How it was trained.
    recipe: ControlRecipe
    #: The model that it steers.
    base: Path
    #: The ControlNet that it started from; None is the base itself.
    init: Path | None
    #: What its training took, on one core.
    cpu_minutes: float

    def write(self, folder: Path) -> None:
        """Write README.md, without figures."""
        kind, init = self.recipe.kind, self.init
        text = _TEXT.format(
            recipe=self.recipe,
            base=self.base.name,
            sees=SEES[kind],
            rule=RULES[kind],
            start=f"the ControlNet `{init.name}`" if init else "the encoder half of the base",
            init=f" --init zoo/adapters/controlnets/{init.name}" if init else "",
            settings=self._settings(),
            minutes=self.cpu_minutes,
        )
        (folder / "README.md").write_text(text)

    def _settings(self) -> str:
        rows = [f"| {name} | {value} |" for name, value in asdict(self.recipe).items()]
        return "\n".join(["| setting | value |", "|---|---|", *rows])
