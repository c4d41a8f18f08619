"""Whether what a command names exists: programs, options, targets, modules, tests and URLs."""

import ast
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import typer
import yaml
from typer.exceptions import TyperException

from cli.main import command
from tests.map import ROOT

#: Programs of the system: what they are told is not checked.
SYSTEM = {
    "apt-get",
    "cd",
    "cp",
    "export",
    "git",
    "helm",
    "kubectl",
    "redis-cli",
    "ln",
    "mkdir",
    "npm",
    "openssl",
    "pip",
    "prometheus",
}
SYSTEM |= {"cat", "python3", "rclone", "rm", "sed", "tar"}


#: What a sentence may leave out: the value of the option it names, and files that a reader has.
_FINE = ("requires an argument", "does not exist")


def complaint(words: Sequence[str]) -> str | None:
    """Say what of a command does not exist; None if all of it does."""
    program = words[0].rpartition("/")[2]
    if program in _CHECKS:
        return _CHECKS[program](list(words[1:]))
    return None if program in SYSTEM else f"{program} is neither ours nor a program of the system"


def _atelier(words: list[str]) -> str | None:
    found, path = command(), ["atelier"]
    while words and words[0] in getattr(found, "commands", {}):
        path.append(words.pop(0))
        found = found.commands[path[-1]]
    if not words and len(path) > 1:
        return None  # a sentence names the command alone
    if hasattr(found, "commands") and not words[0].startswith("-"):
        return f"{' '.join(path)} has no command {words[0]}"
    try:
        found.make_context(" ".join(path), ["2" if word == "N" else word for word in words])
    except typer.Exit:
        return None  # --help
    except TyperException as error:
        told = error.format_message()
        is_fine = any(each in told for each in _FINE)
        return None if is_fine else f"{' '.join(path)}: {told}"
    return None


def _make(words: list[str]) -> str | None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    asked = [word for word in words if "=" not in word]
    return next((f"make has no {word}" for word in asked if word not in targets), None)


def _python(words: list[str]) -> str | None:
    if words[:1] != ["-m"]:
        return None
    path, rest = module(words[1]), words[2:]
    if words[1] in {"celery", "pip", "venv"}:
        return None
    if path is None:
        return f"there is no module {words[1]}"
    unknown = {word.partition("=")[0] for word in rest if word.startswith("--")} - options(path)
    return f"{words[1]} has no {', '.join(sorted(unknown))}" if unknown else None


def _pytest(words: list[str]) -> str | None:
    paths = [word.partition("::")[0] for word in words if word.startswith("tests/")]
    return next((f"there is no {path}" for path in paths if not (ROOT / path).exists()), None)


def _curl(words: list[str]) -> str | None:
    urls = [re.sub(r"^http://", "", word) for word in words]
    paths = [re.sub(r"^[^/]+|\?.*$", "", url) for url in urls if re.match(r"(localhost|127)", url)]
    served = [re.sub(r"\{[^}]+\}", "[^/]+", path) for path in _served()]
    missing = [path for path in paths if not any(re.fullmatch(known, path) for known in served)]
    return f"the api has no {missing[0]}" if missing else None


def _compose(words: list[str]) -> str | None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    if words[:1] != ["compose"]:
        return "only docker compose is ours"
    named = {word for word in words if re.fullmatch(r"[a-z]+-worker[\w-]*|profile|redis|api", word)}
    missing = named - set(services)
    return f"compose.yaml has no {missing}" if missing else None


_CHECKS: dict[str, Callable[[list[str]], str | None]] = {
    "atelier": _atelier,
    "curl": _curl,
    "docker": _compose,
    "make": _make,
    "pytest": _pytest,
    "python": _python,
}


@cache
def _served() -> list[str]:
    from core.settings import Settings
    from run.api import create_app

    return ["/", "/docs", "/openapi.json", *create_app(Settings()).openapi()["paths"]]


def module(name: str) -> Path | None:
    """Find the file of a module of this repository."""
    path = ROOT / name.replace(".", "/")
    files = (path.with_suffix(".py"), path / "__main__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def tree(path: Path) -> ast.Module:
    """Parse a file, once."""
    return ast.parse(path.read_text())


def options(path: Path) -> set[str]:
    """Options of a module: parameters of its main function, and what is declared by name."""
    mains = [n for n in tree(path).body if isinstance(n, ast.FunctionDef)]
    declared = re.findall(r'"(--[\w-]+)', path.read_text())
    named = (arg.arg for main in mains for arg in (*main.args.args, *main.args.kwonlyargs))
    return {"--" + name.replace("_", "-") for name in named} | set(declared)
