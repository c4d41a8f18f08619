"""The process that loads LoRAs: over a real store, damaged files, and its own death."""

import hashlib
import os
import signal
import time
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from catalog.lora.layers import read_shapes
from core.errors import EngineError
from core.settings import Settings
from core.uploads.lora import AppliedLora
from storage.objects.store import open_objects
from tests.jobs import a_request
from tests.loras import ATTENTION, factors, save_peft
from tests.models import OF_DIFFUSERS, save_sdxl
from worker.cpu.processes import MAX_TRIES
from worker.lora.cache import LoraCache
from worker.lora.loader import LoraLoader
from worker.lora.mix import Lora
from worker.process.loading import Loading

pytestmark = pytest.mark.integration

SHAPES = {"unet.conv_in": (8, 4, 3, 3), "unet.mid_block.attentions.0.proj_in": (16, 16)}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(data_dir=tmp_path_factory.mktemp("data"), url_secret="secret")


@pytest.fixture(scope="module")
def loader(settings):
    loader = LoraLoader(settings)
    yield loader
    loader.close()


@pytest.fixture(scope="module")
def use(settings):
    path = save_peft(settings.data_dir / "a.safetensors", factors(SHAPES, ("",)))
    data = path.read_bytes()
    open_objects(settings).put("t/loras/a.safetensors", data, "application/octet-stream")
    return AppliedLora(
        id="a",
        key="t/loras/a.safetensors",
        models=("tiny",),
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def own_memory():
    """Memory of LoRAs that this process has open; other tests' arenas are their own affair."""
    links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    return [link for link in links if os.path.islink(link) and "memfd:lora" in os.readlink(link)]


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


def children():
    """The processes that load; not those that are dead already."""
    found = []
    for each in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(each.cmdline()):
                found.append(each)
    return found


def kill_all():
    """Kill all that load and wait until they read no more; their parent looks after the rest."""
    for process in children():
        process.kill()
        with suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)


def mapped():
    """LoRAs in the memory of this process."""
    return sum("memfd:lora" in line for line in Path("/proc/self/maps").read_text().splitlines())


@pytest.fixture
def slow(settings, use):
    """A LoRA in a store that does not answer until somebody writes what it is to say."""
    path = settings.data_dir / "objects" / "t" / "loras" / "slow"
    os.mkfifo(path)
    yield replace(use, key="t/loras/slow"), path
    path.unlink()


def test_a_loader_that_is_killed_is_replaced_and_the_file_still_comes(loader, use):
    loader.load(use, SHAPES).result(60)
    for each in children():
        each.send_signal(signal.SIGSTOP)
    coming = loader.load(use, SHAPES)
    time.sleep(0.1)
    kill_all()
    memory, _ = coming.result(60)
    assert memory.shape == (use.size_bytes,)
    assert own_memory() == []


def test_a_store_that_is_slow_gives_the_file_late_and_whole(loader, use, slow, settings):
    late, path = slow
    coming = loader.load(late, SHAPES)
    with path.open("wb") as answer:  # waits for whoever reads
        assert loader.load(use, SHAPES).result(60), "others do not wait for it"
        assert not coming.done()
        answer.write(open_objects(settings).get(use.key))
    memory, pairs = coming.result(60)
    assert (len(memory), len(pairs)) == (use.size_bytes, 2)


def test_a_file_whose_loader_dies_every_time_is_given_up_and_others_still_come(loader, use, slow):
    coming, opened, until = loader.load(slow[0], SHAPES), [], time.monotonic() + 150
    while not coming.done() and time.monotonic() < until:
        with suppress(OSError):  # nobody reads yet
            opened.append(os.open(slow[1], os.O_WRONLY | os.O_NONBLOCK))
            kill_all()
        time.sleep(0.01)
    for each in opened:  # not before: the next to read would find the end of an empty file
        os.close(each)
    assert len(opened) >= MAX_TRIES
    with pytest.raises(EngineError, match="its CPU process died"):
        coming.result(0)
    assert own_memory() == []
    assert len(loader.load(use, SHAPES).result(60)[0]) == use.size_bytes


def start_every_process(loader, use):
    """Load until each has begun: one that is quick may take all calls of another."""
    slots = loader._processes._children
    while not slots or any(slot._pipe is None for slot in slots):
        wait([loader.load(use, SHAPES) for _ in range(8)], 60)


def test_hundreds_of_loras_that_come_and_go_leave_nothing_behind(loader, use):
    request = a_request(model="tiny")
    shelf = LoraCache(loader, 4 * use.size_bytes)
    start_every_process(loader, use)
    files = psutil.Process().num_fds()
    for number in range(300):
        key = "t/loras/gone" if number % 3 == 0 else use.key
        loras = (replace(use, id=f"lora-{number}", key=key),)
        awaited = shelf.ask(replace(request, loras=loras), SHAPES)
        if number % 8 == 0:  # the others are let go of while they are loaded
            with suppress(EngineError):
                wait(awaited.loading, 60)
                awaited.mix()
    wait(shelf.ask(replace(request, loras=loras), SHAPES).loading, 60)
    del awaited
    until = time.monotonic() + 60
    while (own_memory() or mapped() > 4) and time.monotonic() < until:
        time.sleep(0.01)  # the other process may still load one
    assert shelf.num_bytes() <= 4 * use.size_bytes
    assert own_memory() == [] and mapped() <= 4
    assert psutil.Process().num_fds() <= files


@pytest.mark.filterwarnings(OF_DIFFUSERS)
def test_a_lora_is_fetched_while_its_job_waits_in_a_queue(settings, tmp_path):
    model = save_sdxl(tmp_path / "tiny")
    data = save_peft(
        tmp_path / "a", factors(read_shapes(tmp_path / "tiny"), ATTENTION)
    ).read_bytes()
    path = settings.data_dir / "objects" / "waiting"
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    sha256 = hashlib.sha256(data).hexdigest()
    use = AppliedLora(id="b", key="waiting", models=("tiny",), size_bytes=len(data), sha256=sha256)
    request = a_request(model="tiny", loras=(use,))
    loading = Loading(settings.model_copy(update={"models_dir": tmp_path}))
    runner = loading.load(model)
    loading.prefetch(request)
    path.write_bytes(data)  # waits for whoever reads: nobody has opened the job
    sample = runner.open(request, 0)
    if sample.awaited is not None:
        wait(sample.awaited.loading, 60)
    assert sample.waits_for() is None
    loading.close()
