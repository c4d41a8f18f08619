"""Move prompts off their optimal levels: Argus' Algorithm 1 (ODA), repaired. Pure.

As printed, the shares of a class neither sum to one nor cause the loads of the plan, and a class
that gives prompts away on both sides is counted twice (docs/adr/0002). Here it tracks where the
prompts of each class are: each move takes the same share of everybody who is at a level, and the
shares are read off at the end, which is the composition the paper asks for.
"""

from collections.abc import Sequence


def shifted(affinity: Sequence[float], loads: Sequence[float]) -> list[list[float]]:
    """Move prompts from their optimal levels until every level has its load.

    From the fastest level to the slowest: prompts too many go to the next slower one, where they
    lose nothing; a load not met yet is filled from the nearest slower levels.

    Args:
        affinity: H, prompts whose optimal level it is, by level, the slowest first.
        loads: F, prompts that it shall serve; the same sum, up to rounding.

    Shapes:  [L], [L] -> [L, L]: optimal level -> level -> prompts
    Source:  Argus §4.3, Algorithm 1; optimal where quality falls convexly with speed, alike for
             all classes
    """
    last = len(loads) - 1
    at = [[amount if i == j else 0.0 for j in range(last + 1)] for i, amount in enumerate(affinity)]
    for level in range(last, 0, -1):
        excess = _present(at, level) - loads[level]
        if excess > 0:
            _move(at, level, level - 1, excess)
        for slower in range(level - 1, -1, -1):
            missing = loads[level] - _present(at, level)
            if missing <= 0:
                break
            _move(at, slower, level, min(missing, _present(at, slower)))
    return at


def _present(at: Sequence[Sequence[float]], level: int) -> float:
    return sum(row[level] for row in at)


def _move(at: Sequence[list[float]], origin: int, target: int, amount: float) -> None:
    present = _present(at, origin)
    if present <= 0:
        return
    share = min(1.0, amount / present)
    for row in at:
        moved = share * row[origin]
        row[origin] -= moved
        row[target] += moved
