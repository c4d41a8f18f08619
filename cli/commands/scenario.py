"""Options that say what is simulated: load, costs and prompts; and how they are read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from catalog.models import read_models
from cli.stack.services import models_dir
from core.errors import ConfigurationError
from core.settings import PROFILE, get_settings
from loadgen.arrivals.patterns import Pattern
from loadgen.main import (
    cv_option,
    duration_option,
    finite_option,
    refuse_beside_trace,
    seed_option,
)
from loadgen.prompts import PromptSet, prompt_set, read_prompts
from loadgen.spec import LoadSpec
from loadgen.trace import read_trace
from loadgen.workload import Workload
from simulator.inputs import EXAMPLE, EXAMPLE_PROMPTS, KnownDevices, check_types, read_devices

Trace = Annotated[
    Path | None, typer.Option(exists=True, help="CSV with a column `at`; instead of a rate.")
]
Arrivals = Annotated[Pattern, typer.Option(help="How requests come.")]
Rate = Annotated[float | None, finite_option(min=0.001, help="Requests a second.")]
Duration = Annotated[float, duration_option(min=1.0, help="Seconds.")]
Burstiness = Annotated[float, cv_option(help="Gamma: 1 is Poisson.")]
Prompts = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        help='JSON lines: {"prompt": …, "class": null | NAME, "quality": {LEVEL: 0..1}}.',
    ),
]
ProfileFile = Annotated[
    Path | None,
    typer.Option(
        "--profile", help="As `atelier profile` writes it; else the service's, or an example."
    ),
]
Period = Annotated[
    float | None,
    finite_option(min=0.5, max=86400, help="Seconds between decisions; else the service's."),
]
Slots = Annotated[int | None, typer.Option(min=1, max=64, help="Images a worker makes at a time.")]
Seed = Annotated[int, seed_option(help="Of arrivals, prompts and workers.")]
ReportFolder = Annotated[Path | None, typer.Option("--out", help="Folder of the report.")]

#: Of whom nothing is known but what the profile says of all prompts.
UNKNOWN_PROMPT = "a prompt like any other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioSources:
    """Where costs, qualities and prompts come from."""

    known: KnownDevices
    prompts: PromptSet
    profile_path: Path
    prompts_path: Path | None


def read_sources(
    types: Collection[str], profile: Path | None, prompts: Path | None, *, option: str = "fleet"
) -> ScenarioSources:
    """Read the profile that is named, else the service's own if it knows these types of devices.

    Raises:
        ConfigurationError: a file cannot be read, or says nothing of a type.
    """
    settings = get_settings()
    models = models_dir(settings)  # from wherever we are called: `settings.models_dir` is relative
    own = (settings.data_dir / PROFILE, models.parent / PROFILE)
    path = profile or next((each for each in own if each.exists()), EXAMPLE)
    known = read_devices(path, read_models(models))
    if profile is None and not set(types) <= set(known.types):
        path, known = EXAMPLE, read_devices(EXAMPLE)
    check_types(types, known, option=option)
    is_example = path.resolve() == EXAMPLE.resolve()
    prompts_path = prompts or (EXAMPLE_PROMPTS if is_example else None)
    texts = read_prompts(prompts_path) if prompts_path else prompt_set([UNKNOWN_PROMPT])
    return ScenarioSources(known=known, prompts=texts, profile_path=path, prompts_path=prompts_path)


def read_load(
    context: typer.Context,
    found: ScenarioSources,
    trace: Path | None,
    arrivals: Pattern,
    rate: float | None,
    duration: float,
    cv: float,
    seed: int,
) -> Workload:
    """Read a trace, or draw requests.

    Raises:
        ConfigurationError: neither is said, or it cannot be read; the message names the line.
        typer.BadParameter: both are said.
    """
    if trace is not None:
        refuse_beside_trace(context, "rate", "duration", "arrivals", "cv")
        return read_trace(trace, found.prompts.texts, models=found.known.profile.models)
    if rate is None:
        raise ConfigurationError("arrivals: either --trace or --rate must be given")
    spec = LoadSpec(arrivals=arrivals, rate=rate, duration_s=duration, cv=cv, seed=seed)
    return spec.workload(found.prompts)


def show_assumed(console: Console, run: Mapping[str, object]) -> None:
    """Say what nobody said, or nobody simulates, of what was run."""
    for each in cast("list[str]", run["assumed"]):
        console.print(f"Assumed: {each}.", highlight=False, emoji=False, markup=False)
