"""Command line of the load generator: `atelier load`, or `python -m loadgen.main`."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from core.errors import ConfigurationError
from loadgen.arrivals.patterns import BURSTY, MAX_CV, MAX_RUN_S, PERIOD_S, Pattern
from loadgen.ask import PROMPTS, Option
from loadgen.capacity.outcome import capacity_of
from loadgen.compare import compare, read_report
from loadgen.console import say, say_capacity, say_difference, tell
from loadgen.mixes.adapters import AdapterService
from loadgen.mixes.masks import MaskTrace
from loadgen.mixes.mix import RequestMix
from loadgen.page.lay_out import lay_out, rows_of
from loadgen.promise import broken
from loadgen.prompts import PromptSet, prompt_set, read_prompts
from loadgen.report import Report, make_report
from loadgen.sample import ClientOutcome, RequestSample
from loadgen.spec import LoadSpec
from loadgen.target import CapacityTerms, Follow, Limits, Target
from loadgen.trace_columns import MAX_IMAGES, MAX_STEPS
from reporting.files import write

EXAMPLE = "Example: atelier load --rate 5 --duration 30 --arrivals gamma --slo 10 --max-late 0.05"
app = typer.Typer(add_completion=False, epilog=EXAMPLE)

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


def finite(value: float | None) -> float | None:
    """Refuse infinity, which lower bounds let through, and what is no number where there is none.

    Raises:
        typer.BadParameter: it is such; typer adds the option's name.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number")
    return value


#: An option whose value is a finite number.
finite_option = partial(typer.Option, callback=finite)
#: One that says how long a run is, or how its gaps vary.
duration_option = partial(finite_option, max=MAX_RUN_S)
cv_option = partial(finite_option, "--cv", min=0.05, max=MAX_CV)
#: One that draws: a number is added to it for each image, and is a seed all the same.
seed_option = partial(typer.Option, min=0, max=2**62)


def refuse_beside_trace(context: typer.Context, *names: str) -> None:
    """Refuse options that draw arrivals, which are those of a trace.

    Raises:
        typer.BadParameter: one is given; it names both.
    """
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            said = "requests of --trace come when its rows say (docs/load.md): leave this out"
            raise typer.BadParameter(said, param_hint=f"--{name}")


@app.callback(invoke_without_command=True, epilog=EXAMPLE)
def load(
    context: typer.Context,
    rate: Annotated[float, finite_option(min=0.001, help="Requests a second.")] = 2.0,
    duration: Annotated[float, duration_option(min=0.1, help="Seconds to keep asking.")] = 20.0,
    arrivals: Annotated[Pattern, typer.Option(help="How requests come.")] = Pattern.POISSON,
    cv: Annotated[float, cv_option(help="Gamma: burstiness, 1: Poisson.")] = BURSTY,
    period: Annotated[float, finite_option(min=0.1, max=86400, help="Square: seconds.")] = PERIOD_S,
    trace: Annotated[
        Path | None, typer.Option(exists=True, help="CSV with a column `at`; instead of a rate.")
    ] = None,
    speed: Annotated[float, finite_option(min=0.001, help="Play the trace so fast.")] = 1.0,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; may be repeated.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(exists=True, help="A prompt a line, or JSON lines.")
    ] = None,
    drift: Annotated[
        float | None, finite_option(min=0.1, help="Seconds from easy prompts to hard and back.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Ask for this model.")] = None,
    application: Annotated[
        list[str] | None, typer.Option(help="Ask as this; several are asked by Zipf's law.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, max=MAX_STEPS, help="Denoising steps.")
    ] = None,
    images: Annotated[
        int, typer.Option(min=1, max=MAX_IMAGES, help="Of a job, up to so many.")
    ] = 1,
    edits: Annotated[float, finite_option(min=0, max=1, help="Share that are edits.")] = 0.0,
    masks: Annotated[MaskTrace, typer.Option(help="Whose masks.")] = MaskTrace.PRODUCTION,
    adapters: Annotated[
        AdapterService | None, typer.Option(help="LoRAs and ControlNets as in Katz' service.")
    ] = None,
    cancels: Annotated[float, finite_option(min=0, max=1, help="Share taken back.")] = 0.0,
    follow: Annotated[Follow, typer.Option(help="How ends are learnt.")] = Follow.LONG_POLL,
    slo: Annotated[float | None, finite_option(min=0.001, help="Seconds; then it is late.")] = None,
    max_late: Annotated[
        float | None, finite_option(min=0, max=1, help="Share that may be late, else exit 1.")
    ] = None,
    min_goodput: Annotated[
        float | None, finite_option(min=0, max=1, help="Quality on time, else exit 1.")
    ] = None,
    capacity: Annotated[
        bool, typer.Option("--find-capacity", help="Find the rate that keeps --max-late.")
    ] = False,
    warm_up: Annotated[float, finite_option(min=0, help="Capacity: uncounted seconds.")] = 10.0,
    against: Annotated[
        Path | None, typer.Option(exists=True, help="Compare with an earlier report.")
    ] = None,
    seed: Annotated[int, seed_option(help="Of arrivals, prompts and images.")] = 0,
    patience: Annotated[float, finite_option(min=0, help="Seconds to wait for one job.")] = 300.0,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("load-report"),
    url: Annotated[str, typer.Option(envvar="ATELIER_URL")] = "http://127.0.0.1:8000",
    key: Annotated[str | None, typer.Option(envvar="ATELIER_API_KEY", help="API key.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running service for images at given moments and report how it answered.

    The loop is open: requests leave when they are due, however many are still in flight.
    Ends with 1 if no request became an image, or a limit is broken.
    """
    if context.invoked_subcommand:
        return
    if trace is not None:
        refuse_beside_trace(context, "rate", "duration", "arrivals", "cv", "period")
    mix = RequestMix(
        applications=tuple(application or ()),
        model=model,
        steps=steps or 0,
        edits=edits,
        masks=masks,
        adapters=adapters,
        images=images,
        cancels=cancels,
        drift_s=drift,
    )
    spec = LoadSpec(
        arrivals=arrivals,
        rate=rate,
        duration_s=duration,
        cv=cv,
        period_s=period,
        trace=trace,
        speed=speed,
        mix=mix,
        seed=seed,
    )
    limits = Limits(slo_s=slo, max_late=max_late, min_goodput=min_goodput)
    _check(limits, mix, is_search=capacity, has_trace=trace is not None)
    known = _read_prompts(prompts, prompt or ())
    target = Target(url=url, key=key, follow=follow, patience_s=patience)
    said = {"url": url, "follow": follow.value, **spec.said()}
    if capacity:
        late = 0.05 if max_late is None else max_late
        promise = CapacityTerms(slo_s=slo, max_late=late, warm_up_s=warm_up)
        _search(spec, known, target, promise, said, out, as_json=as_json)
    _run(spec, known, target, limits, said, out, against, as_json=as_json)


@app.command("compare", epilog="Example: atelier load compare monday/report.json load-report")
def compare_runs(
    before: Annotated[Path, typer.Argument(exists=True, help="A report, or its folder.")],
    after: Annotated[Path, typer.Argument(exists=True, help="Another.")],
    as_json: AsJson = False,
) -> None:
    """Compare two runs, figure by figure."""
    say_difference(compare(read_report(before), read_report(after)), as_json=as_json)


def write_report(report: Report, samples: Sequence[RequestSample], folder: Path) -> list[Path]:
    """Write report.html, .png, .json and .csv, and samples.json."""
    paths = write(lay_out(report, samples), folder, machine=report, rows=rows_of(report))
    (folder / "samples.json").write_bytes(msgspec.json.encode(samples))
    return [*paths, folder / "samples.json"]


def _check(limits: Limits, mix: RequestMix, *, is_search: bool, has_trace: bool) -> None:
    if is_search and has_trace:
        raise typer.BadParameter("it draws its own requests", param_hint="--trace")
    if has_trace and (drawn := _drawn(mix)):
        said = "requests of --trace are what its columns say (docs/load.md): leave this out"
        raise typer.BadParameter(said, param_hint=drawn)
    is_limited = limits.max_late is not None or limits.min_goodput is not None
    if is_limited and limits.slo_s is None and not is_search:
        raise typer.BadParameter("say after how many seconds a job is late", param_hint="--slo")


def _drawn(mix: RequestMix) -> str | None:
    """Name an option that is drawn for each request, and so for none of a trace."""
    given = {
        "--application": len(mix.applications) > 1,
        "--images": mix.images > 1,
        "--edits": mix.edits > 0,
        "--adapters": mix.adapters is not None,
        "--cancels": mix.cancels > 0,
        "--drift": mix.drift_s is not None,
    }
    return next((name for name, is_given in given.items() if is_given), None)


def _read_prompts(path: Path | None, given: Sequence[str]) -> PromptSet:
    try:
        return read_prompts(path) if path else prompt_set(given or PROMPTS)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="--prompts") from error


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))


def _run(
    spec: LoadSpec,
    prompts: PromptSet,
    target: Target,
    limits: Limits,
    said: Mapping[str, Option],
    out: Path,
    against: Path | None,
    *,
    as_json: bool,
) -> NoReturn:
    import uvloop  # these two: every other command would wait for them

    from loadgen.run import run_load

    earlier = read_report(against) if against else None
    try:
        with _progress() as progress:
            samples = uvloop.run(run_load(spec, prompts, target, progress))
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error
    report = make_report(samples, said, slo_s=limits.slo_s)
    paths = write_report(report, samples, out)
    say(report, paths, as_json=as_json)
    if earlier and not as_json:
        say_difference(compare(earlier, report), as_json=False)
    faults = broken(limits, late=report.late, worth=report.goodput)
    for fault in faults:
        typer.echo(fault, err=True)
    is_good = bool(report.endings.get(ClientOutcome.SUCCEEDED)) and not faults
    raise typer.Exit(0 if is_good else 1)


def _search(
    spec: LoadSpec,
    prompts: PromptSet,
    target: Target,
    promise: CapacityTerms,
    said: Mapping[str, Option],
    out: Path,
    *,
    as_json: bool,
) -> NoReturn:
    import uvloop

    from loadgen.run import find_capacity

    try:
        searching = find_capacity(spec, prompts, target, promise, tell)
        search, slo_s = uvloop.run(searching)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from error
    found = capacity_of(search, said, slo_s, promise.max_late)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "capacity.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    say_capacity(found, path, as_json=as_json)
    raise typer.Exit(0 if found.capacity_per_s else 1)


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
