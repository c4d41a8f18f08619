"""Check what a GPU run needs before it begins: a device, packages, and what compiling takes."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

WHEELS = Path(__file__).parents[2] / "gpu-wheels.txt"  #: names of the packages to carry


def device() -> str | None:
    """Say why nothing can run on CUDA; None: it can."""
    import torch

    if torch.cuda.is_available():
        return None
    return (
        f"torch {torch.__version__} finds no CUDA device here. "
        "`make gpu DRY=1` runs the same code on a CPU, with tiny models"
    )


def packages() -> str | None:
    """Say which packages are missing; None: none."""
    missing = [name for name in WHEELS.read_text().split() if not _is_installed(name)]
    if not missing:
        return None
    return f"not installed here: {', '.join(missing)}. `make gpu-wheels` fetches them (docs/gpu.md)"


def compiler() -> str | None:
    """Say why Triton can build no kernels here; None: it can."""
    checks: list[Callable[[], str | None]] = [_no_compiler, _no_headers, _no_programs]
    return next((why for check in checks if (why := check())), None)


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _no_compiler() -> str | None:
    if any(map(shutil.which, (os.environ.get("CC", ""), "gcc", "clang", "cc"))):
        return None
    return "there is no C compiler, and Triton builds the launchers of its kernels: install gcc"


def _no_headers() -> str | None:
    folder = sysconfig.get_path("include")
    if Path(folder, "Python.h").is_file():
        return None
    return f"there is no Python.h in {folder}, which launchers of kernels include"


def _no_programs() -> str | None:
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "program")
            program.write_text("#!/bin/sh\n")
            program.chmod(0o700)
            subprocess.run([program], check=True)
    except OSError as error:
        return f"no program runs from {tempfile.gettempdir()} ({error.strerror}): set TMPDIR"
    return None
