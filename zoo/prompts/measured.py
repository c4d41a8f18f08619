"""Prompts of profiles: scenes of all difficulties in turn.

`python -m zoo.prompts.measured` writes those of `atelier profile` into `zoo/prompts.jsonl`.
"""

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from profiling.plan import MeasurementPlan
from profiling.prompts import PromptSets
from zoo.prompts.sets import Split, prompts_of
from zoo.scenes import LEVELS, Scene


def mixed(split: Split, start: int, count: int) -> list[Scene]:
    """Compose `count` scenes of a split from number `start` on, all difficulties in turn."""
    rows = zip(*(prompts_of(split, level) for level in LEVELS), strict=False)
    prompts = (prompt for row in rows for prompt in row)
    return [prompt.address.scene() for prompt in islice(prompts, start, start + count)]


def measured(plan: MeasurementPlan) -> list[Scene]:
    """Compose the prompts that are measured: the first of the test set."""
    return mixed(Split.TEST, 0, plan.prompts)


def remembered(plan: MeasurementPlan, repeat: int) -> list[Scene]:
    """Compose the prompts that are remembered: others in each repeat, of another split.

    So no caption is asked for again, but for those of level 1.
    """
    return mixed(Split.TRAIN, repeat * plan.remembered, plan.remembered)


def captions(scenes: Iterable[Scene]) -> list[str]:
    """Give what is asked for."""
    return [scene.caption for scene in scenes]


def captions_of(plan: MeasurementPlan) -> PromptSets:
    """Word all prompts of a measurement."""
    memories = [captions(remembered(plan, repeat)) for repeat in range(plan.repeats)]
    return PromptSets(measured=captions(measured(plan)), remembered=memories)


def lines_of(prompts: PromptSets) -> str:
    """Write prompts as `atelier profile` reads them."""
    every = [*prompts.measured, *(each for some in prompts.remembered for each in some)]
    return "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in every)


if __name__ == "__main__":
    Path("zoo/prompts.jsonl").write_text(lines_of(captions_of(MeasurementPlan())))
