"""Hold the whole service, with keys, to the description of its API, by tools of others.

Everything is real: `atelier up` with a small model, and keys. schemathesis draws requests from
`/openapi.json`, right and wrong ones, as an operator, as a tenant that is limited and as a
stranger, and holds each answer against what it says; openapi-python-client writes a client, which
makes an image and an edit and reads problems. Both tools live in an environment of their own
(`bench/conforming/requirements.txt`), made by pip at first.

    python -m bench.conformance --cases 2000
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import httpx
import typer
from PIL import Image

from bench.conforming.tools import ROOT, tool
from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from cli.stack.running import running

#: Makes the images that are looked at.
REAL: Final = "shapes-tiny"
#: Makes those of drawn requests: none of them waits for the ones before it.
INSTANT: Final = {"name": "instant", "family": "noop", "load_s": 0.1, "quality": 1.0}
KEY: Final = "the operator's own long random key"
TENANTS: Final = "the key of a tenant that is limited"
#: Who sends drawn requests, by their keys.
SENDERS: Final = (KEY, TENANTS, "the key of nobody")
#: Of the tenant: soon all is refused that can be refused.
LIMITS: Final = {"jobs_per_s": 0.1, "burst": 9, "open_jobs": 5, "kept_bytes": 5000}
#: Seconds after which a request that is not answered hangs: images are made meanwhile.
HANGS_S: Final = 120
#: Checks that are not made: what is kept and served decides too whether a request can be accepted.
UNCHECKED: Final = "positive_data_acceptance"


def prepare(folder: Path) -> dict[str, str]:
    """Write what a service needs, and return its settings."""
    models = folder / "models"
    (models / "instant").mkdir(parents=True)
    (models / "instant" / "atelier.json").write_text(json.dumps(INSTANT))
    (models / REAL).symlink_to(ROOT / "zoo" / "weights" / REAL)
    return {
        "ATELIER_MODELS_DIR": str(models),
        "ATELIER_CONTROLNETS_DIR": os.devnull,
        "ATELIER_OPERATOR_KEYS": json.dumps([KEY]),
        "ATELIER_API_KEYS": json.dumps({TENANTS: "limited"}),
        "ATELIER_SCORE_SHARE": "0",
    }


def describe(url: str, folder: Path) -> Path:
    """Keep the description of the API in a file."""
    path = folder / "openapi.json"
    path.write_bytes(httpx.get(f"{url}/openapi.json", timeout=30.0).raise_for_status().content)
    return path


def limit(url: str) -> None:
    """Give the tenant its limits."""
    headers = {"Authorization": f"Bearer {KEY}"}
    path = f"{url}/v1/tenants/limited"
    httpx.patch(path, json=LIMITS, headers=headers, timeout=30.0).raise_for_status()


def draw_cases(
    document: Path, url: str, key: str, cases: int, folder: Path, seed: int
) -> dict[str, Any]:
    """Send drawn requests by a key; return what schemathesis reports of the answers."""
    report = folder / "report.json"
    operations = sum(map(len, json.loads(document.read_text())["paths"].values()))
    options = {
        "url": url,
        "header": f"Authorization: Bearer {key}",
        "max-examples": str(max(1, cases // operations)),
        "phases": "examples,coverage,fuzzing,stateful",
        "checks": "all",
        "exclude-checks": UNCHECKED,
        "request-timeout": str(HANGS_S),
        "workers": "2",
        "seed": str(seed),
        "report": "json",
        "report-json-path": str(report),
    }
    named = [f"--{name}={value}" for name, value in options.items()]
    command = [tool("schemathesis"), "run", str(document), *named]
    done = subprocess.run(
        [*command, "--continue-on-failure", "--no-color"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    if done.returncode:
        typer.echo(done.stdout, err=True)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def generate(document: Path, folder: Path) -> Path:
    """Have a client written; raises CalledProcessError."""
    client = folder / "generated"
    command = [tool("openapi-python-client"), "generate", "--path", str(document)]
    options = ["--meta", "none", "--output-path", str(client), "--overwrite"]
    environment = {**os.environ, "PATH": f"{Path(tool('ruff')).parent}:{os.environ['PATH']}"}
    subprocess.run([*command, *options], check=True, capture_output=True, env=environment)
    return client


def use(client: Path, url: str, folder: Path) -> dict[str, Any]:
    """Have the generated client make an image and an edit, and read problems."""
    photo, mask = folder / "photo.png", folder / "mask.png"
    photo.write_bytes(picture("RGB", "white"))
    mask.write_bytes(picture("L", 255))
    program = Path(__file__).parent / "conforming" / "use_generated.py"
    command = [tool("python"), *map(str, (program, client, url, KEY, REAL, photo, mask))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        typer.echo(done.stderr, err=True)
    told: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return told


def picture(mode: str, colour: str | int) -> bytes:
    """Write a small picture of one colour."""
    written = BytesIO()
    Image.new(mode, (64, 64), colour).save(written, "png")
    return written.getvalue()


def figures_of(
    reports: Sequence[Mapping[str, Any]], told: Mapping[str, Any], cases: int
) -> dict[str, Figure]:
    """Say what was found."""
    failed = [failure for each in reports for failure in each["failures"]]
    broken = [error for each in reports for error in each["errors"]]
    errors = sum(each["count"] for each in failed if each["type"] == "ServerError")
    hangs = sum(each["count"] for each in broken if each["title"] == "Network Error")
    is_made = told.get("made") == told.get("edited") == "succeeded"
    is_read = told.get("problem") == 422 and told.get("fields") == ["n", "prompt"]
    return {
        "cases": at_least(sum(each["test_cases"]["generated"] for each in reports), cases, ""),
        "5xx": at_most(errors, 0, ""),
        "undocumented": at_most(sum(each["count"] for each in failed) - errors, 0, ""),
        "hangs": at_most(hangs, 0, ""),
        "errors of schemathesis": plain(sum(each["count"] for each in broken) - hangs, ""),
        "generated_images": at_least(2 if is_made else 0, 2, ""),
        "generated_problems": at_least(1 if is_read else 0, 1, ""),
    }


def main(
    cases: int = typer.Option(2000, help="Requests that are drawn, at least."),
    seed: int = typer.Option(1, help="Of what is drawn."),
    quick: bool = typer.Option(False, help="A few hundred cases."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
) -> None:
    """Hold a live service to its description. Example: `python -m bench.conformance`."""
    cases = min(cases, 300) if quick else cases
    folder = Path(tempfile.mkdtemp())
    try:
        with running(folder / "data", env=prepare(folder)) as service:
            url = service.addresses.api
            document = describe(url, folder)
            told = use(generate(document, folder), url, folder)
            limit(url)
            each = cases // len(SENDERS)
            reports = [draw_cases(document, url, key, each, folder, seed) for key in SENDERS]
        figures = figures_of(reports, told, cases)
    finally:
        shutil.rmtree(folder)
    raise SystemExit(finish("conformance", figures, where=machine(), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
