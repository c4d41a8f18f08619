"""An image that another worker goes on with is the one that the first would have made, by kind."""

from dataclasses import replace
from functools import cache, partial

import pytest

from bench.parts.local_controlnets import LocalControlNets
from catalog.lora.parse import parse
from catalog.masking.config import MaskingConfig
from core.errors import EngineError
from core.job import Control, Task
from core.request.init_image import InitImage
from core.request.second_pass import SecondPass
from core.uploads.lora import AppliedLora
from tests.cases import rarely_but
from tests.control import ControlHouse, some_conditions
from tests.going_on import goes_on, left, make
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.integration.test_img2img_parity import some_inputs as some_picture
from tests.integration.test_ip_adapter import House as ShownHouse
from tests.integration.test_ip_adapter import a_picture
from tests.integration.test_t2i_adapter import XL, AdapterHouse, adapter
from tests.jobs import a_job
from tests.loras import ATTENTION, TEXT, as_bytes, factors, save_peft
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import difference
from worker.control.stale import Stale
from worker.diffusion.runner import WordInputs
from worker.families.load import load
from worker.futures import resolved
from worker.lora.cache import LoraCache
from worker.masking.activations import Activations

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

SAVE = {"sdxl": save_sdxl, "sd": save_sd, "sd3": save_sd3, "flux": save_flux}
SAME = 1e-5
STEPS = 10
TWICE = SecondPass(scale=2.0, strength=0.5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    @cache
    def save(name):
        folder = tmp_path_factory.mktemp(name)
        return folder, SAVE[name](folder, name="tiny")

    return save


@pytest.fixture(scope="module")
def runners(saved):
    """Load a family anew, as workers do that know nothing of each other."""

    def runner(name):
        folder, model = saved(name)
        return load(folder, model, device="cpu", dtype="float32")

    return lambda name: partial(runner, name)


@pytest.fixture(scope="module")
def one(runners):
    """Load a family once: what an image goes on from is its own, not its model's."""
    kept = cache(lambda name: runners(name)())
    return lambda name: lambda: kept(name)


def assert_same(whole, made):
    assert len(made) <= len(whole)
    for image, other in zip(whole[-len(made) :], made, strict=True):
        assert difference(image, other) <= SAME


def some(job, first, second, brought=None, *, until=4, **of):
    whole, made, calls = goes_on(job, first, second, brought, until=until, **of)
    assert_same(whole, made)
    return calls


@pytest.mark.parametrize("family", ["sdxl", "sd3"])
def test_an_image_goes_on_where_it_stood(runners, family):
    job = a_job(steps=STEPS)
    assert some(job, runners(family), runners(family), until=6) == (STEPS, STEPS - 6)


#: Samplers of each family, by what they keep between steps: None is the model's own.
UNET_SAMPLERS = (None, "euler-ancestral", "unipc", "heun")
SAMPLERS = {"sdxl": UNET_SAMPLERS, "sd": UNET_SAMPLERS, "sd3": (None, "heun"), "flux": (None,)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "scheduler"), [(family, each) for family in SAVE for each in SAMPLERS[family]]
)
@pytest.mark.parametrize("until", range(1, 5))
def test_whichever_step_it_stood_at(one, family, scheduler, until):
    some(a_job(steps=5, scheduler=scheduler), one(family), one(family), until=until)


def test_it_loses_what_was_done_since_it_was_kept(one):
    job = a_job(steps=STEPS)
    assert some(job, one("sdxl"), one("sdxl"), until=7, every=4) == (STEPS, STEPS - 4)


def test_a_job_that_is_handed_over_loses_nothing(one):
    job, runner = a_job(steps=STEPS), one("sdxl")
    whole, _, _ = make(runner(), job)
    _, objects, calls = make(runner(), job, until=7, every=4, hands_over=True)
    assert len(calls) == 7
    made, _, more = make(runner(), job, states=left(objects, job))
    assert_same(whole, made)
    assert len(more) == STEPS - 7


def test_each_of_several_images_goes_on(one):
    job = a_job(steps=4, n=3)
    some(job, one("sdxl"), one("sdxl"), until=2)


@pytest.mark.parametrize("family", ["sdxl", "sd3"])
def test_an_image_from_a_picture_goes_on(one, family):
    init = InitImage(image="t/i.png", strength=0.6)
    job = a_job(steps=STEPS, init_image=init, scheduler="dpm++2m" if family == "sdxl" else None)
    calls = some(job, one(family), one(family), some_picture(1, 0.6), until=3)
    assert calls == (6, 3)


@pytest.mark.parametrize("until", [2, 5])
def test_an_image_goes_on_in_the_pass_that_it_was_in(one, until):
    job = a_job(steps=4, second_pass=TWICE)
    calls = some(job, one("sdxl"), one("sdxl"), until=until)
    assert calls == (6, 6 - until)


def an_edit(name="j", **changes):
    return a_job(name, task=Task.EDIT, edit=EDIT, **{"steps": 12, "seed": 3} | changes)


def that_reuses(runner, activations, knobs):
    made = runner()
    made.overlays.reuse(activations, knobs)
    return made


@pytest.mark.parametrize("family", rarely_but(["sdxl"], ["sd3"]))
def test_an_edit_goes_on_with_what_it_reuses(runners, family):
    """It takes again the last step in full, of every fourth, and those beyond what was kept."""
    knobs, activations = MaskingConfig(full_share=0.25), Activations(2**30)
    runner = that_reuses(runners(family), activations, knobs)
    make(runner, an_edit("first"), some_inputs(2))
    for until, repeated in {7: 1, 8: 0, 2: 1}.items():
        calls = some(an_edit(), lambda: runner, lambda: runner, some_inputs(1), until=until)
        assert calls == (12, 12 - until + repeated)


def test_an_edit_that_learns_nothing_on_its_way_repeats_nothing(runners):
    knobs, activations = MaskingConfig(full_share=0.0), Activations(2**30)
    runner = that_reuses(runners("sdxl"), activations, knobs)
    make(runner, an_edit("first"), some_inputs(2))
    calls = some(an_edit(), lambda: runner, lambda: runner, some_inputs(1), until=5)
    assert calls == (12, 7)


def test_an_edit_that_records_its_template_goes_on_without(runners):
    knobs, kept = MaskingConfig(), []

    def recording():
        kept.append(Activations(2**30))
        return that_reuses(runners("sdxl"), kept[-1], knobs)

    some(an_edit(), recording, recording, some_inputs(1), until=5)
    assert kept[0].names and not kept[-1].names


def test_an_edit_whose_recording_is_not_there_begins_anew(runners):
    knobs, activations = MaskingConfig(), Activations(2**30)
    recording = partial(that_reuses, runners("sdxl"), activations, knobs)
    make(recording(), an_edit("first"), some_inputs(2))
    _, objects, _ = make(recording(), an_edit(), some_inputs(1), until=5)
    elsewhere = that_reuses(runners("sdxl"), Activations(2**30), knobs)
    _, _, calls = make(elsewhere, an_edit(), some_inputs(1), states=left(objects, an_edit()))
    assert len(calls) == 12


class Loads:
    """Gives a LoRA at once."""

    def __init__(self, path):
        self._path = path

    def load(self, use, shapes):
        data = self._path.read_bytes()
        return resolved((as_bytes(data), parse(data, shapes)))


@pytest.mark.parametrize("family", rarely_but(["sd3"], ["sdxl"]))
def test_an_image_with_loras_goes_on_with_them(runners, family, tmp_path):
    ends = ATTENTION + TEXT if family == "sdxl" else ATTENTION

    runner, path = runners(family)(), tmp_path / "a.safetensors"
    save_peft(path, factors(runner.overlays.adapters.shapes, ends))
    runner.overlays.use_loras(LoraCache(Loads(path), 2**30))
    use = AppliedLora(id="a", key="k", models=("tiny",), size_bytes=9, sha256="ab", scale=0.8)
    job = a_job(steps=STEPS, loras=(use,))
    some(job, lambda: runner, lambda: runner, until=4)
    plain, _, _ = make(runner, replace(job, request=replace(job.request, loras=())))
    assert difference(plain[0], make(runner, job)[0][0]) > 1e-3


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    return ControlHouse(tmp_path_factory.mktemp("control"), save_sdxl, None)


def steered(house, stale=Stale.NEVER, knobs=None, activations=None):
    runner = house.recorder(LocalControlNets(house.residents()), stale).runner
    if activations is not None:
        runner.overlays.reuse(activations, knobs or MaskingConfig())
    return runner


EDGES = Control(controlnet="edges", image="")
LATE = Control(controlnet="depth", image="", start=0.34, scale=0.7)


def test_an_image_under_controlnets_goes_on(controlled):
    job = a_job(model=controlled.model.name, steps=STEPS, controls=(EDGES, LATE))
    runner = steered(controlled)
    some(job, lambda: runner, lambda: runner, some_conditions(2), until=5)


def test_what_controlnets_say_a_step_late_is_not_gone_on_from(controlled):
    job = a_job(model=controlled.model.name, steps=4, controls=(EDGES,))
    _, objects, _ = make(steered(controlled, Stale.ALWAYS), job, some_conditions(1), until=3)
    assert not objects


def test_an_edit_under_a_controlnet_goes_on(controlled):
    runner = steered(controlled, activations=Activations(2**30))
    inputs = replace(some_inputs(1), conditions=some_conditions(1).images)
    of = {"model": controlled.model.name, "controls": (EDGES,)}
    make(runner, an_edit("first", **of), inputs)
    for until in (6, 7):
        some(an_edit(**of), lambda: runner, lambda: runner, inputs, until=until)


def test_an_image_under_a_t2i_adapter_goes_on(tmp_path_factory):
    house = AdapterHouse(tmp_path_factory.mktemp("t2i"), save_sdxl, None, XL)
    job = a_job(model=house.model.name, steps=6, controls=(adapter("wide", end=0.7),))
    runner = steered(house)
    some(job, lambda: runner, lambda: runner, some_conditions(1), until=3)


def test_an_image_that_is_shown_a_picture_goes_on(tmp_path_factory):
    house = ShownHouse(tmp_path_factory.mktemp("ip"), save_sdxl)
    runner, brought = house.recorder.runner, WordInputs(vectors={}, shown=a_picture(1))
    some(house.job(steps=6), lambda: runner, lambda: runner, brought, until=3)


def test_a_state_of_another_request_is_refused(one):
    _, objects, _ = make(one("sdxl")(), a_job(steps=4), until=2)
    with pytest.raises(EngineError, match="otherwise"):
        left(objects, a_job(steps=4, prompt="another"))


def test_a_damaged_state_costs_its_steps_alone(one):
    job = a_job(steps=4)
    whole, _, _ = make(one("sdxl")(), job)
    _, objects, _ = make(one("sdxl")(), job, until=2)
    [state] = left(objects, job).values()
    damaged = {0: replace(state, payload=state.payload[:-9])}
    made, _, calls = make(one("sdxl")(), job, states=damaged)
    assert difference(whole[0], made[0]) == 0
    assert len(calls) == 4
