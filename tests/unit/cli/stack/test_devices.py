import pytest

from cli.stack.devices import Devices
from core.errors import ConfigurationError
from core.settings import Settings


def devices(device, workers=1, has_controlnets=True):
    settings = Settings(device=device, control_gib=3.0)
    return Devices(settings=settings, workers=workers, has_controlnets=has_controlnets)


def test_a_worker_on_a_gpu_of_a_number_leaves_room_for_controlnets_there():
    found = devices("cuda:1")
    assert found.of_worker(1) == {"ATELIER_RESERVED_GIB": "3.0"}
    assert found.of_controlnets() == {}  # they compute where the settings say, too
    assert devices("cuda:1", has_controlnets=False).of_worker(1) == {}


def test_several_workers_on_a_gpu_of_a_number_are_refused_with_the_cure():
    with pytest.raises(ConfigurationError, match="leave the number out"):
        devices("cuda:1", workers=2).of_worker(1)
