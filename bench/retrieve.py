"""Benchmark lookups of reusable latents: embedding and vector search time.

The embedded index, asked as the scheduler asks it: vectors of 384 numbers, one tenant and one
model, so that the filter leaves every lender to be compared. Embedding 100,000 prompts would take
a quarter of an hour, so the lenders are 2,000 captions of the zoo, and each again with a little
noise, as prompts in words of their own would be. The encoder is timed beside it, on one thread.

    python -m bench.retrieve --quick
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bench.parts.report import Figure, Instant, at_most, finish, machine, median, percentile, plain
from core.latents import LatentKey, Lender
from core.levels.approximation import SKIPS
from core.settings import Settings
from scheduler.approximate_cache.embed import Embedder, open_embedder
from storage.vectors.edge import EdgeIndex
from storage.vectors.index import Lookup, Vector
from zoo.prompts import Split, prompts_of
from zoo.scenes import LEVELS

TERMS = LatentKey(model="base", width=64, height=64, steps=30, scheduler=None, is_guided=True)
CAPTIONS = 2000
NOISE = 0.03  #: of each number; the cosine to the caption is about 0.86
BATCH = 1000
#: Bars by number of lenders, milliseconds.
BARS = {10_000: 10.0, 100_000: 50.0}


def captions(split: Split, count: int) -> list[str]:
    """Word scenes of every difficulty in turn."""
    rows = zip(*(prompts_of(split, level) for level in LEVELS), strict=False)
    scenes = (prompt.address.scene() for row in rows for prompt in row)
    return [scene.caption for scene in islice(scenes, count)]


def perturbed(vectors: Sequence[Vector], count: int) -> Iterator[Vector]:
    """Give the vectors themselves, then more that lie about them, up to `count`."""
    generator = np.random.default_rng(0)
    yield from vectors[:count]
    for i in range(count - len(vectors)):
        near = vectors[i % len(vectors)] + generator.normal(0, NOISE, len(vectors[0]))
        yield (near / np.linalg.norm(near)).astype(np.float32)


def fill(index: EdgeIndex, vectors: Iterator[Vector]) -> float:
    """Add them in batches; return lenders a CPU second."""
    began, added = Instant.now(), 0
    while some := list(islice(vectors, BATCH)):
        index.add([_lender(added + i) for i in range(len(some))], some)
        added += len(some)
    return added / (Instant.now() - began).cpu_s


def _lender(number: int) -> Lender:
    name = f"{number:032x}"
    return Lender(id=name, tenant="t", prompt=name, terms=TERMS, skips=SKIPS, num_bytes=6000)


def searches(index: EdgeIndex, queries: Sequence[Vector]) -> list[Instant]:
    """Search for one prompt at a time."""
    taken = []
    for vector in queries:
        lookup = Lookup(vector=vector, terms=TERMS, tenant="t", skipped_steps=20)
        began = Instant.now()
        index.nearest([lookup])
        taken.append(Instant.now() - began)
    return taken


def embedding_ms(embedder: Embedder, prompts: Sequence[str], at_once: int) -> float:
    """Embed prompts, so many at once. Units: milliseconds of CPU a prompt, the median."""
    taken = []
    for first in range(0, len(prompts), at_once):
        began = Instant.now()
        embedder.embed(prompts[first : first + at_once])
        taken.append((Instant.now() - began).cpu_s * 1e3 / at_once)
    return median(taken)


@contextmanager
def index_of(count: int, vectors: Sequence[Vector]) -> Iterator[tuple[EdgeIndex, float]]:
    """Fill an index of this many lenders; it goes at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(EdgeIndex(Path(folder) / "index", len(vectors[0]))) as index,
    ):
        yield index, fill(index, perturbed(vectors, count))


def measure(embedder: Embedder, counts: Sequence[int], samples: int) -> dict[str, Figure]:
    """Time the encoder, then searches in indexes of these sizes."""
    figures = {}
    for turn, at_once in enumerate((1, 4, 32)):  # other prompts each time: it remembers them
        asked = captions(Split.TEST, 64 * (turn + 1))[-64:]
        name = f"embedding, {at_once} at once, CPU a prompt"
        figures[name] = plain(embedding_ms(embedder, asked, at_once), "ms")
    lent = captions(Split.TRAIN, CAPTIONS)
    known = [v for i in range(0, CAPTIONS, 32) for v in embedder.embed(lent[i : i + 32])]
    queries = embedder.embed(captions(Split.TEST, samples))
    for count in counts:
        with index_of(count, known) as (index, rate):
            searches(index, queries[:10])
            taken = searches(index, queries)
        figures[f"adding, up to {count}"] = plain(rate, "lenders/CPU s")
        cpu, wall = [t.cpu_s * 1e3 for t in taken], [t.wall_s * 1e3 for t in taken]
        figures[f"search in {count}, CPU, p50"] = plain(median(cpu), "ms")
        figures[f"search in {count}, CPU, p95"] = at_most(percentile(cpu, 0.95), BARS[count], "ms")
        figures[f"search in {count}, wall, p95"] = plain(percentile(wall, 0.95), "ms")
    return figures


def main(
    quick: Annotated[bool, typer.Option(help="10,000 lenders only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The last line only.")] = False,
) -> None:
    """Measure lookups. Example: `python -m bench.retrieve --quick`."""
    counts = [count for count in BARS if not quick or count <= 10_000]
    figures = measure(open_embedder(Settings()), counts, samples=200)
    where = machine(f"{os.environ.get('OMP_NUM_THREADS', 'all')} threads")
    raise SystemExit(finish("retrieve", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
