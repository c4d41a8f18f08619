"""Cases of a test that only `make test-slow` runs: those beside them say nearly the same."""

from collections.abc import Iterable

import pytest


def rarely(cases: Iterable[object]) -> list[object]:
    """Mark cases as long; a tuple is the arguments of one."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for case in cases
    ]


def rarely_but(quick: Iterable[object], cases: Iterable[object]) -> list[object]:
    """Mark all cases as long but some."""
    chosen = list(quick)
    return [*chosen, *rarely(case for case in cases if case not in chosen)]
