"""A ControlNet that a tenant keeps computes what the one in a folder does."""

from hashlib import sha256

import msgspec
import pytest
import torch
from diffusers import StableDiffusionControlNetPipeline, StableDiffusionXLControlNetPipeline

from catalog.controlnet.encoder import Traits
from catalog.controlnet.manifest import Manifest, find_config, read_encoder, read_tensors
from core.errors import BadWeights
from core.settings import Settings
from core.uploads.controlnet import manifest_key, weights_key
from storage.objects.store import open_objects
from tests.control import ControlHouse, some_conditions
from tests.integration.test_control_joint import House as JointHouse
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from worker.control.server.network import ControlStep
from worker.control.server.process_server import load
from worker.control.session import Opening
from worker.cpu import store_images

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

KEPT = "0123456789abcdef" * 2
HOUSES = {
    "sdxl": lambda folder: ControlHouse(folder, save_sdxl, StableDiffusionXLControlNetPipeline),
    "sd": lambda folder: ControlHouse(folder, save_sd, StableDiffusionControlNetPipeline),
    "sd3": JointHouse,
}
TRAITS = {
    "sdxl": Traits(is_bgr=True),
    "sd": Traits(is_bgr=True),
    "sd3": Traits(is_told_pooled=True),
}


@pytest.fixture(params=HOUSES)
def house(request, tmp_path):
    return HOUSES[request.param](tmp_path)


@pytest.fixture
def settings(house):
    settings = Settings(
        controlnets_dir=house.folder, data_dir=house.folder / "data", url_secret="secret"
    )
    store_images.open_store(settings)
    return settings


def keep(settings, house, name):
    """Keep the weights of a folder alone, as the api does."""
    data = (house.folder / name / "diffusion_pytorch_model.safetensors").read_bytes()
    traits = TRAITS[house.model.family] if name == "depth" else Traits()
    config = find_config(read_tensors(data, len(data)), read_encoder(house.folder / "base"), traits)
    manifest = Manifest(config=config, sha256=sha256(data).hexdigest())
    objects = open_objects(settings)
    objects.put(weights_key(KEPT), data, "application/octet-stream")
    objects.put(manifest_key(KEPT), msgspec.json.encode(manifest), "application/json")
    return objects


@torch.inference_mode()
def residuals(network, house):
    part = house.pipe.components.get("unet") or house.pipe.transformer
    is_joint, config = house.model.family == "sd3", part.config
    picture = torch.from_numpy(some_conditions(1).images[0])
    added = {
        "sdxl": {"text_embeds": torch.ones(1, 32), "time_ids": torch.ones(1, 6)},
        "sd3": {"pooled_projections": torch.ones(1, 64)},
    }
    begun = network.begin(
        Opening(
            controlnet="any",
            condition=torch.rand(2, 4, 16, 16, generator=torch.Generator().manual_seed(0))
            if is_joint
            else picture,
            text=torch.ones(
                1, 4, config.joint_attention_dim if is_joint else config.cross_attention_dim
            ),
            added=added.get(house.model.family, {}),
        )
    )
    step = ControlStep(begun=begun, latents=torch.ones(1, 4, 16, 16), time=500.0, scale=1.0)
    return network.residuals([step])[0]


@pytest.mark.parametrize("name", ["edges", "depth"])
def test_weights_alone_compute_what_their_folder_does(house, settings, name):
    keep(settings, house, name)
    expected = residuals(load(settings, name), house)
    found = residuals(load(settings, KEPT), house)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_one_that_is_gone_or_damaged_is_named(house, settings):
    objects = keep(settings, house, "edges")
    objects.put(weights_key(KEPT), b"other bytes", "application/octet-stream")
    with pytest.raises(BadWeights, match=f"{KEPT}: damaged in the store"):
        load(settings, KEPT)
    objects.delete([weights_key(KEPT)])
    with pytest.raises(BadWeights, match=f"{KEPT}: gone from the store"):
        load(settings, KEPT)
