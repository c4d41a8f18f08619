"""Images of a measurement: no other takes them for its own."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from core.levels.level import levels_of
from core.model import Model
from profiling.chunks import Chunks, Pictures
from profiling.plan import MeasurementPlan
from profiling.prompts import sets_of

PROMPTS = tuple(f"prompt {number}" for number in range(40))
MODEL = Model(name="m", family="sdxl")
EXACT = levels_of(MODEL)[0]
USUAL = (10, 15, 1)


class FakeGenerator:
    """Makes pictures of one pixel."""

    def make(self, prompts: Sequence[str], *_: object) -> list[Pictures]:
        return [np.zeros((1, 1, 3), np.uint8) for _ in prompts]


def chunks(folder: Path, counts: tuple[int, int, int], texts: Sequence[str] = PROMPTS) -> Chunks:
    """Open the images of so many prompts measured, and remembered in so many repeats."""
    prompts, remembered, repeats = counts
    plan = MeasurementPlan(prompts=prompts, remembered=remembered, repeats=repeats, steps=10)
    return Chunks(folder, plan, sets_of(plan, texts), MODEL, "weights")


def test_a_measurement_finds_its_images_again(tmp_path: Path) -> None:
    chunks(tmp_path, USUAL).make(FakeGenerator(), EXACT, 0)
    again = chunks(tmp_path, USUAL, [*PROMPTS, "one more"])
    assert again.read(EXACT, 0).shape == (10, 1, 1, 3)


@pytest.mark.parametrize("counts", [(11, 14, 1), (9, 16, 1), (10, 15, 2)])
def test_other_counts_of_the_same_prompts_find_none(
    tmp_path: Path, counts: tuple[int, int, int]
) -> None:
    chunks(tmp_path, USUAL).make(FakeGenerator(), EXACT, 0)
    assert not chunks(tmp_path, counts).is_there(EXACT, 0)


def test_prompts_of_a_later_repeat_count(tmp_path: Path) -> None:
    chunks(tmp_path, (10, 15, 2)).make(FakeGenerator(), EXACT, 0)
    assert not chunks(tmp_path, (10, 15, 2), [*PROMPTS[:-1], "another"]).is_there(EXACT, 0)


def test_a_line_break_in_a_prompt_is_no_boundary(tmp_path: Path) -> None:
    chunks(tmp_path, (1, 1, 1), ["a\nb", "c"]).make(FakeGenerator(), EXACT, 0)
    assert not chunks(tmp_path, (1, 1, 1), ["a", "b\nc"]).is_there(EXACT, 0)
