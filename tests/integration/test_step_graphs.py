"""Images of replayed passes are those of passes that run as they are."""

from dataclasses import replace

import numpy as np
import pytest

from catalog.masking.config import MaskingConfig
from core.job import Task
from tests.captured import Captures
from tests.compiled import STEPS, a_mix, an_image, make
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_request
from tests.loras import ATTENTION, CONVOLUTIONS
from tests.models import OF_DIFFUSERS, save_flux, save_sd, save_sd3, save_sdxl
from tests.stock import difference
from worker.families.load import load
from worker.lora.mix import PLAIN
from worker.masking.activations import Activations
from worker.pipeline.step_graphs import StepGraphs

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
]


def an_edit(**changes):
    """Ask for an edit of one template."""
    return a_request(task=Task.EDIT, edit=EDIT, steps=STEPS, **changes), 0, some_inputs(1), PLAIN


class Both:
    """One model twice: its passes as they are, and replayed."""

    def __init__(self, folder, model):
        self.plain, self.replayed = (
            load(folder, model, device="cpu", dtype="float32") for _ in range(2)
        )
        self.captures = Captures()
        self.replayed.graphs = StepGraphs(self.captures)
        for runner in (self.plain, self.replayed):
            runner.overlays.reuse(Activations(2**30), MaskingConfig())

    def replays(self, *asks):
        """Make the images of one batch by both; say how many passes were replayed."""
        before = self.captures.replays
        expected, made = make(self.plain, asks), make(self.replayed, asks)
        assert max(map(difference, made, expected)) <= 1e-5
        return self.captures.replays - before


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdxl")
    return Both(folder, save_sdxl(folder))


def test_all_but_the_first_pass_of_a_shape_are_replayed(both):
    assert both.replays(an_image(7, guidance=1.0)) == STEPS - 1
    assert both.replays(an_image(8, guidance=1.0)) == STEPS


def test_merged_loras_change_what_is_replayed(both):
    mixes = [a_mix(both.plain, name, ATTENTION + CONVOLUTIONS) for name in "ab"]
    both.replays(an_image(0))
    for mix in (mixes[0], PLAIN, mixes[1], mixes[0]):
        assert both.replays(an_image(0, mix)) == STEPS


def test_what_hooks_change_is_not_replayed(both):
    lora = a_mix(both.plain, "a", ATTENTION)
    assert both.replays(an_image(0), an_image(1, lora)) == 0
    assert both.replays(an_edit()) == 0  # it records its template


@pytest.mark.parametrize(
    ("save", "guidances"),
    [(save_sdxl, (1.0, 5.0)), (save_sd3, (1.0, 5.0)), (save_flux, (5.0,))],
)
def test_steps_of_an_edit_are_replayed_for_others_while_it_is_alone(tmp_path, save, guidances):
    both = Both(tmp_path, save(tmp_path))
    for guidance in guidances:
        assert both.replays(an_edit(guidance=guidance)) == 0  # it records its template
        # A step in full, one under the mask, and one that is like it.
        assert both.replays(an_edit(prompt="a circle", guidance=guidance)) == 1
        for prompt in ("two squares", "a star"):
            assert both.replays(an_edit(prompt=prompt, guidance=guidance)) == STEPS
    assert both.replays(an_edit(), an_edit(prompt="a circle")) == 0


def test_masks_of_about_one_size_are_the_same_work(both):
    asked, seed, _, mix = an_edit(guidance=2.0)
    both.replays(an_edit(guidance=2.0))
    both.replays(an_edit(guidance=2.0))
    masks = [np.zeros((32, 32), np.uint8) for _ in range(3)]
    masks[0][8:16, 8:24] = masks[1][16:24, 2:18] = masks[2][8:10, 8:10] = 255
    for mask, replays in zip(masks, (STEPS, STEPS, 2), strict=True):
        inputs = replace(some_inputs(1), mask=mask)
        assert both.replays((asked, seed, inputs, mix)) == replays


def test_an_edit_that_is_not_alone_learns_nothing_of_others(both):
    alone, other = an_edit(guidance=3.0, prompt="a star"), an_edit(guidance=3.0)
    both.replays(other)
    both.replays(other)
    for asks, replays in (((alone,), STEPS), ((alone, other), 0), ((alone,), STEPS)):
        assert both.replays(*asks) == replays


@pytest.mark.parametrize("save", [save_sd, save_sd3, save_flux])
def test_passes_of_every_family_can_be_replayed(tmp_path, save):
    both = Both(tmp_path, save(tmp_path))
    assert both.replays(an_image(0), an_image(1)) == STEPS - 1


def test_a_model_that_is_trimmed_or_closed_has_no_graphs(tmp_path):
    both = Both(tmp_path, save_sdxl(tmp_path))
    both.replays(an_image())
    both.replayed.trim()
    assert both.replays(an_image()) == STEPS - 1
    both.replayed.close()
    assert not both.replayed.graphs._graphs
