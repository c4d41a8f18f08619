"""Download the wheels that a GPU run needs beside torch, and weigh them with the tree."""

import subprocess
import sys
from pathlib import Path

import typer

from bench.on_gpu.needs import WHEELS

ROOT = WHEELS.parent
LIMIT_MIB = 64  #: of all that travels
PYTHON = "3.12"
#: pip takes wheels of these alone, not of what they include.
GLIBC = (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)
#: Weights that no part of a run reads.
LEFT_BEHIND = ("zoo/weights", "zoo/adapters", "zoo/scorers", "zoo/classifier")


def main(to: Path = typer.Option(ROOT / ".whl", help="A folder that git ignores.")) -> None:
    """Fetch wheels. Example: `make gpu-wheels`."""
    for old in to.glob("*.whl"):
        old.unlink()
    platforms = ["manylinux1", "manylinux2014", *(f"manylinux_2_{minor}" for minor in GLIBC)]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"),
            *("--python-version", PYTHON, "--implementation", "cp"),
            *(f"--platform={each}_x86_64" for each in platforms),
            *("-c", str(ROOT / "constraints.txt"), "-r", str(WHEELS), "-d", str(to)),
        ],
        check=True,
    )
    wheels = sorted(to.glob("*.whl"))
    tree = weigh_tree()
    total = _mib(wheels) + tree
    typer.echo(f"{len(wheels)} wheels in {to}: {_mib(wheels):.1f} MiB")
    typer.echo(f"the tree without {', '.join(LEFT_BEHIND)}: {tree:.1f} MiB")
    typer.echo(f"together {total:.1f} MiB of {LIMIT_MIB} MiB")
    raise SystemExit(int(total > LIMIT_MIB))


def weigh_tree() -> float:
    """Weigh the files that git tracks, but for weights (MiB)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    files = [name for name in listed.stdout.split("\0") if name]
    return _mib([ROOT / name for name in files if not name.startswith(LEFT_BEHIND)])


def _mib(files: list[Path]) -> float:
    return float(sum(file.stat().st_size for file in files if file.is_file()) / 2**20)


if __name__ == "__main__":
    typer.run(main)
