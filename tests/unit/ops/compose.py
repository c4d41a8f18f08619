"""compose.yaml as the tests read it: interpolated like Docker Compose does it."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "compose.yaml"

#: `$$`, `${NAME}`, `${NAME:-default}` and `${NAME:?message}`.
VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")


def example() -> dict[str, str]:
    """Fill in docker/env.example as an operator would."""
    lines = (ROOT / "docker" / "env.example").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines if re.match(r"\w+=", line)]
    filled = {name: f"a{name.lower()}".replace("_", "") for name in names}
    return filled | {
        "API_KEYS": '{"a-long-random-key": "shop"}',
        "FLOWER_AUTH": "atelier:secret",
        "WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    }


def interpolate(text: str, given: dict[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        value = given.get(match["name"])
        if value:
            return value
        assert match["kind"] == "-", f"{match['name']} is not in docker/env.example"
        return str(match["rest"])

    return VARIABLE.sub(replace, text)


def _walk(node: object, given: dict[str, str]) -> object:
    if isinstance(node, dict):
        return {key: _walk(value, given) for key, value in node.items()}
    if isinstance(node, list):
        return [_walk(value, given) for value in node]
    return interpolate(node, given) if isinstance(node, str) else node


def read_compose(given: dict[str, str] | None = None) -> dict[str, dict[str, dict[str, Any]]]:
    """Read the file; `given` are variables beside those that must be set."""
    variables = example() | (given or {})
    return _walk(yaml.load(COMPOSE.read_text(), yaml.CSafeLoader), variables)  # type: ignore[return-value]
