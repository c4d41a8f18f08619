"""A model whose quality nobody knows is for who names it."""

from dataclasses import replace

import pytest

from api.intake.schemas import JobCreate
from core.application import Application
from core.model import offered
from tests.unit.api.conftest import MODELS, Words
from tests.unit.api.intake.test_rules import a_rules

NEW = replace(MODELS["small"], name="new", quality=None, max_size=512)
RULES = a_rules(models={**MODELS, "new": NEW}, tokens=Words(), max_images=4, max_prompt_chars=2000)
MINE = Application(name="mine", tenant="t", models=("new", "small"), slo_s=None, quality_floor=0.0)


def makers(create: JobCreate, application: Application | None = None) -> list[str]:
    draft = RULES.draft("t", create, application).of_known_quality()
    return sorted(model.name for model in draft.models)


@pytest.mark.parametrize(
    ("fields", "application", "expected"),
    [
        ({}, None, ["large", "small"]),
        ({"model": "new"}, None, ["new"]),
        ({"application": "mine"}, MINE, ["new", "small"]),
        ({"width": 64, "height": 64}, None, ["small"]),
        ({"width": 512, "height": 512}, None, ["new"]),
    ],
    ids=["unnamed", "named", "application", "known can", "only it can"],
)
def test_who_gets_a_model_of_unknown_quality(fields, application, expected):
    assert makers(JobCreate(prompt="a", **fields), application) == expected


def test_where_no_quality_is_known_all_models_are_offered():
    assert list(offered({"new": NEW})) == ["new"]
    assert list(offered({**MODELS, "new": NEW})) == list(MODELS)
