from types import SimpleNamespace

import pytest

from catalog.catalogue import ModelChange
from core.boards.cost import Cost
from core.boards.need import Need
from core.model import Model
from core.settings import Settings
from tests.unit.worker.process.test_shared_measurements import Store
from worker.process.model_facts import ModelFacts
from worker.process.model_needs import MANY
from worker.trials.timing import TRIES

COST = Cost(steps=((1, 2.0),), fixed_s=0.5, is_measured=True)
MODEL = Model(name="m", family="noop", size_gib=1.0, default_size=512)


class Models(dict):
    """A catalogue whose folder changes as it is told."""

    change = ModelChange()

    def refresh(self):
        return self.change


class Known:
    """What a worker knows, and what it expects of its models."""

    def __init__(self, folder):
        self.models, self.expected, self.held = Models(m=MODEL), {}, ["m"]
        self.facts = ModelFacts(
            Settings(models_dir=folder, profile_path=folder / "profile.json", max_slots=4),
            self.models,
            Store(),
            "cpu",
            memory_gib=10.0,
            held=lambda: self.held,
            expect=lambda model, cost: self.expected.update({model.name: cost}),
            give_way=lambda: None,
        )


@pytest.fixture
def known(tmp_path):
    return Known(tmp_path)


def a_slot(is_as_profiled=True, side=512):
    request = SimpleNamespace(width=side, height=side)
    ticket = SimpleNamespace(
        job=SimpleNamespace(request=request),
        runner=SimpleNamespace(model=MODEL),
        is_as_profiled=is_as_profiled,
    )
    return SimpleNamespace(ticket=ticket)


def test_nothing_is_known_any_more_of_a_model_that_has_changed(known):
    facts = known.facts
    facts.note_weights(MODEL, "first")
    facts.needs.of(MODEL)
    facts.measured.note_load(MODEL, 3.0)
    facts.trials.learn(MODEL, COST)
    assert facts.look_around() == set()
    assert (facts.needs.gib, facts.measured.load_s) == ({"m": 1.0}, {"m": 3.0})
    known.models.change = ModelChange(changed=("m",))
    assert facts.look_around() == {"m"}
    assert (facts.needs.gib, facts.measured.load_s, facts.trials.costs) == ({}, {}, {})


def test_other_weights_under_a_name_are_timed_anew(known):
    known.facts.note_weights(MODEL, "first")
    known.facts.trials.learn(MODEL, COST)
    known.facts.note_weights(MODEL, "first")
    assert known.facts.trials.costs == {"m": COST}
    known.facts.note_weights(MODEL, "second")
    assert known.facts.trials.costs == {}


def test_what_others_have_measured_is_expected_here(known):
    known.facts.trials.learn(MODEL, COST)
    assert known.expected == {"m": COST}


@pytest.mark.parametrize("is_as_profiled", [True, False])
def test_steps_are_learned_from_unless_a_job_is_unlike_others(known, is_as_profiled):
    for _ in range(TRIES + 1):
        known.facts.note_step([a_slot(), a_slot(is_as_profiled)], 0.5)
    assert ("m" in known.facts.trials.costs) is is_as_profiled


def test_images_share_a_step_as_far_as_memory_has_room_beside_what_is_held(known):
    assert known.facts.images_that_fit(a_slot()) == MANY, "nobody knows what it needs"
    need = Need(weights_gib=2.0, work_gib=2.0, step_gib=1.0, most_gib=4.0)
    known.facts.needs._found = {"m": need, "other": Need(weights_gib=1.0)}
    assert known.facts.images_that_fit(a_slot()) == 7
    known.held.append("other")
    assert known.facts.images_that_fit(a_slot()) == 6
    assert known.facts.images_that_fit(a_slot(side=1024)) == 1
    assert [known.facts._fits(MODEL, n) for n in (4, 5)] == [True, False], "it has four slots"
