from types import SimpleNamespace

import pytest
import torch

from core.settings import Settings
from worker.trials import device_defaults
from worker.trials.device_defaults import GIB, HOST_SHARE, host_bytes, settled


def a_gpu(monkeypatch, *, has_bf16=True, gib=24.0):
    fake = SimpleNamespace(
        is_bf16_supported=lambda including_emulation: has_bf16 or including_emulation,
        get_device_properties=lambda device: SimpleNamespace(total_memory=int(gib * GIB)),
    )
    monkeypatch.setattr(torch, "cuda", fake)


def test_a_cpu_computes_in_float32_and_gives_a_share_of_its_host():
    found = settled(Settings())
    assert found.dtype == "float32"
    assert found.memory_gib == pytest.approx(HOST_SHARE * host_bytes() / GIB, abs=0.06)


@pytest.mark.parametrize(("has_bf16", "dtype"), [(True, "bfloat16"), (False, "float16")])
def test_a_gpu_computes_in_bfloat16_where_it_can(monkeypatch, has_bf16, dtype):
    a_gpu(monkeypatch, has_bf16=has_bf16)
    assert settled(Settings(device="cuda:1")).dtype == dtype


@pytest.mark.parametrize(("gib", "left"), [(8.0, 7.0), (24.0, 22.6), (140.0, 131.6)])
def test_a_gpu_gives_its_memory_less_a_reserve(monkeypatch, gib, left):
    a_gpu(monkeypatch, gib=gib)
    assert settled(Settings(device="cuda")).memory_gib == pytest.approx(left, abs=0.06)


def test_what_is_given_stands(monkeypatch):
    a_gpu(monkeypatch)
    given = Settings(device="cuda", dtype="float32", memory_gib=3.0)
    assert settled(given) is given


def test_a_container_has_no_more_than_its_limit(monkeypatch, tmp_path):
    whole, limit, none = host_bytes(), tmp_path / "memory.max", tmp_path / "none"
    monkeypatch.setattr(device_defaults, "LIMITS", (limit, none))
    limit.write_text(f"{GIB}\n")
    assert host_bytes() == GIB
    limit.write_text("max\n")
    assert host_bytes() >= whole


@pytest.mark.parametrize("given", ["", "auto"])
def test_the_environment_may_leave_it_to_the_device(monkeypatch, given):
    monkeypatch.setenv("ATELIER_MEMORY_GIB", given)
    assert Settings().memory_gib is None
