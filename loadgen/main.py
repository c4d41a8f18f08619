"""Command line of the load generator: `atelier load`, or `python -m loadgen.main`."""

import asyncio
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from core.errors import ConfigurationError
from loadgen.arrivals import Pattern, arrive
from loadgen.ask import PROMPTS, Option, TimedRequest, make_asks
from loadgen.client import LoadClient, open_http
from loadgen.report import Report, make_report, summarise
from loadgen.sample import ClientOutcome, RequestSample
from loadgen.trace import read_trace

app = typer.Typer(add_completion=False)

EXAMPLE = "Example: atelier load --rate 5 --duration 30 --arrivals gamma --cv 4 --out load-report"


def raise_open_files() -> None:
    """Allow as many connections as the system lets this user have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _show(client: LoadClient, asked: int, progress: Progress) -> None:
    bar = progress.add_task("asking", total=asked)
    while True:
        tally = client.tally
        good = tally.endings.get(ClientOutcome.SUCCEEDED, 0)
        ended = sum(tally.endings.values())
        text = f"{tally.sent} sent · {tally.in_flight} in flight · {good} images · "
        progress.update(bar, completed=ended, description=f"{text}{ended - good} other")
        await asyncio.sleep(0.2)


async def drive(
    asks: Sequence[TimedRequest], url: str, key: str | None, patience_s: float, progress: Progress
) -> list[RequestSample]:
    """Send every ask and follow it, showing how far the run has come."""
    async with open_http(url, key) as http:
        client = LoadClient(http, patience_s=patience_s)
        shown = asyncio.create_task(_show(client, len(asks), progress))
        try:
            return await client.drive(asks)
        finally:
            shown.cancel()


def write_report(report: Report, samples: Sequence[RequestSample], folder: Path) -> list[Path]:
    """Write report.json, samples.json and report.html."""
    from loadgen.page import render  # matplotlib: every other command would wait for it

    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "report.json": msgspec.json.format(msgspec.json.encode(report)),
        "samples.json": msgspec.json.encode(samples),
        "report.html": render(report, samples).encode(),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return [folder / name for name in texts]


def _read_prompts(path: Path | None, given: Sequence[str]) -> Sequence[str]:
    if path is None:
        return given or PROMPTS
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line] or PROMPTS


@app.command(epilog=EXAMPLE)
def load(
    rate: Annotated[float, typer.Option(min=0.001, help="Requests a second.")] = 2.0,
    duration: Annotated[float, typer.Option(min=0.1, help="Seconds to keep asking.")] = 20.0,
    arrivals: Annotated[Pattern, typer.Option(help="How the gaps are made.")] = Pattern.POISSON,
    cv: Annotated[float, typer.Option(min=0.05, help="Gamma: burstiness, 1 is Poisson.")] = 2.0,
    trace: Annotated[
        Path | None, typer.Option(exists=True, help="CSV with a column at_s; instead of a rate.")
    ] = None,
    speed: Annotated[float, typer.Option(min=0.001, help="Play the trace so fast.")] = 1.0,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; may be repeated.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(exists=True, help="File with a prompt a line.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Ask for this model.")] = None,
    application: Annotated[str | None, typer.Option(help="Ask as this application.")] = None,
    steps: Annotated[int | None, typer.Option(help="Denoising steps.")] = None,
    seed: Annotated[int, typer.Option(help="Of arrivals, prompts and images.")] = 0,
    patience: Annotated[float, typer.Option(help="Seconds to wait for one job.")] = 300.0,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("load-report"),
    url: Annotated[str, typer.Option(envvar="ATELIER_URL")] = "http://127.0.0.1:8000",
    key: Annotated[str | None, typer.Option(envvar="ATELIER_API_KEY", help="API key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Ask a running service for images at given moments and report how it answered.

    The loop is open: requests leave when they are due, however many are still in flight.
    Ends with 1 if no request became an image.
    """
    raise_open_files()
    wanted: dict[str, Option] = {"model": model, "application": application, "steps": steps}
    options = {name: value for name, value in wanted.items() if value is not None}
    texts = _read_prompts(prompts, prompt or ())
    if trace:
        asks = _read_trace(trace, texts, options, speed)
    else:
        seconds = arrive(arrivals, rate, duration, cv=cv, seed=seed)
        asks = make_asks(seconds, texts, options, seed=seed)
    run: dict[str, Option] = {"url": url, "seed": seed, **options}
    shape: dict[str, Option] = {"arrivals": arrivals.value, "rate": rate, "duration": duration}
    run |= {"trace": str(trace), "speed": speed} if trace else shape
    if not trace and arrivals is Pattern.GAMMA:
        run["cv"] = cv
    samples = _drive(asks, url, key, patience)
    report = make_report(samples, run)
    _say(report, write_report(report, samples, out), as_json=as_json)
    raise typer.Exit(0 if report.endings.get(ClientOutcome.SUCCEEDED) else 1)


def _read_trace(
    path: Path, prompts: Sequence[str], options: Mapping[str, Option], speed: float
) -> list[TimedRequest]:
    try:
        return read_trace(path, prompts, options, speed=speed)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="--trace") from error


def _drive(
    asks: Sequence[TimedRequest], url: str, key: str | None, patience_s: float
) -> list[RequestSample]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        return asyncio.run(drive(asks, url, key, patience_s, progress))


def _say(report: Report, paths: Sequence[Path], *, as_json: bool) -> None:
    console = Console(soft_wrap=True)
    if as_json:
        typer.echo(msgspec.json.encode(report))
        return
    console.print(summarise(report))
    for error, count in report.errors.items():
        console.print(f"  {error}: {count}")
    console.print("Report: " + ", ".join(str(path) for path in paths))


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
