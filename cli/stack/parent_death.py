"""Exec a program with a parent-death signal. Run as a script.

    python -I -S parent_death.py PARENT_PID PROGRAM [ARGUMENT ...]

Linux sends SIGKILL to the program when its parent ends, however that ends; other systems do not.
Runs before exec in a process of its own, because `preexec_fn` is unsafe beside threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tether(parent: int) -> None:
    """Ask the kernel for a signal at the parent's death; leave if that has happened already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    tether(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
