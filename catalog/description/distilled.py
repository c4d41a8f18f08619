"""Recognise models that are distilled to few steps, and say what they are asked for by default."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """What a model makes where a client leaves it open."""

    steps: int
    guidance: float
    max_steps: int = 100


#: Of models that are not distilled, by family: as stock pipelines, but for UNets' 50 steps.
USUAL = {
    "sd": Habit(steps=30, guidance=7.5),
    "sdxl": Habit(steps=30, guidance=5.0),
    "sd3": Habit(steps=28, guidance=7.0),
    "flux": Habit(steps=28, guidance=3.5),
}

#: Of distilled models, by kind, as those who made them say.
FEW = {
    "turbo": Habit(steps=4, guidance=0.0),
    "lightning": Habit(steps=4, guidance=0.0),
    "hyper": Habit(steps=8, guidance=0.0),
    "dmd": Habit(steps=4, guidance=0.0),
    "schnell": Habit(steps=4, guidance=0.0),
    # It skips over the 50 steps that it was distilled from, so it has no more of them.
    "lcm": Habit(steps=4, guidance=1.0, max_steps=50),
}

#: Words of names that tell it, where nothing else does.
_WORDS = {"hypersd": "hyper", "dmd2": "dmd"} | {kind: kind for kind in FEW}
_STEPS = re.compile(r"(?<!\d)(\d{1,2})[ _-]?steps?(?![a-z])")


def kind_of_names(names: tuple[str, ...]) -> str | None:
    """Tell by its names whether a model is distilled: that of its folder, of its repository."""
    for name in names:
        for word in re.split(r"[^a-z0-9]+", name.lower()):
            if word in _WORDS:
                return _WORDS[word]
    return None


def habit_of(
    family: str,
    kind: str | None,
    *,
    names: tuple[str, ...],
    denoiser: Mapping[str, object],
    most_steps: int | None = None,
) -> Habit:
    """Say what a model makes by default; a distilled one whose name counts steps makes those.

    `most_steps`: that its own schedule has; None: as many as anybody asks for.
    """
    habit = USUAL[family] if kind is None else _few(kind, names, denoiser)
    most = min(habit.max_steps, most_steps or habit.max_steps)
    return replace(habit, steps=min(habit.steps, most), max_steps=most)


def _few(kind: str, names: tuple[str, ...], denoiser: Mapping[str, object]) -> Habit:
    habit = FEW[kind]
    counted = next((int(n[1]) for name in names if (n := _STEPS.search(name.lower()))), None)
    # A UNet that is told the guidance scale was distilled for those above one.
    guidance = 8.5 if denoiser.get("time_cond_proj_dim") else habit.guidance
    return replace(habit, steps=counted or habit.steps, guidance=guidance)
