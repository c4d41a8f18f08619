"""Which distributions does an extra of pyproject.toml install here, with all they need?"""

import tomllib
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.ops.compose import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def direct(extra: str) -> list[Requirement]:
    """Read an extra, following those that it names of the project itself."""
    found = [Requirement(text) for text in PROJECT["dependencies"]]
    for text in EXTRAS[extra]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            found += [each for other in requirement.extras for each in direct(other)]
        else:
            found.append(requirement)
    return found


def closure(requirements: list[Requirement]) -> set[str]:
    """Follow requirements to everything that pip would install on this machine."""
    found: set[str] = set()
    todo = [(requirement, frozenset(requirement.extras)) for requirement in requirements]
    while todo:
        requirement, extras = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in found and not extras:
            continue
        found.add(name)
        todo += [(each, frozenset(each.extras)) for each in _needed(name, extras)]
    return found


def _needed(name: str, extras: frozenset[str]) -> list[Requirement]:
    try:
        texts = requires(name) or []
    except PackageNotFoundError:  # not on this platform
        return []
    needed = [Requirement(text) for text in texts]
    return [each for each in needed if _applies(each, extras)]


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})
