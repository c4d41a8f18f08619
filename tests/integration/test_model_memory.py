"""What a process of its own holds while a model comes and goes; the bounds are coarse."""

import json
import subprocess
import sys

import diffusers
import pytest
import torch

from tests.cases import rarely
from tests.models import OF_DIFFUSERS, save_flux

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

SLACK_MIB = 16  #: of whatever else a process does
SIZES = {"num_attention_heads": 16, "attention_head_dim": 32, "axes_dims_rope": (8, 12, 12)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny model, and one of 35 M parameters stored in each precision."""
    folder = tmp_path_factory.mktemp("models")
    save_flux(folder / "tiny")
    save_flux(folder / "float32", num_layers=3, num_single_layers=3, **SIZES)
    pipe = diffusers.FluxPipeline.from_pretrained(folder / "float32", dtype=torch.float16)
    pipe.save_pretrained(folder / "float16", max_shard_size="50MB")
    config = (folder / "float32/atelier.json").read_text()
    (folder / "float16/atelier.json").write_text(config)
    return folder


@pytest.mark.parametrize(
    ("stored", "dtype"),
    rarely([("float16", "float16"), ("float32", "bfloat16"), ("float32", "float32")]),
)
def test_a_model_takes_its_weights_once_and_gives_them_back(folders, stored, dtype):
    command = [sys.executable, "-m", "tests.model_memory"]
    args = [folders / "tiny", folders / stored, dtype]
    done = subprocess.run([*command, *map(str, args)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["weights"] > 60
    assert found["loading_peak"] < 1.15 * found["weights"] + SLACK_MIB
    assert found["alive"] == 0
    assert found["without_it"] < 0.05 * found["weights"] + SLACK_MIB
