"""Compile a function on first use, and keep what was compiled where a folder can be written."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])


# Whether what is kept on disk still holds is told by the stamp of the function's own file alone. So
# compiled functions and constants that it uses stand there too: changes elsewhere would go unseen.
def compiled(function: F) -> F:
    """Compile without the interpreter's lock; the second process on a machine finds it done."""
    try:
        return cast(F, njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # neither the folder of the code nor one of the user's can be written
        return cast(F, njit(nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """Compile a function as a part of those that call it: arrays are counted at each call else."""
    return cast(F, njit(nogil=True, inline="always", error_model="numpy")(function))
