"""Plan which blocks of a step reuse activations, overlapping load and compute. Pure.

Blocks run one after another, and so do loads, in the order of their blocks. A block that uses the
recording waits for its load; one that computes every token waits for nothing. Leaving some blocks
to computing keeps the device busy where loading is the slower of the two (InstGenIE, section 4.2).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Digits of a second that plans tell apart: sums of equal parts in another order are equal.
_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTimes:
    """What one block of a step takes. Seconds."""

    before: float = 0.0  #: to compute what lies between the last block and this one
    full: float  #: to compute every token
    cached: float  #: to compute the masked tokens, once the others are there
    load: float  #: to bring the others to the device


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """A choice for each block, and what a step then takes."""

    uses_cache: tuple[bool, ...]  #: a block each, in the order they run
    seconds: float  #: of the step, loads included


@dataclass(frozen=True, slots=True)
class _State:
    """How far a step has come after some blocks, and by which choices."""

    loaded: float = 0.0  #: when the last load ends, s
    computed: float = 0.0  #: when the last block ends, s
    choices: tuple[bool, ...] = ()


#: Takes one block more.
_Step = Callable[[_State, BlockTimes], _State]


def plan_greedily(blocks: Sequence[BlockTimes]) -> StepPlan:
    """Use the recording of a block if that block then ends no later (InstGenIE, Algorithm 1).

    A load pushes all later ones back, which the choice of one block does not see.
    """
    state = _State()
    for block in blocks:
        used, computed = _use_in_step(state, block), _compute(state, block)
        state = used if used.computed <= computed.computed else computed
    return StepPlan(uses_cache=state.choices, seconds=state.computed)


def plan_exactly(blocks: Sequence[BlockTimes]) -> StepPlan:
    """Find the choices that end a step first whose loads begin with it, as in the paper."""
    last = _front(blocks, _use_in_step)[-1]
    return StepPlan(uses_cache=last.choices, seconds=last.computed)


def plan_ahead(blocks: Sequence[BlockTimes]) -> StepPlan:
    """Find the choices for many steps like this, each loaded while the one before is computed.

    Then no block waits for a load of its own step: a step takes as long as the longer of both.
    """
    front = _front(blocks, _use_ahead)
    best = min(front, key=lambda state: (max(state.loaded, state.computed), state.loaded))
    return StepPlan(uses_cache=best.choices, seconds=max(best.loaded, best.computed))


def plan_whole(blocks: Sequence[BlockTimes]) -> StepPlan:
    """Use the recording of every block or of none, likewise loaded while the step before runs."""
    used, computed = _State(), _State()
    for block in blocks:
        used, computed = _use_ahead(used, block), _compute(computed, block)
    best = min(used, computed, key=lambda state: max(state.loaded, state.computed))
    return StepPlan(uses_cache=best.choices, seconds=max(best.loaded, best.computed))


def split_ahead(blocks: Sequence[BlockTimes]) -> tuple[float, float]:
    """Say what a step of `plan_ahead` takes if a block may use its recording in part.

    At most as long as the plan, and shorter by less than one block: found at once where the plan
    takes a search. Gives seconds of computing, and of loading behind it.
    """
    computed = sum(block.before + block.full for block in blocks)
    loaded = 0.0
    for block in sorted(blocks, key=_loaded_for_each_second_spared):
        spared = block.full - block.cached
        if spared <= 0 or loaded >= computed:
            break
        # From there on another part of the block would take longer to load than is left to compute.
        part = min(1.0, (computed - loaded) / (block.load + spared))
        computed, loaded = computed - part * spared, loaded + part * block.load
    return computed, loaded


def _loaded_for_each_second_spared(block: BlockTimes) -> float:
    spared = block.full - block.cached
    return block.load / spared if spared > 0 else math.inf


def _front(blocks: Sequence[BlockTimes], use: _Step) -> list[_State]:
    """Try every choice, and keep those that no other beats in both loading and computing.

    A dynamic program over the blocks. The later loaded of those kept are the earlier computed.
    """
    front = [_State()]
    for block in blocks:
        states = [step(state, block) for step in (use, _compute) for state in front]
        front = []
        for state in sorted(states, key=lambda state: (state.loaded, state.computed)):
            if not front or state.computed < front[-1].computed:
                front.append(state)
    return front


def _use_in_step(state: _State, block: BlockTimes) -> _State:
    loaded = round(state.loaded + block.load, _DIGITS)
    begun = max(loaded, state.computed + block.before)
    computed = round(begun + block.cached, _DIGITS)
    return _State(loaded, computed, (*state.choices, True))


def _use_ahead(state: _State, block: BlockTimes) -> _State:
    loaded = round(state.loaded + block.load, _DIGITS)
    computed = round(state.computed + block.before + block.cached, _DIGITS)
    return _State(loaded, computed, (*state.choices, True))


def _compute(state: _State, block: BlockTimes) -> _State:
    computed = round(state.computed + block.before + block.full, _DIGITS)
    return _State(state.loaded, computed, (*state.choices, False))
