import pytest
import torch

from core.errors import BadWeights
from worker.diffusion.loading.refusing import refusing


class AcceleratorError(RuntimeError):
    """As torch raises it of a device that is broken."""


def test_what_libraries_raise_of_a_file_is_ours():
    with (
        pytest.raises(BadWeights, match="safetensors: KeyError"),
        refusing("unet/a.safetensors"),
    ):
        raise KeyError("no such key")


@pytest.mark.parametrize(
    "error",
    [AcceleratorError("an illegal memory access"), torch.OutOfMemoryError("CUDA out of memory.")],
)
def test_what_is_no_fault_of_a_file_is_told_as_it_is(error):
    with pytest.raises(type(error)), refusing("unet/a.safetensors"):
        raise error
