"""Is an image that ControlNets steer through a transformer that of the stock SD3 pipeline?

Stock draws the latents of a condition anew for every image; here the autoencoder is sure of them.
"""

import pytest
import torch
from diffusers import StableDiffusion3ControlNetPipeline
from diffusers.models import SD3ControlNetModel
from PIL import Image

from bench.parts.local_controlnets import LocalControlNets
from core.job import Control
from tests.control import ControlPool, some_conditions
from tests.control_faults import Loss, Phase
from tests.integration.test_latent_parallel import wait_for
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd3
from tests.stock import (
    difference,
    engine_images,
    load_recorder,
    load_stock,
    stock_image,
    stock_scheduler,
)
from worker.control.client.remote import RemoteControlNets
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.stale import Stale
from worker.engine.engine import Engine
from worker.families.load import load
from worker.parallel.rank_process import RankSpec
from worker.parallel.second_rank import SecondRank

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
]

EDGES = Control(controlnet="edges", image="")
#: Reads the pooled prompt, and latents with the autoencoder's shift; has fewer blocks.
DEPTH = Control(controlnet="depth", image="", scale=0.6)
EARLY = Control(controlnet="edges", image="", end=0.5)
WEAK = Control(controlnet="edges", image="", scale=0.4)
LIMIT = 1e-5

CASES = {
    "one": ((EDGES,), 5.0),
    "one, without guidance": ((EDGES,), 1.0),
    "one that is told more": ((DEPTH,), 5.0),
    "two": ((EDGES, WEAK), 5.0),
    "a part of the schedule": ((EARLY,), 5.0),
}


class House:
    """A tiny SD3, and two ControlNets of it."""

    def __init__(self, folder, **changes):
        self.folder = folder
        self.model = save_sd3(folder / "base", **changes)
        self.pipe = load_stock(folder / "base")
        last = self.pipe.vae.quant_conv
        with torch.no_grad():
            count = len(last.bias) // 2
            last.weight[count:], last.bias[count:] = 0, -30
        self.pipe.vae.save_pretrained(folder / "base/vae")
        for name, layers in {"edges": 3, "depth": 2}.items():
            self._save(name, layers, is_plain=name == "edges")
        self.nets = {n: SD3ControlNetModel.from_pretrained(folder / n) for n in ("edges", "depth")}

    def _save(self, name, layers, *, is_plain):
        torch.manual_seed(layers)
        net = SD3ControlNetModel.from_transformer(
            self.pipe.transformer,
            num_layers=layers,
            num_extra_conditioning_channels=0,
            load_weights_from_transformer=False,
        )
        net.register_to_config(force_zeros_for_pooled_projection=is_plain)
        for weight in net.parameters():
            torch.nn.init.normal_(weight, std=0.1)
        net.save_pretrained(self.folder / name)

    def recorder(self, controlnets=None, stale=Stale.NEVER):
        recorder = load_recorder(self.folder / "base", self.model)
        recorder.runner.overlays.steer(controlnets or self.local(), stale)
        return recorder

    def local(self):
        return LocalControlNets(ModelCache(self.load, 2**30))

    def load(self, name):
        return load_network(self.folder / name, device="cpu", dtype="float32")

    def stock_image(self, request, conditions):
        nets = [self.nets[control.controlnet] for control in request.controls]
        parts = {
            **self.pipe.components,
            "controlnet": nets[0] if len(nets) == 1 else nets,
            "scheduler": stock_scheduler(self.pipe.scheduler, request.scheduler),
        }
        pipe = StableDiffusion3ControlNetPipeline(**parts)
        pipe.set_progress_bar_config(disable=True)
        images = [Image.fromarray(pixels) for pixels in conditions.images]
        scales = [control.scale for control in request.controls]
        is_one = len(nets) == 1
        return pipe(
            request.prompt,
            negative_prompt=request.negative_prompt,
            control_image=images[0] if is_one else images,
            controlnet_conditioning_scale=scales[0] if is_one else scales,
            control_guidance_start=[c.start for c in request.controls],
            control_guidance_end=[c.end for c in request.controls],
            width=request.width,
            height=request.height,
            num_inference_steps=request.steps,
            guidance_scale=request.guidance,
            generator=torch.Generator().manual_seed(request.seed),
            output_type="np",
        ).images[0]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return House(tmp_path_factory.mktemp("joint"))


@pytest.fixture(scope="module")
def recorder(house):
    return house.recorder()


@pytest.mark.parametrize(("controls", "guidance"), CASES.values(), ids=CASES)
def test_a_steered_image_is_the_stock_pipelines(house, recorder, controls, guidance):
    job = a_job(model=house.model.name, guidance=guidance, controls=controls)
    conditions = some_conditions(len(controls))
    image = engine_images(recorder, [(0, job)], inputs={job.id: conditions})[job.id][0]
    assert difference(image, house.stock_image(job.request, conditions)) <= LIMIT
    without = a_job(model=house.model.name, guidance=guidance)
    assert difference(image, engine_images(recorder, [(0, without)])[job.id][0]) > 100 * LIMIT


def test_rows_with_and_without_controlnets_share_a_batch(house, recorder):
    jobs = [
        a_job(f"j{at}", model=house.model.name, seed=at, controls=controls)
        for at, controls in enumerate([(EDGES,), (), (DEPTH, WEAK)])
    ]
    brought = {job.id: some_conditions(len(job.request.controls), i) for i, job in enumerate(jobs)}
    recorder.batches.clear()
    made = engine_images(recorder, [(0, job) for job in jobs], inputs=brought)
    assert max(recorder.batches) == 3
    alone = engine_images(recorder, [(0, jobs[2])], inputs=brought)
    assert difference(made["j2"][0], alone["j2"][0]) <= LIMIT
    assert difference(made["j0"][0], house.stock_image(jobs[0].request, brought["j0"])) <= LIMIT
    plain = stock_image(house.pipe, house.pipe.scheduler, jobs[1].request)
    assert difference(made["j1"][0], plain) <= LIMIT


@pytest.fixture(scope="module")
def pool(house):
    pool = ControlPool(house.folder)
    pool.start(1)
    yield pool
    pool.close()


@pytest.fixture
def remote(pool):
    remote = RemoteControlNets(pool.offer, arena_bytes=2**24, patience_s=20.0, host="127.0.0.1")
    yield remote
    remote.close()


@pytest.mark.parametrize("stale", [Stale.NEVER, Stale.ALWAYS])
def test_residuals_that_come_one_by_one_make_the_same_image(house, remote, stale):
    job = a_job(model=house.model.name, controls=(EDGES, DEPTH))
    brought = {job.id: some_conditions(2)}
    near, far = (
        engine_images(house.recorder(by, stale), [(0, job)], inputs=brought)[job.id][0]
        for by in (house.local(), remote)
    )
    assert difference(near, far) == 0


def test_a_worker_that_is_lost_on_its_way_down_changes_nothing_of_the_image(house, pool, remote):
    job = a_job(model=house.model.name, steps=6, controls=(EDGES,))
    brought = some_conditions(1)
    recorder = house.recorder(remote)
    expected = engine_images(recorder, [(0, job)], inputs={job.id: brought})[job.id][0]
    pool.start_first()
    engine = Engine(max_slots=8, max_rows=16, slo_s=60)
    engine.attach(recorder)
    loss = Loss(
        remote, Phase.COMPUTING, stop=pool.stop_the_one_in_use, kill=pool.kill_the_one_in_use
    )
    assert difference(loss.make(engine, job, brought).image, expected) == 0


def test_two_ranks_share_a_steered_image(house, recorder):
    job = a_job(model=house.model.name, controls=(EDGES,))
    conditions = {job.id: some_conditions(1)}
    alone = engine_images(recorder, [(0, job)], inputs=conditions)[job.id][0]
    spec = RankSpec(
        load=load,
        folder=house.folder / "base",
        model=house.model,
        device="cpu",
        dtype="float32",
        threads=1,
    )
    second, sharing, rows = SecondRank(spec, "cpu"), house.recorder(), []
    second.start()
    sharing.runner.share(second)
    wait_for(lambda: second.link is not None)
    sharing.runner.unet.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    shared = engine_images(sharing, [(0, job)], inputs=conditions)[job.id][0]
    sharing.close()
    assert set(rows) == {1}
    assert difference(alone, shared) <= LIMIT


def test_a_worker_without_controlnets_says_so(tmp_path):
    model = save_flux(tmp_path / "flux")
    recorder = load_recorder(tmp_path / "flux", model)
    job = a_job(model=model.name, controls=(EDGES,))
    made = engine_images(
        recorder, [(0, job)], inputs={job.id: some_conditions(1)}, are_failing=True
    )
    assert "without ControlNets here" in str(made[job.id])
