"""Benchmark models of real size: added, loaded, two steps, swapped; memory beside their weights.

Folders as diffusers saves them, of random weights in float16. Each model follows another in a
process of its own: the host's peak is that of the whole process, what it holds beside models
included; what is left is what the process holds more after the model has gone than before it came.
Both come twice: what libraries load and compile once, for good, is left the first time as well.
Then the embedded service serves SD 1.5 of full size, which it has never seen, and makes an image of
one step of 1024 pixels, which takes a minute and more: longer than any lease.

    python -m bench.checkpoints --quick
"""

import json as json_of
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
import typer

from bench.parts.real_size import Checkpoint, checkpoints, write
from bench.parts.real_size_life import Life
from bench.parts.real_size_service import Served, serve
from bench.parts.report import Figure, at_most, finish, machine, plain

#: What a model follows: SD 1.5, which itself follows SD 3.
BEFORE = {"sd15": "sd3"}
#: Of what is stored in float16 two run in it, mapped, and two are cast on the way; all of them
#: where the machine has no float16 of its own: a convolution takes a hundred times as long there.
HALF = "float16" if torch.ops.mkldnn._is_mkldnn_fp16_supported() else "bfloat16"
DTYPES = {"sd15": HALF, "sdxl": HALF, "sd3": "bfloat16", "flux": "bfloat16"}
PEAK, PEAK_MIB = 1.15, 1024.0  #: of the weights, and on top
LEFT = 0.05  #: of the weights
READY_S = 30.0
SDXL_BYTES = 9 * 2**30  #: that a host must have free for SDXL with all of its blocks
SDXL_DEPTH, CUT_DEPTH = 10, 2


class Swaps(NamedTuple):
    """A model that comes, goes, and comes again once another has been there."""

    first: Life
    again: Life


def run(names: list[str], pixels: int, scratch: Path) -> dict[str, tuple[Checkpoint, Swaps]]:
    """Write each folder when its turn comes, and keep no more than two."""
    models = checkpoints(
        SDXL_DEPTH if psutil.virtual_memory().available > SDXL_BYTES else CUT_DEPTH
    )
    found = {}
    write(models["sd15"], scratch / "sd15")
    for name in names:
        before = BEFORE.get(name, "sd15")
        for each in {name, before} - {"sd15"}:
            write(models[each], scratch / each)
        found[name] = models[name], live(scratch, before, name, pixels)
        for each in {name, before} - {"sd15"}:
            shutil.rmtree(scratch / each)
    return found


def live(scratch: Path, before: str, name: str, pixels: int) -> Swaps:
    """Have two models live one after the other, twice; give what the second took each time."""
    command = [sys.executable, "-m", "bench.parts.real_size_life", str(pixels)]
    command += [f"{scratch / each}:{DTYPES[each]}" for each in (before, name) * 2]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    _, first, _, again = (Life(**each) for each in json_of.loads(done.stdout.splitlines()[-1]))
    return Swaps(first, again)


def figures(name: str, swaps: Swaps) -> dict[str, Figure]:
    """Lay what a model took beside what was promised."""
    life, again = swaps
    most = PEAK * life.weights + PEAK_MIB
    return {
        f"{name}: weights": plain(life.weights / 1024, "GiB"),
        f"{name}: add": plain(life.add_s, "s"),
        f"{name}: load": plain(life.load_s, "s"),
        f"{name}: two steps and all around them": plain(life.image_s, "s"),
        f"{name}: host peak": at_most(life.peak / 1024, round(most / 1024, 2), "GiB"),
        f"{name}: peak of loading / weights": at_most(life.load_peak / life.weights, PEAK, ""),
        f"{name}: left the first time / weights": plain(life.left / life.weights, ""),
        f"{name}: left after it has gone / weights": at_most(again.left / again.weights, LEFT, ""),
    }


def serve_figures(served: Served) -> dict[str, Figure]:
    """Lay a service's start and its job beside what was promised."""
    succeeded = served.status == "succeeded"
    return {
        "service: ready": at_most(served.ready_s, READY_S, "s"),
        "service: ready to first image": plain(served.image_s, "s"),
        "service: image of one step": plain(served.step_s, "s"),
        "service: jobs reaped or failed": at_most(served.attempts - succeeded, 0, ""),
    }


def main(
    quick: bool = typer.Option(False, help="Flux after SD 1.5 alone, and smaller pictures."),
    json: bool = typer.Option(False, help="Only the JSON object."),
) -> None:
    """Add, load, step and swap models of real size. Example: `python -m bench.checkpoints`."""
    names, pixels = (["flux"], 64) if quick else (["sd15", "sdxl", "sd3", "flux"], 256)
    with tempfile.TemporaryDirectory(prefix="atelier-checkpoints-") as folder:
        scratch = Path(folder)
        found = run(names, pixels, scratch)
        served = serve(scratch / "sd15", 256 if quick else 1024, dtype=DTYPES["sd15"])
    shown: dict[str, Figure] = {}
    for name, (_, swaps) in found.items():
        shown |= figures(name, swaps)
    shown |= serve_figures(served)
    cuts = [f"computed in {HALF}"]
    cuts += [f"{name}: {of.cut}" for name, (of, _) in found.items() if of.cut]
    raise SystemExit(finish("checkpoints", shown, where=machine(*cuts), is_json=json))


if __name__ == "__main__":
    typer.run(main)
