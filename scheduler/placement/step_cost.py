"""Cost model: seconds an image adds to each step of its batch, by device type. Pure.

A step of a batch takes a start, and so much for each image in it: for rows in full, or for the
masked tokens of an edit by the lines fitted for its model (InstGenIE, sections 4.2 and 4.4).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

from catalog.masking.config import MaskingConfig
from catalog.masking.costs import BlockShape, MaskingCosts
from catalog.masking.plan import BlockTimes, split_ahead
from core.boards.image_work import ImageWork
from core.boards.plan import Plan
from core.model import Model
from scheduler.profile.profile import Profile

KNOBS = MaskingConfig()  #: of every worker
#: Masks are told apart by so many parts of an image, so that few are ever weighed.
_PARTS = 100
#: Burdens that are remembered of one model and device: sizes and masks are few, or not worth it.
_REMEMBERED = 10_000


class Tier(IntEnum):
    """Where a worker has what was recorded of a template; the warmer, the less."""

    MEMORY = 0
    DISK = 1
    NOWHERE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Burden:
    """What one image adds to a step, in the mean of its steps. Seconds."""

    compute_s: float
    load_s: float = 0.0  #: behind the computing of the whole batch


class StepCosts:
    """What steps of one model take on one type of device."""

    def __init__(
        self, *, start_s: float, row_s: float, pixels: int, masking: MaskingCosts | None = None
    ) -> None:
        """Note what a step takes, and a row in full of the default size, in seconds.

        `masking`: what is known of blocks under masks; without it masks spare nothing.
        """
        self.start_s = start_s
        self._row_s = row_s
        self._pixels = pixels
        self._masking = masking
        self._known: dict[tuple[int, int, int, Tier], Burden] = {}

    @classmethod
    def of(cls, costs: MaskingCosts, pixels: int) -> "StepCosts":
        """Go by the blocks of a model whose default size is so many pixels."""
        start_s = len(costs.blocks) * costs.compute.start_s
        return cls(start_s=start_s, row_s=0.0, pixels=pixels, masking=costs)

    @property
    def is_by_blocks(self) -> bool:
        return self._masking is not None

    def burden(self, work: ImageWork, tier: Tier) -> Burden:
        """Expect what an image adds where its worker has what was recorded of its template so."""
        rows, share = work.rows, math.ceil(work.masked * _PARTS)
        if work.masked > KNOBS.break_even:
            share, tier = _PARTS, Tier.MEMORY
        elif work.recording and tier is Tier.NOWHERE:  # its own row draws the template
            rows, share = rows + 1, _PARTS
        key = (rows, work.pixels, share, tier)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._weigh(*key)
        return self._known[key]

    def _weigh(self, rows: int, pixels: int, share: int, tier: Tier) -> Burden:
        scale = pixels / self._pixels
        if self._masking is None:
            return Burden(compute_s=rows * scale * self._row_s)
        times = block_times(self._masking, scale, rows, share / _PARTS, tier)
        full_s = sum(block.before + block.full for block in times)
        if share == _PARTS:
            return Burden(compute_s=full_s)
        masked_s, load_s = split_ahead(times)
        compute_s = KNOBS.full_share * full_s + (1 - KNOBS.full_share) * masked_s
        return Burden(compute_s=compute_s, load_s=load_s)


class PlannedCosts:
    """What steps take by the plan in force, remembered until that or the model changes."""

    def __init__(self, profile: Profile, plan: Callable[[], Plan]) -> None:
        """Ask for the plan whenever costs are asked for."""
        self._profile = profile
        self._plan = plan
        self._followed: Plan | None = None
        self._known: dict[tuple[str, str], tuple[Model | None, StepCosts]] = {}

    def __call__(self, model: str, device_type: str) -> StepCosts:
        if (plan := self._plan()) is not self._followed:
            self._followed = plan
            # No plan says what blocks take, and much is remembered of them.
            self._known = {k: each for k, each in self._known.items() if each[1].is_by_blocks}
        described = self._profile.models.get(model)
        known = self._known.get((model, device_type))
        if known is None or known[0] is not described:
            known = (described, step_costs(self._profile, model, device_type, plan))
            self._known[model, device_type] = known
        return known[1]


def step_costs(
    profile: Profile, model: str, device_type: str, plan: Plan | None = None
) -> StepCosts:
    """Say what steps of a model take: by its blocks if they are trusted, else by whole steps.

    Whole steps cost what the plan says, which knows what workers have measured.
    """
    known = profile.models.get(model)
    if known is None:
        return StepCosts(start_s=0.0, row_s=0.0, pixels=1)
    pixels = known.default_size**2
    costs = profile.measured.masking.get(device_type, {}).get(model)
    if costs is not None and costs.blocks and costs.is_trusted:
        return StepCosts.of(costs, pixels)
    one_s, two_s = _whole_steps_s(profile, model, device_type, plan)
    rows = 2 if known.is_guided(known.default_guidance) else 1
    start_s = max(0.0, 2 * one_s - two_s)
    return StepCosts(start_s=start_s, row_s=(two_s - one_s) / rows, pixels=pixels)


def _whole_steps_s(
    profile: Profile, model: str, device_type: str, plan: Plan | None
) -> tuple[float, float]:
    """Expect the seconds of a step of one image, and of one that two share."""
    planned = plan.costs.get(device_type, {}).get(model) if plan is not None else None
    cost = planned or profile.cost(model, device_type)
    slowness = plan.slowness.get(device_type, 1.0) if plan is not None else 1.0
    return slowness * cost.step_s(1), slowness * cost.step_s(2)


def masked_tokens(share: float, tokens: int) -> int:
    """Expect how many tokens are computed under a mask of a square shape, and around it."""
    side = math.sqrt(share * tokens) + 2 * KNOBS.dilate
    return min(tokens, math.ceil(side**2))


def block_times(
    costs: MaskingCosts, scale: float, rows: int, share: float, tier: Tier
) -> list[BlockTimes]:
    """Expect what an edit adds to each block, whose start is counted once for the whole batch."""
    added = replace(costs, compute=replace(costs.compute, start_s=0.0))
    known: dict[BlockShape, BlockTimes] = {}  # most blocks are like others
    for shape in costs.blocks:
        if shape not in known:
            tokens = round(shape.tokens * scale)
            known[shape] = added.times(
                replace(shape, tokens=tokens),
                masked_tokens(share, tokens),
                rows,
                is_in_memory=tier is Tier.MEMORY,
            )
    return [known[shape] for shape in costs.blocks]
