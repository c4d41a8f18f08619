"""Import torch and heavy modules with garbage collection off, for a faster start."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def first_imports() -> Iterator[None]:
    """Import modules of ours; the first one of a process brings thousands of others with it.

    Those stay to the end, so that no collection of garbage needs to walk them, now or later: that
    is a fifth of the time in which a worker starts. What comes later is left to the collector,
    as a model may lie in memory by then, which is to leave it again.
    """
    if _are_over():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        _are_over.cache_clear()


@cache
def _are_over() -> bool:
    """Say whether a process has had its first imports; counting them anew takes 0.05 s or more."""
    return gc.get_freeze_count() > 0
