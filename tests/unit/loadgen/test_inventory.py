import io

import numpy as np
import pytest
from PIL import Image

from core.errors import ConfigurationError
from loadgen.client.dress import dress
from loadgen.client.inventory import Inventory, stock
from loadgen.client.session import open_session
from loadgen.workload import Workload
from tests.unit.loadgen.service import TinyService, serving

PROMPTS = ["a star"]


async def stocked(service, workload):
    async with serving(service) as url, open_session(url, None) as http:
        return await stock(http, workload, seed=1)


async def test_plain_requests_need_nothing_uploaded():
    service = TinyService()
    workload = Workload.of([0.0, 1.0], prompts=PROMPTS)
    inventory = await stocked(service, workload)
    assert inventory == Inventory()
    assert service.kept == []
    plain = list(workload.requests())
    assert list(dress(plain, inventory, seed=0)) == plain


async def test_masks_are_drawn_to_their_ratio_and_uploaded_once():
    service = TinyService()
    workload = Workload.of([0.0, 1.0, 2.0, 3.0], prompts=PROMPTS, mask_ratio=[0, 0.1, 0.5, 0.101])
    inventory = await stocked(service, workload)
    assert len(service.kept) == 8 + 2
    pictures = {
        f"kept-{i}": np.array(Image.open(io.BytesIO(png))) for i, png in enumerate(service.kept, 1)
    }
    plain, *edits = (each.body for each in dress(workload.requests(), inventory, seed=0))
    assert "task" not in plain
    for body, ratio in zip(edits, (0.1, 0.5, 0.101), strict=True):
        assert body["task"] == "edit"
        assert pictures[body["template"]].shape == (32, 32, 3)
        mask = pictures[body["mask"]]
        assert mask.shape == (32, 32)
        assert (mask == 255).mean() == pytest.approx(ratio, abs=0.02)
    assert edits[0]["mask"] == edits[2]["mask"]


async def test_adapters_are_those_that_fit_one_model_and_the_first_is_the_most_popular():
    workload = Workload.of(
        np.arange(400.0), prompts=PROMPTS, loras=2, controls=np.tile([0, 1, 2, 3], 100)
    )
    inventory = await stocked(TinyService(), workload)
    bodies = [each.body for each in dress(workload.requests(), inventory, seed=0)]
    used = [lora["id"] for body in bodies for lora in body["loras"]]
    assert len(used) == 800
    assert used.count("lora-0") > used.count("lora-1") > used.count("lora-2") > 0
    assert all(len({each["id"] for each in body["loras"]}) == 2 for body in bodies)
    assert [len(body.get("controls", ())) for body in bodies[:4]] == [0, 1, 1, 1]
    assert bodies[1]["controls"] == [{"id": "edges", "image": inventory.picture}]


async def test_what_the_service_lacks_is_said():
    loras = Workload.of([0.0], prompts=PROMPTS, loras=1)
    with pytest.raises(ConfigurationError, match="no LoRA for m: see `atelier loras add`"):
        await stocked(TinyService(loras=[]), loras)
    edits = Workload.of([0.0], prompts=PROMPTS, mask_ratio=0.5, models=["m"], model=0)
    with pytest.raises(ConfigurationError, match="none of m edits images"):
        await stocked(TinyService(), edits)


async def test_a_service_that_is_not_there_is_said():
    async with open_session("http://127.0.0.1:1", None) as http:
        with pytest.raises(ConfigurationError, match="ConnectError"):
            await stock(http, Workload.of([0.0], prompts=PROMPTS, loras=1), seed=0)


async def test_a_trial_may_draw_masks_that_the_sample_had_not():
    sample = Workload.of([0.0, 1.0], prompts=PROMPTS, mask_ratio=[0.0296, 0.5])
    inventory = await stocked(TinyService(), sample)
    trial = Workload.of([0.0, 1.0, 2.0], prompts=PROMPTS, mask_ratio=[0.0296, 0.11, 0.9])
    small, near, large = (each.body["mask"] for each in dress(trial.requests(), inventory, seed=0))
    assert small == near != large
