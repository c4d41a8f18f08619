"""What do the models of one worker share?"""

from dataclasses import replace

import pytest

from catalog.weights import fingerprint
from core.job import Edit, Task
from core.model import Model
from core.settings import Settings
from tests.jobs import a_request
from tests.models import OF_DIFFUSERS, save_sd
from worker.process.loading import Loading

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


def an_edit(model):
    edit = Edit(template="t/i.png", template_sha256="ab", mask="t/m.png")
    return a_request(task=Task.EDIT, edit=edit, model=model.name)


@pytest.fixture
def settings(tmp_path):
    return Settings(models_dir=tmp_path, data_dir=tmp_path / "data", activations_gib=0.1)


def test_models_that_edit_share_what_they_remember_and_others_have_none(tmp_path, settings):
    model = save_sd(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / model.name)
    loading = Loading(settings)
    loading.prefetch(an_edit(model))  # nothing is loaded: nothing is fetched
    loading.load(model)
    loading.prefetch(an_edit(model))
    loading.prefetch(a_request(model=model.name))
    loading.close()
    plain = Loading(settings)
    assert plain.load(replace(model, family="noop"))
    plain.close()


def test_whoever_measures_hears_which_weights_are_loaded(tmp_path, settings):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "unet.safetensors").write_bytes(b"weights")
    model, told = Model(name="m", family="noop"), []
    loading = Loading(settings, on_weights=lambda *of: told.append(of))
    loading.load(model)
    loading.close()
    assert told == [(model, fingerprint(tmp_path / "m"))]


def test_other_weights_have_another_fingerprint(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "unet").mkdir(parents=True)
        (tmp_path / name / "unet" / "w.safetensors").write_bytes(name.encode() * 10)
    first = fingerprint(tmp_path / "a")
    assert first == fingerprint(tmp_path / "a") != fingerprint(tmp_path / "b")
    (tmp_path / "a" / "unet" / "config.json").write_text("{}")
    assert first != fingerprint(tmp_path / "a"), "it is configured otherwise"


def test_weights_that_differ_in_some_layers_alone_have_another_fingerprint(tmp_path):
    """As of a model that a LoRA of its attention was fused with."""
    (tmp_path / "unet").mkdir()
    file = tmp_path / "unet" / "w.safetensors"
    file.write_bytes(bytes(8 * 2**20))
    first = fingerprint(tmp_path)
    file.write_bytes(bytes(4 * 2**20) + b"1" * 2**18 + bytes(4 * 2**20 - 2**18))
    assert fingerprint(tmp_path) != first
