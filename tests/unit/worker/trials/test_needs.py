from dataclasses import replace

import pytest
import torch
from torch import nn

from core.boards.need import Need, together_gib
from tests.cases import rarely_but
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from worker.families import RUNNERS
from worker.families.load import load
from worker.trials.live_memory import peak_bytes
from worker.trials.needs import GIB, need_of

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


def of(folder, model, dtype="float32"):
    return need_of(folder, model, RUNNERS[model.family]().pipeline_class, dtype)


def tensors_of(part):
    return [*part.parameters(), *part.buffers()]


@pytest.mark.parametrize("save", rarely_but([save_sdxl, save_sd3], [save_sd, save_flux]))
@pytest.mark.parametrize("dtype", rarely_but(["float32"], ["bfloat16"]))
def test_weights_count_as_they_are_loaded(tmp_path, save, dtype):
    model = save(tmp_path)
    need, runner = of(tmp_path, model, dtype), load(tmp_path, model, device="cpu", dtype=dtype)
    parts = [part for part in runner.pipe.components.values() if isinstance(part, nn.Module)]
    loaded = sum(t.numel() * t.element_size() for part in parts for t in tensors_of(part))
    assert need.weights_gib * GIB == pytest.approx(loaded, rel=0.06)  # and a few buffers
    assert need.work_gib > 0


def test_twice_the_width_takes_four_times_the_work_and_half_the_precision_half(tmp_path):
    model = save_sd(tmp_path)
    small = of(tmp_path, model)
    large = of(tmp_path, replace(model, max_size=2 * model.max_size))
    assert large.work_gib == small.work_gib  # of its usual size
    assert 3.0 < large.most_gib / small.most_gib <= 4.0
    assert of(tmp_path, model, "bfloat16").work_gib == pytest.approx(small.work_gib / 2, rel=0.05)


def test_a_copy_counts_in_its_own_precision(tmp_path):
    model = save_sd(tmp_path)
    half = of(tmp_path, replace(model, dtype="bfloat16"))
    assert half == of(tmp_path, model, "bfloat16")


def test_models_held_at_a_time_take_their_weights_and_the_largest_work():
    needs = [Need(weights_gib=1.0, work_gib=2.0), Need(weights_gib=3.0, work_gib=0.5)]
    assert together_gib(needs) == 6.0 and together_gib([]) == 0.0


def test_what_is_alive_at_a_time_is_added_up():
    def compute():
        first = torch.empty(100, device="meta")
        second = first + 1  # 800 bytes
        del first
        third = second[:50] * 2  # a view takes nothing; 600
        del second
        return torch.cat([third] * 3)  # 200 and 600

    assert peak_bytes(compute) == 800


def test_attention_holds_no_row_of_scores_for_each_token():
    heads = torch.empty(1, 8, 4096, 64, device="meta")
    attend = nn.functional.scaled_dot_product_attention
    assert peak_bytes(lambda: attend(heads, heads, value=heads)) == heads.numel() * 4
