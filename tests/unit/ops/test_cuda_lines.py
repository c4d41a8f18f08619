"""What runs on CUDA alone is called here on a device that notes what it is told, or is listed."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cli.stack.devices import Devices
from core.errors import ConfigurationError
from core.settings import Settings
from profiling import times
from profiling.block_times import BlockTimer, measure_copy
from tests.fake_cuda import FakeCuda, FakeTensor
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.unit.ops.compose import ROOT
from tests.unit.ops.cuda_lines import cuda_only, reached
from worker.diffusion.device import (
    DevicePace,
    on_side_stream,
    order_channels,
    to_device,
    to_host,
    told,
)
from worker.diffusion.device_graph import DeviceCapture, _stream
from worker.diffusion.kernels.kernels import captured_kernels, kernels_of, on_device
from worker.families.load import load
from worker.masking.activation_prefetch import ActivationLoader
from worker.masking.quantised import FlatStep, Quantised
from worker.pipeline.packing import calls
from worker.text.offload import encode_apart
from worker.trials.device_defaults import device_type, has_own_memory, settled
from worker.trials.timing import clock_of

pytestmark = [
    pytest.mark.filterwarnings(OF_DIFFUSERS),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # of torch's compiler
]

CUDA = torch.device("cuda")
#: Of the list in docs/gpu.md: file, function, reason.
ROW = re.compile(r"^\| `([\w/.]+)`, `([\w.]+)` \| ([^|]+) \|$", re.MULTILINE)


def load_compiled(folder):
    """A compiled model whose tensors have no values."""
    model = replace(save_sdxl(folder), is_compiled=True)
    return load(folder, model, device="meta", dtype="float16")


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return load_compiled(tmp_path_factory.mktemp("sdxl"))


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(torch, "cuda", fake)
    return fake


def copies_to_the_device_are_pinned_and_waited_for_by_nobody(cuda, _):
    to_device(FakeTensor(cuda.told), CUDA)
    assert cuda.told == ["pinned", "copied to cuda"]


def what_is_on_the_device_stays_there(cuda, _):
    to_device(FakeTensor(cuda.told, is_there=True), CUDA)
    assert cuda.told == ["copied to cuda"]


def captured_work_runs_at_each_replay_and_not_before(cuda, _):
    _stream.cache_clear()
    capture = DeviceCapture(CUDA)
    replay, answer = capture(lambda: cuda.current_stream().name)
    assert answer == "stream 1" and cuda.told == ["capture in stream 1, pool 2"]
    replay()
    assert cuda.told[1:] == ["replayed"]
    with pytest.raises(RuntimeError, match="cannot be captured"):
        capture(lambda: fail("cannot be captured"))
    assert cuda.current_stream().name == "main stream"


def memory_of_graphs_is_theirs_as_long_as_one_is_left(cuda, _):
    capture = DeviceCapture(CUDA)
    kept, _ = capture(lambda: None)
    capture(lambda: None)
    del kept
    capture(lambda: None)
    assert [told.partition(", ")[2] for told in cuda.told] == ["pool 2", "pool 2", "pool 3"]


def kernels_for_recordings_are_for_captured_work_alone(cuda, _):
    assert captured_kernels(CUDA) is None
    kernels = DeviceCapture(CUDA)(lambda: captured_kernels(CUDA))[1]
    assert kernels is kernels_of(CUDA)


def kernels_are_launched_where_their_tensors_are(cuda, _):
    second = torch.device("cuda:1")
    assert on_device(second, lambda: cuda.at)() == second


def fail(reason):
    raise RuntimeError(reason)


def a_model_on_a_gpu_replays_its_passes(cuda, runner):
    fresh = type(runner)(runner.model, runner.pipe, device=CUDA, dtype=torch.float16)
    assert fresh.graphs is not None


def copies_to_the_host_lie_on_the_host_and_are_waited_for_by_nobody(cuda, _):
    with FakeTensorMode():
        assert to_host(torch.empty(2, 3, device="cuda")).device.type == "cpu"
    assert cuda.told == []


def a_copy_is_whole_once_the_device_has_done_what_it_was_told_before(cuda, _):
    wait = told(CUDA)
    assert cuda.told == ["event in main stream"]
    wait()
    assert cuda.told[1:] == ["host waits for event"]


def work_beside_a_batch_has_ended_when_it_is_left(cuda, _):
    with on_side_stream(CUDA):
        assert cuda.current_stream().name == "stream 1"
    assert cuda.told == ["host waits for stream 1"]


def the_host_waits_for_the_pass_before_the_last(cuda, _):
    pace = DevicePace(CUDA)
    for _ in range(2):
        pace.mark()
    pace.wait()
    assert cuda.told == ["event in main stream"] * 2 + ["host waits for event"]


def a_step_in_memory_arrives_whole_on_a_stream_of_its_own_and_the_device_waits(cuda, _):
    loader = ActivationLoader(CUDA)
    blocks = {"block": Quantised.of(torch.ones(2, 3)), "other": Quantised.of(torch.ones(1, 3))}
    step = FlatStep.of(blocks).on(FakeTensor(cuda.told), FakeTensor(cuda.told))
    pinned = ["pinned"] * 2
    for before in (pinned, []):  # once for all edits
        outputs = loader.begin(step, ["block"])
        assert list(outputs) == ["block"] and "other" not in outputs
        brought = [*before, *["copied to cuda"] * 2, "event in stream 1"]
        kept = ["kept for main stream"] * 2
        assert cuda.told == [*brought, "main stream waits for event", *kept]
        cuda.told.clear()
    loader.close()


def what_was_written_arrives_block_by_block_as_it_is_read(cuda, _):
    loader = ActivationLoader(CUDA, lambda path, names: [("block", FakeTensor(cuda.told))])
    outputs = loader.begin(Path("step"), ["block", "lost"])
    assert "block" in outputs and "lost" not in outputs
    assert cuda.told == ["pinned", "copied to cuda", "event in stream 1"]
    cuda.told.clear()
    _ = outputs["block"]
    kept = ["kept for main stream"] * 2
    assert cuda.told == ["main stream waits for event", *kept, "read"]
    loader.close()


def convolutions_have_their_channels_last(cuda, _):
    layer = torch.nn.Conv2d(4, 4, 3)
    order_channels(CUDA, layer)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)


def every_clock_is_read_once_the_device_is_idle(cuda, _):
    timer = BlockTimer(SimpleNamespace(device=CUDA), [])
    for now in (timer._now, clock_of("cuda"), partial(times._now, "cuda")):
        assert now() <= now()
    assert cuda.told == ["host waits for device"] * 6


def copies_of_recordings_are_timed_to_their_ends(cuda, _):
    blocks = {f"{n}": FakeTensor(cuda.told, num_bytes=n) for n in (10, 1000)}
    assert measure_copy(blocks, CUDA, rounds=2).start_s >= 0
    assert cuda.told == ["pinned", *["copied to cuda", "host waits for device"] * 2] * 2


def workers_of_one_kind_of_card_share_a_profile(cuda, _):
    assert device_type("cuda:1") == "Fake GPU"


def workers_of_one_machine_take_a_card_each(cuda, _):
    settings = Settings(device="cuda")
    devices = Devices(settings=settings, workers=2, has_controlnets=True)
    assert devices.of_worker(1) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert devices.of_worker(2)["CUDA_VISIBLE_DEVICES"] == "1"
    assert devices.of_controlnets() == {"CUDA_VISIBLE_DEVICES": "1"}
    named = Devices(settings=Settings(device="cuda:1"), workers=2, has_controlnets=True)
    with pytest.raises(ConfigurationError, match="leave the number out"):
        named.of_worker(1)


def precision_and_memory_are_those_of_the_card(cuda, _):
    found = settled(Settings(device="cuda"))
    assert (found.dtype, found.memory_gib) == ("bfloat16", 22.6)
    assert has_own_memory("cuda:1") and not has_own_memory("cpu")


def a_compiled_model_is_compiled_where_it_is_loaded(cuda, runner):
    assert runner.regions.names


def one_call_takes_a_whole_batch(cuda, _):
    batch = [object() for _ in range(9)]
    assert calls(batch, torch.device("meta")) == [batch]


def a_model_gives_its_memory_back_once_the_device_is_idle(cuda, runner):
    leaving = object.__new__(type(runner))
    leaving.__dict__.update(vars(runner), device=CUDA)
    leaving.trim()
    leaving.close()
    assert cuda.told == ["cache emptied", "host waits for device", "cache emptied"]


def prompts_are_encoded_beside_the_steps_and_leave_nothing(cuda, _):
    streams = []

    def encode():
        streams.append(cuda.current_stream().name)
        return torch.ones(1), None

    text, negative = encode_apart(CUDA, encode)
    assert text == torch.ones(1) and negative is None and streams == ["stream 1"]
    assert cuda.told == ["host waits for stream 1", "cache emptied"]


CASES = [
    copies_to_the_device_are_pinned_and_waited_for_by_nobody,
    what_is_on_the_device_stays_there,
    captured_work_runs_at_each_replay_and_not_before,
    memory_of_graphs_is_theirs_as_long_as_one_is_left,
    kernels_for_recordings_are_for_captured_work_alone,
    kernels_are_launched_where_their_tensors_are,
    a_model_on_a_gpu_replays_its_passes,
    copies_to_the_host_lie_on_the_host_and_are_waited_for_by_nobody,
    a_copy_is_whole_once_the_device_has_done_what_it_was_told_before,
    work_beside_a_batch_has_ended_when_it_is_left,
    the_host_waits_for_the_pass_before_the_last,
    a_step_in_memory_arrives_whole_on_a_stream_of_its_own_and_the_device_waits,
    what_was_written_arrives_block_by_block_as_it_is_read,
    convolutions_have_their_channels_last,
    every_clock_is_read_once_the_device_is_idle,
    copies_of_recordings_are_timed_to_their_ends,
    workers_of_one_kind_of_card_share_a_profile,
    workers_of_one_machine_take_a_card_each,
    precision_and_memory_are_those_of_the_card,
    a_compiled_model_is_compiled_where_it_is_loaded,
    one_call_takes_a_whole_batch,
    a_model_gives_its_memory_back_once_the_device_is_idle,
    prompts_are_encoded_beside_the_steps_and_leave_nothing,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_on_cuda(case, cuda, runner):
    case(cuda, runner)


def test_every_line_for_cuda_is_reached_here_or_listed_with_its_reason(tmp_path, monkeypatch):
    def all_cases():
        runner = load_compiled(tmp_path)
        for case in CASES:
            monkeypatch.setattr(torch, "cuda", fake := FakeCuda())
            case(fake, runner)

    found = cuda_only()
    assert len(found) > 30
    missed = set(found) - reached(all_cases, found)
    table = (ROOT / "docs" / "gpu.md").read_text()
    listed = {(path, function) for path, function, _ in ROW.findall(table)}
    assert listed == {(each.path, each.function) for each in missed}, sorted(map(str, missed))
