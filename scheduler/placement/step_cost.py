"""Cost model: seconds an image adds to each step of its batch, by device type. Pure.

A step of a batch takes a start, and so much for each image in it: for rows in full, or for the
masked tokens of an edit by the lines fitted for its model (InstGenIE, sections 4.2 and 4.4).
"""

import math
from dataclasses import dataclass, replace
from enum import IntEnum

from catalog.masking.config import MaskingConfig
from catalog.masking.costs import BlockShape, MaskingCosts
from catalog.masking.plan import BlockTimes, split_ahead
from core.boards.image_work import ImageWork
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


def step_costs(profile: Profile, model: str, device_type: str) -> StepCosts:
    """Say what steps of a model take: by its blocks if they are trusted, else by whole steps."""
    known = profile.models.get(model)
    if known is None:
        return StepCosts(start_s=0.0, row_s=0.0, pixels=1)
    pixels = known.default_size**2
    costs = profile.measured.masking.get(device_type, {}).get(model)
    if costs is not None and costs.blocks and costs.is_trusted:
        return StepCosts.of(costs, pixels)
    cost = profile.cost(model, device_type)
    image_s = cost.step_s(2) - cost.step_s(1)
    rows = 2 if known.is_guided(known.default_guidance) else 1
    start_s = max(0.0, cost.step_s(1) - image_s)
    return StepCosts(start_s=start_s, row_s=image_s / rows, pixels=pixels)


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
