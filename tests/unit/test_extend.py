"""The lists of docs/extend.md are true."""

import re
from collections.abc import Iterator

import pytest

from tests.map import HOUSES, ROOT

GUIDE = (ROOT / "docs/extend.md").read_text()
ROW = re.compile(r"^\| `([\w/.]+)` \| .* \| (`+) ?(.+?) ?\2 \|$", re.MULTILINE)


def sections() -> dict[str, list[tuple[str, str]]]:
    """By heading: each file that is named, and what stands where one registers."""
    parts = re.split(r"^## (.+)$", GUIDE, flags=re.MULTILINE)[1:]
    return {
        name: [(row[1], row[3].replace("\\|", "|")) for row in ROW.finditer(text)]
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


APPROXIMATIONS, LEVELS = "core/levels/approximation.py", "core/levels/level.py"
ROWS = [(name, file, beside) for name, rows in sections().items() for file, beside in rows]


def mentioning(word: str) -> Iterator[str]:
    """Name every file of the service in which a word stands."""
    for house in HOUSES:
        for path in (ROOT / house).rglob("*"):
            if path.suffix in {".py", ".lua"} and re.search(word, path.read_text()):
                yield str(path.relative_to(ROOT))


def test_every_row_of_the_guide_is_read() -> None:
    assert len(ROWS) == len(re.findall(r"^\| `", GUIDE, re.MULTILINE))


@pytest.mark.parametrize(("name", "file", "beside"), ROWS)
def test_what_the_guide_names_stands_where_it_says(name: str, file: str, beside: str) -> None:
    assert beside in (ROOT / file).read_text(), f"{name}: {file} has no {beside}"


def test_a_field_of_a_request_is_five_files() -> None:
    assert len(sections()["A field of a request"]) <= 5


def test_nothing_else_knows_a_policy() -> None:
    told = {file for file, _ in sections()["A policy"]}
    assert set(mentioning(r"\bsommelier\b(?!`)")) == told


def test_nothing_else_knows_a_family() -> None:
    family, checkpoints = sections()["A family of models"], sections()["Checkpoints of a family"]
    assert len(family) == 2
    told = {file for file, _ in [*family, *checkpoints]}
    assert set(mentioning(r"(?i)flux_?runner|[\"']flux[\"']")) == told


def test_nothing_else_knows_a_sampler() -> None:
    told = {file for file, _ in sections()["A sampler"]}
    assert set(mentioning(r"\bHeunDiscreteScheduler\b")) == told


def test_the_webhook_schedule_is_in_one_file() -> None:
    assert set(mentioning(r"\bSCHEDULE_S\b")) == {"tasks/jobs/webhook.py"}


def test_no_other_file_knows_the_field() -> None:
    told = {file for file, _ in sections()["A field of a request"]}
    assert {f for f in mentioning(r"\bnegative_prompt\b") if f.endswith(".py")} == told


def test_a_kind_of_approximation_is_in_one_file() -> None:
    """Nothing else tells kinds apart, or reads and writes what stands behind the `@`."""
    assert set(mentioning(r"\bSkippedSteps\b|\bExact\)|\(Approximation\)")) == {APPROXIMATIONS}
    assert set(mentioning(r"partition\(\"@\"\)|\bapproximation\.code\b")) == {LEVELS}
    assert len(sections()["An approximation"]) <= 3  # the bar is 8


def test_skipped_steps_are_known_to_what_is_about_latents_alone() -> None:
    told = {file for file, _ in sections()["Latents to start from"]}
    knowing = set(mentioning(r"\b(skipped_steps|SKIPS|whole_skips|skipping)\b|@0\b"))
    assert knowing == told | {APPROXIMATIONS}
