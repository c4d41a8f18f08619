"""Text encoders that stay on the host encode as those on the device do, a layer at a time."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import Linear, Module

from catalog.lora.names import TEXT_ENCODERS
from core.request.prompt_syntax import PromptSyntax
from tests.cases import rarely_but
from tests.jobs import a_request
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from worker.families import RUNNERS
from worker.families.load import load
from worker.text.offload import own_tensors
from worker.trials.needs import GIB, need_of

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

SAVE = {
    "sd": save_sd,
    "sdxl": save_sdxl,
    "sd3": partial(save_sd3, has_t5=True),
    "flux": save_flux,
}


@pytest.fixture(scope="module", params=rarely_but(["sdxl", "flux"], SAVE))
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = SAVE[request.param](folder)
    loaded = [
        load(folder, model, device="cpu", dtype="float32", offloads=offloads)
        for offloads in (False, True)
    ]
    return folder, model, *loaded


def encoders_of(runner):
    found = (getattr(runner.pipe, name, None) for name in TEXT_ENCODERS)
    return [each for each in found if isinstance(each, Module)]


def layers_of(runner):
    return [each for encoder in encoders_of(runner) for each in encoder.modules()]


def places_of(runner):
    return {id(t): t.data_ptr() for layer in layers_of(runner) for t in own_tensors(layer)}


def is_close(ours, others):
    """Tell whether both are one but for the order of sums: copies of weights lie otherwise."""
    return torch.allclose(ours, others, rtol=0, atol=1e-5)


@torch.inference_mode()
def encoded(runner, request):
    runner.prompts.clear()
    return runner.encode(request, runner.is_guided(request))


def test_prompts_are_encoded_equal(both):
    _, model, whole, offloaded = both
    requests = [a_request(prompt="a red circle", model=model.name)]
    if model.family in ("sd", "sdxl"):
        weighted = {"prompt_syntax": PromptSyntax.WEIGHTED}
        requests.append(a_request(prompt="a (red:1.3) circle", model=model.name, **weighted))
    for request in requests:
        expected, made = encoded(whole, request), encoded(offloaded, request)
        assert len(made) == len(expected) > 1
        for ours, stock in zip(made, expected, strict=True):
            assert (ours is stock is None) or is_close(ours, stock)


def test_a_layer_is_away_only_while_it_reads_and_the_hosts_weights_stay(both):
    _, model, _, runner = both
    homes, away = places_of(runner), []

    def note(layer, given):
        now = places_of(runner)
        gone = {at for at in homes if now[at] != homes[at]}
        assert {id(each) for each in own_tensors(layer)} <= gone
        away.append(gone)

    hooks = [
        layer.register_forward_pre_hook(note) for layer in layers_of(runner) if own_tensors(layer)
    ]
    encoded(runner, a_request(prompt="a red circle", model=model.name))
    for hook in hooks:
        hook.remove()
    assert places_of(runner) == homes
    assert len(away) > 10 and max(map(len, away)) < len(homes) / 3


@torch.inference_mode()
def test_what_is_merged_into_the_hosts_weights_is_read(both):
    _, model, whole, runner = both
    request = a_request(prompt="a green ring", model=model.name)
    before, changed = encoded(runner, request)[0], []
    for each in (whole, runner):
        layer = encoders_of(each)[-1].get_submodule(
            next(n for n, m in encoders_of(each)[-1].named_modules() if isinstance(m, Linear))
        )
        layer.weight.mul_(2)
        changed.append(encoded(each, request)[0])
        layer.weight.div_(2)
    assert is_close(*changed) and not is_close(before, changed[0])


def test_where_a_layer_fails_the_hosts_weights_are_back(both):
    _, model, _, runner = both
    homes = places_of(runner)
    hook = layers_of(runner)[-1].register_forward_pre_hook(lambda layer, given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        encoded(runner, a_request(prompt="a blue square", model=model.name))
    hook.remove()
    assert places_of(runner) == homes


def test_what_the_device_holds_is_less_by_the_encoders(both):
    folder, model, _, runner = both
    need = need_of(folder, model, RUNNERS[model.family]().pipeline_class, "float32")
    own = {id(t): t for layer in layers_of(runner) for t in own_tensors(layer)}
    weights = sum(each.nbytes for each in own.values())
    assert need.encoders_gib * GIB == pytest.approx(weights, rel=0.06)
    left = need.offloaded()
    assert left.weights_gib == need.weights_gib - need.encoders_gib
    assert left.work_gib == need.work_gib + need.layer_gib < need.work_gib + need.encoders_gib


def test_the_rule_is_whole_if_it_fits_alone_else_without_encoders(both):
    folder, model, *_ = both
    need = need_of(folder, model, RUNNERS[model.family]().pipeline_class, "float32")
    assert need.within(need.gib) is need
    assert need.within(need.gib * 0.99).is_offloaded
    assert not replace(need, encoders_gib=0.0).within(0.0).is_offloaded
