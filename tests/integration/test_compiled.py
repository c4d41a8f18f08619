"""Does a compiled UNet make the same images, with one graph for each bucket of rows?"""

from dataclasses import replace

import pytest
import torch

from core.job import Task
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_job, a_request
from tests.loras import ATTENTION, factors
from tests.models import OF_DIFFUSERS, save_sd3, save_sdxl
from tests.stock import Recorder, difference, engine_images
from worker.lora.mix import PLAIN, Lora, Mix, Product
from worker.masking.activations import Activations
from worker.masking.knobs import Knobs
from worker.pipeline import load

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # dynamo and what it traces warn a lot
    pytest.mark.filterwarnings(OF_DIFFUSERS),
]


def test_a_compiled_model_makes_the_same_images_with_one_graph_a_bucket(tmp_path):
    """With dynamo's eager backend: graphs are captured and guarded, no compiler is needed."""
    model = save_sdxl(tmp_path / "tiny")
    runner = load(tmp_path / "tiny", model, device="cpu", dtype="float32")
    jobs = [(i, a_job(f"j{i}", at=float(i), seed=i, steps=3)) for i in range(3)]
    plain = engine_images(Recorder(runner), jobs)
    torch._dynamo.utils.counters.clear()
    runner.compile(buckets=(2, 4, 8), backend="eager")
    compiled = engine_images(Recorder(runner), jobs)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    rows = predict_rows(runner)
    torch.compiler.reset()
    assert 1 <= graphs <= 3
    for job_id, images in plain.items():
        assert difference(images[0], compiled[job_id][0]) <= 1e-4
    runner.unet = runner.pipe.unet
    for ours, wanted in zip(rows, predict_rows(runner), strict=True):
        assert difference(ours, wanted) <= 1e-5
    assert difference(*rows) > 1e-2, "rows with LoRAs of their own are as those without"


def predict_rows(runner):
    """Predict for two images of which one has a LoRA, which what is compiled would not see."""
    drawn = factors(runner.overlays.adapters.shapes, ATTENTION)
    lora = Lora("a", {at: Product(down, up.flatten(1), 1.0) for at, (down, up) in drawn.items()})
    mixes = [PLAIN, Mix.of([(lora, 1.0)])]
    return runner.forward([runner.begin(a_request(guidance=1.0), 0, None, mix) for mix in mixes])


@pytest.mark.parametrize("save", [save_sdxl, save_sd3])
def test_an_edit_under_its_mask_runs_without_graphs(tmp_path, save):
    runner = load(tmp_path, save(tmp_path), device="cpu", dtype="float32")
    runner.overlays.reuse(Activations(2**30), Knobs())
    request = a_request(task=Task.EDIT, edit=EDIT)

    def edit():
        sample = runner.open(request, 0, some_inputs(1))
        for _ in range(sample.num_steps):
            runner.advance(sample, runner.forward([sample])[0])
        return runner.image(sample)

    edit()  # records
    plain = edit()
    torch._dynamo.utils.counters.clear()
    runner.compile(buckets=(2, 4), backend="eager")
    assert torch.equal(edit(), plain)
    assert not torch._dynamo.utils.counters["stats"]


def test_a_copy_that_says_so_is_compiled_when_it_is_loaded(tmp_path):
    copy = replace(save_sdxl(tmp_path / "copy"), is_compiled=True)
    runner = load(tmp_path / "copy", copy, device="cpu", dtype="float32")
    assert isinstance(runner.unet, torch._dynamo.OptimizedModule)
