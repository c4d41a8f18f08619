"""The process that loads LoRAs: over a real store, damaged files, and its own death."""

import hashlib
import os
import signal
import time
from dataclasses import replace

import psutil
import pytest

from core.errors import EngineError
from core.lora import LoraUse
from core.settings import Settings
from storage.objects import open_objects
from tests.loras import factors, save_peft
from worker.lora.loader import Loader
from worker.lora.mix import Lora

pytestmark = pytest.mark.integration

SHAPES = {"unet.conv_in": (8, 4, 3, 3), "unet.mid_block.attentions.0.proj_in": (16, 16)}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(data_dir=tmp_path_factory.mktemp("data"), url_secret="secret")


@pytest.fixture(scope="module")
def loader(settings):
    loader = Loader(settings)
    yield loader
    loader.close()


@pytest.fixture(scope="module")
def use(settings):
    path = save_peft(settings.data_dir / "a.safetensors", factors(SHAPES, ("",)))
    data = path.read_bytes()
    open_objects(settings).put("t/loras/a.safetensors", data, "application/octet-stream")
    return LoraUse(
        id="a",
        key="t/loras/a.safetensors",
        models=("tiny",),
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def own_memory():
    """Memory without a name that this process has open."""
    links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    return [link for link in links if os.path.islink(link) and "memfd" in os.readlink(link)]


def test_a_file_is_in_memory_as_it_is_in_the_store(loader, use):
    memory, pairs = loader.load(use, SHAPES).result(60)
    lora = Lora.of("a", memory, pairs)
    for layer, (down, _) in factors(SHAPES, ("",)).items():
        assert (lora.products[layer].down == down).all()
    assert own_memory() == []


@pytest.mark.parametrize(
    ("changes", "shapes", "reason"),
    [
        ({"key": "t/loras/gone"}, SHAPES, "is gone from the store"),
        ({"sha256": "ab"}, SHAPES, "is damaged"),
        ({}, {"unet.conv_in": (8, 4, 3, 3)}, "does not fit the model: .* no such layer"),
    ],
)
def test_what_cannot_be_used_says_why(loader, use, changes, shapes, reason):
    with pytest.raises(EngineError, match=reason):
        loader.load(replace(use, **changes), shapes).result(60)
    assert own_memory() == []


def test_a_loader_that_is_killed_is_replaced_and_the_file_still_comes(loader, use):
    loader.load(use, SHAPES).result(60)
    [child] = [
        each for each in psutil.Process().children() if "spawn_main" in " ".join(each.cmdline())
    ]
    child.send_signal(signal.SIGSTOP)
    coming = loader.load(use, SHAPES)
    time.sleep(0.1)
    child.kill()
    memory, _ = coming.result(60)
    assert memory.shape == (use.size_bytes,)
    assert own_memory() == []
