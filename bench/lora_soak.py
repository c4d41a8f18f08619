"""Soak test of LoRA loading: no leaks over thousands of LoRAs and injected faults.

Small images in a row, each with LoRAs out of many more than there is room for, all fetched by the
real loader. Its process is killed again and again; some files are gone from the store, some are
damaged. Memory, descriptors and mappings are counted all along.

    python -m bench.lora_soak --quick
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from bench.parts.report import Figure, at_least, at_most, finish, machine, median, plain

if TYPE_CHECKING:
    from bench.parts.lora_traffic import Sample

#: LoRAs in this process at most: those kept, and those of images that are being made.
MAPPED = 24
#: Descriptors that may be open for files on their way.
ON_THEIR_WAY = 8


def figures_of(count: int, wrong: int, samples: "Sequence[Sample]") -> dict[str, Figure]:
    """Compare the last quarter with the second, when all that is ever needed has been there."""
    quarter = len(samples) // 4
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    grown = median([s.worker for s in last]) / median([s.worker for s in second])
    return {
        "requests that ended as they must": at_least(1 - wrong / count, 1.0, "share"),
        "worker, last quarter": plain(median([s.worker for s in last]) / 2**20, "MiB"),
        "worker, last quarter / second": at_most(grown, 1.02, "ratio"),
        "loader, last quarter": plain(median([s.loader for s in last]) / 2**20, "MiB"),
        "loader, most / median": at_most(
            max(s.loader for s in samples) / median([s.loader for s in samples]), 1.2, "ratio"
        ),
        "descriptors, last quarter - second": at_most(
            median([s.descriptors for s in last]) - median([s.descriptors for s in second]),
            ON_THEIR_WAY,
            "files",
        ),
        "LoRAs mapped, most": at_most(max(s.mappings for s in samples), MAPPED, "mappings"),
    }


def main(
    quick: bool = typer.Option(False, help="Two hundred requests."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
    requests: int = typer.Option(2000, help="Images that are made."),
) -> None:
    """Make images with LoRAs for long. Example: `python -m bench.lora_soak --quick`."""
    # Here: the loader's process reads this script again, and is to be as small as a worker's.
    from bench.parts.lora_traffic import run

    count = 200 if quick else requests
    wrong, samples = run(count)
    figures = figures_of(count, wrong, samples)
    raise SystemExit(finish("lora_soak", figures, where=machine("1 thread"), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
