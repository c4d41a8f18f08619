from types import SimpleNamespace

import pytest

from core.boards.need import Need
from core.model import Model
from worker.process.model_needs import MANY, ModelNeeds

MODEL = Model(name="m", family="noop", size_gib=3.0, default_size=512)
OTHER = Model(name="other", family="noop", size_gib=1.0)


class Measured(SimpleNamespace):
    """What other workers have found out."""

    def need(self, model):
        return self.known.get(model.name)


def needs_of(memory_gib=10.0, can_offload=False, **known):
    return ModelNeeds(
        None,
        dtype="float32",
        memory_gib=memory_gib,
        measured=Measured(known=known),
        can_offload=can_offload,
    )


def test_a_family_without_a_network_needs_what_it_says():
    needs = needs_of()
    assert needs.of(MODEL) == Need(weights_gib=3.0)
    assert needs.gib == {"m": 3.0}


def test_what_another_worker_has_found_out_is_taken_over():
    need = Need(weights_gib=1.0, work_gib=2.0, step_gib=1.0, most_gib=4.0)
    assert needs_of(m=need).of(MODEL) == need


@pytest.mark.parametrize(
    ("memory_gib", "can_offload", "gib"),
    [(10.0, True, 10.0), (9.0, True, 6.5), (5.0, True, 6.5), (9.0, False, 10.0)],
    ids=["it fits", "it fits without its encoders", "it does not", "the memory is the host's"],
)
def test_encoders_are_left_to_the_host_where_the_device_is_short(memory_gib, can_offload, gib):
    whole = Need(weights_gib=8.0, work_gib=2.0, encoders_gib=4.0, layer_gib=0.5)
    needs = needs_of(memory_gib, can_offload, m=whole)
    assert needs.of(MODEL).gib == needs.gib["m"] == gib
    assert needs.of(MODEL).is_offloaded is (gib == 6.5)


@pytest.mark.parametrize(
    ("size", "memory_gib", "images"), [(512, 10.0, 6), (1024, 10.0, 1), (512, 4.0, 0)]
)
def test_so_many_images_share_a_step_as_memory_has_room_for(size, memory_gib, images):
    """Beside the weights of everything held, and the decoding of another image."""
    need = Need(weights_gib=2.0, work_gib=2.0, step_gib=1.0, most_gib=4.0)
    needs = needs_of(memory_gib, m=need, other=Need(weights_gib=1.0))
    for model in (MODEL, OTHER):
        needs.of(model)
    assert needs.images(MODEL, size**2, ["other"]) == images


def test_where_nobody_knows_memory_limits_nothing():
    assert needs_of(1.0).images(MODEL, 512**2, []) == MANY


def test_a_model_under_the_same_name_is_looked_into_anew():
    needs = needs_of()
    needs.of(MODEL)
    needs.forget("m")
    assert needs.gib == {}


def test_a_model_so_small_that_it_fits_anyway_is_not_looked_into(tmp_path):
    """Though there is nothing in its folder."""
    needs = ModelNeeds(tmp_path, dtype="float32", memory_gib=10.0, measured=Measured(known={}))
    small = Model(name="s", family="sdxl", size_gib=0.05)
    assert needs.of(small) == Need(weights_gib=0.05)
