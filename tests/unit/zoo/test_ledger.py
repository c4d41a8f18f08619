from pathlib import Path

import pytest

from classifier.labels import Origin, read_labels
from core.errors import ConfigurationError
from core.levels.level import Level
from zoo.quality.draws import Draw
from zoo.quality.ledger import Ledger

FAST, SLOW = Level(model="tiny"), Level(model="base")
ORIGIN = Origin(steps=10)
#: Two prompts have the same words.
CAPTIONS = ("a star", "a ring", "a star", "a cross")


def a_draw(level: Level, *rows: int, number: int = 0) -> Draw:
    return Draw(level=level, number=number, rows=rows, seeds=rows)


DRAWS = [a_draw(FAST, 1, 2), a_draw(SLOW, 2, 3), a_draw(FAST, 0, 3), a_draw(FAST, 1, 2, number=1)]


def a_ledger(path: Path) -> Ledger:
    return Ledger(path, [FAST, SLOW], CAPTIONS, ORIGIN)


def test_what_is_in_the_file_is_not_made_again_and_the_rest_joins_it(tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    first = a_ledger(path)
    assert first.missing(DRAWS) == DRAWS
    first.add(DRAWS[0], [0.1, 0.2])
    second = a_ledger(path)
    assert second.missing(DRAWS) == DRAWS[1:]
    second.add(DRAWS[2], [0.3, 0.4])
    second.add(DRAWS[3], [0.5, 0.6])
    assert a_ledger(path).missing(DRAWS) == [DRAWS[1]]
    labels = read_labels(path)
    assert labels.prompts == CAPTIONS
    fast = [{"tiny@0": some} for some in ([0.3], [0.1, 0.5], [0.2, 0.6], [0.4])]
    assert labels.judged() == fast


def test_another_way_to_make_images_needs_another_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    a_ledger(path).add(DRAWS[0], [0.1, 0.2])
    other = Ledger(path, [FAST, SLOW], CAPTIONS, Origin(steps=50))
    with pytest.raises(ConfigurationError, match=str(path)):
        other.missing(DRAWS)


def test_other_prompts_need_another_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    a_ledger(path).add(DRAWS[0], [0.1, 0.2])
    with pytest.raises(ConfigurationError, match="other prompts"):
        Ledger(path, [FAST, SLOW], ("a disc", *CAPTIONS), ORIGIN).missing(DRAWS)
