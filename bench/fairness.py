"""Benchmark fairness: what one tenant waits while another sends ten times what the fleet makes.

A model that takes its time and computes nothing (family `paced`), so that what is measured is who
is served next. First a tenant has its share of the fleet, half of it, to itself; then it shares all
of it with one that floods it.

    python -m bench.fairness --quick
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import typer

from bench.parts.paced_service import MODELS, PROMPT, SLOTS, STEPS, make
from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from cli.stack.running import Running, running
from core.log import configure
from loadgen.arrivals.gaps import poisson
from loadgen.ask import Option, TimedRequest
from loadgen.client.load_client import LoadClient
from loadgen.client.session import open_session
from loadgen.sample import ClientOutcome, RequestSample

MODEL = "fast"
WORKERS = 2  #: of the fleet; a tenant's share is half of them
KEYS = {"key-of-flood": "flood", "key-of-other": "other"}
FLOOD, OTHER = KEYS
#: Of what the fleet makes, and of what a share of it makes.
FLOOD_LOAD, OTHER_LOAD = 10.0, 0.6
#: The flood comes first, so that it has filled the queue; what comes then is measured.
HEAD_START_S = 5.0
PATIENCE_S = 120.0


def main(
    quick: bool = typer.Option(False, help="20 s of load in place of 90."),
    as_json: bool = typer.Option(False, "--json", help="Only the JSON object."),
) -> None:
    """Measure what a flood costs others. Example: `python -m bench.fairness --quick`."""
    configure("error", is_json=False)
    seconds = 20.0 if quick else 90.0
    with tempfile.TemporaryDirectory() as name:
        models = Path(name) / "models"
        make(models, [MODEL])
        alone, _ = _run(Path(name) / "alone", models, WORKERS // 2, seconds, flood=0.0)
        beside, flood = _run(Path(name) / "beside", models, WORKERS, seconds, flood=FLOOD_LOAD)
    figures = _figures(alone, beside, flood)
    raise SystemExit(finish("fairness", figures, where=machine("1 thread"), is_json=as_json))


def per_worker() -> float:
    """Jobs that a worker makes in a second with all of its slots taken."""
    step_s, _, _ = MODELS[MODEL]
    return SLOTS / (STEPS * step_s * (1 + 0.3 * (SLOTS - 1)))


def _run(
    folder: Path, models: Path, workers: int, seconds: float, *, flood: float
) -> tuple[list[RequestSample], list[RequestSample]]:
    """Let the one tenant ask alone or beside a flood; return what became of both."""
    env = {
        "ATELIER_MODELS_DIR": str(models),
        "ATELIER_MAX_SLOTS": str(SLOTS),
        "ATELIER_LATENTS_GIB": "0",
        "ATELIER_SCORE_SHARE": "0",
        "ATELIER_API_KEYS": msgspec.json.encode(KEYS).decode(),
    }
    share = OTHER_LOAD * per_worker() * WORKERS / 2
    asked = _asks(share, seconds, seed=1, start_s=HEAD_START_S)
    flooding = (
        _asks(flood * per_worker() * workers, HEAD_START_S + seconds, seed=2) if flood else []
    )
    with running(folder, workers=workers, env=env) as service:
        return asyncio.run(_both(service, asked, flooding))


def _asks(rate: float, seconds: float, *, seed: int, start_s: float = 0.0) -> list[TimedRequest]:
    options: dict[str, Option] = {"model": MODEL, "quality": "exact", "width": 64, "height": 64}
    return [
        TimedRequest(at_s=start_s + float(at_s), prompt=PROMPT, options=options)
        for at_s in poisson(rate, seconds, seed=seed)
    ]


async def _both(
    service: Running, asked: Sequence[TimedRequest], flooding: Sequence[TimedRequest]
) -> tuple[list[RequestSample], list[RequestSample]]:
    await _drive(service, OTHER, _asks(1.0, 5.0, seed=3))  # everything is loaded, and measured
    return tuple(  # type: ignore[return-value]
        await asyncio.gather(_drive(service, OTHER, asked), _drive(service, FLOOD, flooding))
    )


async def _drive(service: Running, key: str, asks: Sequence[TimedRequest]) -> list[RequestSample]:
    async with open_session(service.addresses.api, key) as session:
        return await LoadClient(session, patience_s=PATIENCE_S).drive(asks)


def _figures(
    alone: Sequence[RequestSample], beside: Sequence[RequestSample], flood: Sequence[RequestSample]
) -> dict[str, Figure]:
    before_s, after_s = _p95_s(alone), _p95_s(beside)
    return {
        "p95, beside the flood / with half the fleet alone": at_most(
            after_s / before_s, 1.25, "ratio"
        ),
        "p95, half the fleet alone": plain(before_s, "s"),
        "p95, beside the flood": plain(after_s, "s"),
        "median, half the fleet alone": plain(_latency_s(alone, 50), "s"),
        "median, beside the flood": plain(_latency_s(beside, 50), "s"),
        "made of what was asked beside the flood": at_least(_made(beside), 1.0, "share"),
        "made of what was asked alone": plain(_made(alone), "share"),
        "flood: asked": plain(len(flood), "jobs"),
        "flood: made": plain(_made(flood), "share"),
    }


def _p95_s(samples: Sequence[RequestSample]) -> float:
    return _latency_s(samples, 95)


def _latency_s(samples: Sequence[RequestSample], percentile: float) -> float:
    made = [each.latency_s for each in samples if each.ending is ClientOutcome.SUCCEEDED]
    return float(np.percentile(made, percentile)) if made else float("inf")


def _made(samples: Sequence[RequestSample]) -> float:
    made = sum(each.ending is ClientOutcome.SUCCEEDED for each in samples)
    return made / max(1, len(samples))


if __name__ == "__main__":
    typer.run(main)
