"""Reference pages, written from the code itself: the HTTP API, settings, commands. Pure."""

import ast
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cli.main import app as atelier
from core.settings import Settings
from run.api import create_app

ROOT = Path(__file__).parents[1]
METHODS = ("get", "post", "put", "patch", "delete")


def http() -> str:
    """Write every route, then every schema that one of them names."""
    schema = create_app(Settings(_env_file=None)).openapi()
    tags: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                said = "\n".join(_route(method, path, methods[method]))
                tags.setdefault(methods[method].get("tags", ["other"])[0], []).append(said)
    routes = "\n".join(f"\n## {tag.capitalize()}\n{''.join(each)}" for tag, each in tags.items())
    models = "".join(_model(n, each) for n, each in sorted(schema["components"]["schemas"].items()))
    return f"{routes}\n## Schemas\n{models}"


def _route(method: str, path: str, told: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### {method.upper()} {path}\n"
    yield f"{_plain(told.get('summary', ''))}. {_plain(told.get('description', ''))}\n"
    if parameters := told.get("parameters", []):
        rows = [
            (f"`{each['name']}`", each["in"], _kind(each["schema"]), _about(each["schema"], each))
            for each in parameters
        ]
        yield _table(("parameter", "in", "kind", "meaning"), rows)
    for media, content in told.get("requestBody", {}).get("content", {}).items():
        yield f"Body: `{media}`, {_kind(content.get('schema', {}))}\n"
    answers = [
        (f"`{code}`", _answer(each), _plain(each.get("description", "")))
        for code, each in told["responses"].items()
    ]
    yield _table(("answer", "body", "meaning"), answers)


def _answer(told: Mapping[str, Any]) -> str:
    kinds = {_kind(each.get("schema", {})) for each in told.get("content", {}).values()}
    return ", ".join(sorted(kinds))


def _model(name: str, told: Mapping[str, Any]) -> str:
    rows = [
        (
            f"`{field}`" + (" *" if field in told.get("required", []) else ""),
            _kind(each),
            _about(each, each),
        )
        for field, each in told.get("properties", {}).items()
    ]
    about = _plain(told.get("description", ""))
    values = ", ".join(f"`{each}`" for each in told.get("enum", []))
    table = _table(("field (* required)", "kind", "meaning"), rows) if rows else values
    return f"\n### {name}\n\n{about}\n\n{table}\n"


def _kind(told: Mapping[str, Any]) -> str:
    if name := told.get("$ref", "").rpartition("/")[2]:
        return f"[{name}](#{name.lower()})"
    if several := told.get("anyOf") or told.get("oneOf"):
        return " or ".join(dict.fromkeys(_kind(each) for each in several))
    if told.get("type") == "array":
        return f"list of {_kind(told.get('items', {}))}"
    return str(told.get("type", "anything"))


def _about(schema: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    limits = {"minimum": "from", "maximum": "to", "maxLength": "characters up to"}
    said = [f"{word} {schema[key]}" for key, word in limits.items() if key in schema]
    default = [f"default `{schema['default']}`"] if schema.get("default") is not None else []
    end = f" ({', '.join(said + default)})" if said or default else ""
    return _plain(told.get("description", schema.get("description", ""))) + end


def settings() -> str:
    """Write a table of variables a group of settings."""
    path = ROOT / "core/settings.py"
    tree = ast.parse(path.read_text())
    (found,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Settings"]
    comments = _comments(path)
    groups: dict[str, list[tuple[str, str, str]]] = {}
    group, last = "", 0
    for field in found.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            last = field.end_lineno or last
            continue
        before = [comments[n] for n in range(last + 1, field.lineno) if n in comments]
        group = next((c[2:] for c in before if not c.startswith("#:")), group)
        end = field.end_lineno or field.lineno
        inside = [comments[n] for n in range(field.lineno, end + 1) if n in comments]
        told = " ".join(c.removeprefix("#:").strip() for c in [*before, *inside] if c[:2] == "#:")
        row = (f"`ATELIER_{field.target.id.upper()}`", _default(field.target.id), _plain(told))
        groups.setdefault(group, []).append(row)
        last = end
    head = ("variable", "default", "meaning")
    return "".join(f"\n## {g.capitalize()}\n\n{_table(head, rows)}" for g, rows in groups.items())


def _comments(path: Path) -> dict[int, str]:
    """Every comment of a file by its line; one that goes on below it in full."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}


def _default(name: str) -> str:
    value = Settings.model_fields[name].default
    shown = getattr(value, "get_secret_value", lambda: value)()
    return f"`{shown}`" if str(shown) not in ("", "None") else ""


def commands() -> str:
    """Write every command of `atelier` with its options."""
    return "".join(_command(typer.main.get_command(atelier), "atelier"))


def _command(command: TyperCommand | TyperGroup, path: str) -> Iterator[str]:
    if path != "atelier":
        yield f"\n## {path}\n\n{_plain(command.help or '')}\n\n"
    rows = [
        (" ".join(f"`{each}`" for each in _words(param)), _plain(getattr(param, "help", "") or ""))
        for param in command.params
        if "--help" not in param.opts and not getattr(param, "hidden", False)
    ]
    if path != "atelier" and rows:
        yield _table(("option", "meaning"), rows)
    if command.epilog:
        kind, _, example = command.epilog.partition(": ")
        yield f"\n{kind}:\n\n```bash\n{example}\n```\n"
    for name, each in getattr(command, "commands", {}).items():
        yield from _command(each, f"{path} {name}")


def _words(param: TyperArgument | TyperOption) -> Sequence[str]:
    is_option = any(each.startswith("-") for each in param.opts)
    return (
        [*param.opts, *param.secondary_opts] if is_option else [param.metavar or param.name.upper()]
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(each)} |\n" for each in lines) + "\n"


def _plain(text: str) -> str:
    """Keep what is between backticks; elsewhere no letter means anything but itself."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    parts[::2] = [re.sub(r"([\\*_<>{}\[\]|#])", r"\\\1", each) for each in parts[::2]]
    parts[1::2] = [each.replace("|", r"\|") for each in parts[1::2]]
    return "".join(parts)


if __name__ == "__main__":
    for page in sys.argv[1:]:
        print({"http": http, "settings": settings, "commands": commands}[page]())  # noqa: T201
