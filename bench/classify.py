"""Benchmark the prompt classifier: quality gained by its routing, and latency.

Quality: prompts that no classifier saw, each made at every level several times. At the same loads
of the levels are compared: nobody knows anything (random), the plan's rows of the classes
(by_class), what the classifier expects of each prompt by itself (by_prompt), whoever has seen the
very images that are judged (lucky) or all others of the prompt (foreseen), and whoever knows the
expected quality (perfect): `zoo.quality.routed` says how that is estimated. Loads are those of the
levels that were seen to be optimal, and those that are best for prompts that nobody tells apart
while so much of the time between the fastest level and the slowest is spent. Time: of one thread.

    python -m bench.classify --quick
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import msgspec
import numpy as np
import typer

from bench.parts.report import (
    Figure,
    Instant,
    at_least,
    at_most,
    finish,
    machine,
    percentile,
    plain,
)
from bench.retrieve import captions
from bench.route import await_plan, cpu_seconds, report_once, running
from classifier.encoder.installed import open_encoder
from classifier.labels import Labels, read_labels
from classifier.trained import TrainedClassifier
from classifier.training.evaluate import evaluate
from cli.stack.ports import free_port
from core.placement import PlacementQuery
from core.settings import CLASSIFIER, Settings
from scheduler.profile.profile_file import Measured, read_measured
from storage.redis.server import find_server_binary, server_command
from zoo.prompts import Split
from zoo.quality.routed import Routed, optimal_loads, planned_loads, routed

ZOO = Path(__file__).parents[1] / "zoo"
HELD = ("shapes-xl", "shapes-s", "shapes-turbo")  #: one by each worker of the service
BUSY = (0.25, 0.5, 0.75)  #: between all prompts at the fastest level and all at the slowest
AT_ONCE = 64  #: prompts of one call
FAMILIES = {"smaller models": "sm", "skipped steps": "ac", "all levels": "all"}


def worth(
    classifier: TrainedClassifier, labels: Labels, measured: Measured
) -> Iterator[tuple[str, Figure]]:
    """Compare who knows how much, by family of levels."""
    expected = classifier.expect(labels.prompts)
    rows, classes = classifier.classes, classifier.classify(labels.prompts)
    row_of = np.array([rows.index(name) for name in classes])
    tau = measured.tau[measured.about.device]
    for title, family in FAMILIES.items():
        known = [i for i, x in enumerate(labels.levels) if x in measured.families[family].levels]
        some = labels.at(known)
        table = np.array(
            [[classifier.card.classes.quality[row][x] for x in some.levels] for row in rows]
        )
        several = {"optimal levels": optimal_loads(some)} | {
            f"{busy:.0%} busy": planned_loads(some, [tau[x] for x in some.levels], busy)
            for busy in BUSY
        }
        compared = {
            name: routed(some, expected[:, known], row_of, table, loads)
            for name, loads in several.items()
        }
        for name, found in compared.items():
            yield from _compared(f"{title}, {name}", found)
        seen, *planned = compared.values()
        yield f"{title}: gap closed, optimal levels", at_least(_closed([seen]), 0.7, "")
        yield f"{title}: gap closed, loads of plans", at_least(_closed(planned), 0.7, "")
    told = evaluate(classifier, labels)
    yield "images judged", plain(told.images, "images")
    yield "squared error, less than of the mean", plain(told.skill, "")
    yield "calibration error", plain(told.calibration, "of quality")


def _compared(title: str, found: Routed) -> Iterator[tuple[str, Figure]]:
    for name in ("random", "by_class", "by_prompt", "perfect", "lucky", "foreseen"):
        yield f"{title}: {name}", plain(getattr(found, name), "")


def _closed(several: Sequence[Routed]) -> float:
    """Tell which part of the gap the classes close, over some loads."""
    pairs = [(each.by_class - each.random, each.perfect - each.random) for each in several]
    return sum(gained for gained, _ in pairs) / sum(gap for _, gap in pairs)


def times(classifier: TrainedClassifier, count: int) -> Iterator[tuple[str, Figure]]:
    """Time prompts it has not seen, one by one and together."""
    prompts = captions(Split.TEST, 2 * count)
    taken = []
    for prompt in prompts[:count]:
        began = Instant.now()
        classifier.classify([prompt])
        taken.append(Instant.now() - began)
    yield (
        "one prompt, CPU, p99",
        at_most(percentile([t.cpu_s * 1e3 for t in taken], 0.99), 25, "ms"),
    )
    yield "one prompt, wall, p99", plain(percentile([t.wall_s * 1e3 for t in taken], 0.99), "ms")
    yield "batched", at_least(alone(classifier, prompts[count:]), 200, "prompts/CPU s")


def alone(classifier: TrainedClassifier, prompts: Sequence[str]) -> float:
    """Classify batches; count prompts a CPU second."""
    began = Instant.now()
    for first in range(0, len(prompts), AT_ONCE):
        classifier.classify(prompts[first : first + AT_ONCE])
    return len(prompts) / (Instant.now() - began).cpu_s


def through(rate: float, count: int) -> Iterator[tuple[str, Figure]]:
    """Ask the service: one prompt at a time, then many, none of which it has seen."""
    prompts = captions(Split.VALIDATION, 2 * count)
    with (
        tempfile.TemporaryDirectory() as folder,
        service(Path(folder)) as (url, pid),
        httpx.Client() as client,
    ):
        ask(client, url, prompts[:1])
        wall = [ask(client, url, [prompt]).wall_s * 1e3 for prompt in prompts[:count]]
        began = cpu_seconds(pid)
        for first in range(count, 2 * count, AT_ONCE):
            ask(client, url, prompts[first : first + AT_ONCE])
        served = count / (cpu_seconds(pid) - began)
    yield "service, one a call, wall, p50", plain(percentile(wall, 0.5), "ms")
    yield "service, one a call, wall, p99", at_most(percentile(wall, 0.99), 40, "ms")
    yield f"service, {AT_ONCE} a call", plain(served, "prompts/CPU s")
    yield "classifier's part of the service's CPU", plain(served / rate, "")


def ask(client: httpx.Client, url: str, prompts: Sequence[str]) -> Instant:
    """Have prompts placed."""
    queries = [PlacementQuery(prompt=prompt, models=HELD) for prompt in prompts]
    body = msgspec.json.encode({"queries": queries})
    began = Instant.now()
    answer = client.post(f"{url}/route", content=body).raise_for_status()
    taken = Instant.now() - began
    if any("error" in item for item in answer.json()["placements"]):
        raise SystemExit("the service placed nothing")
    return taken


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, int]]:
    """Run Redis, workers that report once, and the scheduler with the zoo's models."""
    with ExitStack() as stack:
        store_port, port = free_port(), free_port()
        stack.enter_context(running(server_command(find_server_binary(), folder, store_port)))
        redis = f"redis://127.0.0.1:{store_port}/0"
        settings = {"REDIS_URL": redis, "MODELS_DIR": ZOO / "weights", "DATA_DIR": folder}
        settings |= {"SCHEDULER_PORT": port, "WORKER_STALE_S": 3600, "LATENTS_GIB": 0}
        settings |= {"CLASSIFIER_DIR": ZOO / CLASSIFIER, "CLASSIFY_BUDGET_S": 60}
        environ = os.environ | {f"ATELIER_{name}": str(value) for name, value in settings.items()}
        for name in HELD:
            report_once(redis, name)
        process = stack.enter_context(running([sys.executable, "-m", "run.scheduler"], environ))
        await_plan(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}", process.pid


def main(
    quick: Annotated[bool, typer.Option(help="Fewer prompts are timed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The last line only.")] = False,
) -> None:
    """Measure the classifier. Example: `python -m bench.classify --quick`."""
    count = 256 if quick else 1024
    classifier = TrainedClassifier(ZOO / CLASSIFIER, open_encoder(Settings()))
    labels = read_labels(ZOO / CLASSIFIER / "test.jsonl.gz")
    figures = dict(worth(classifier, labels, read_measured(ZOO / "profile.json")))
    figures |= times(classifier, count)
    figures |= through(figures["batched"].value, count)
    where = machine(f"{os.environ.get('OMP_NUM_THREADS', 'all')} threads")
    raise SystemExit(finish("classify", figures, where=where, is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
