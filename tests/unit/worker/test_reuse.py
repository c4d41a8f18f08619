"""Which rows of an edit run in full at which step, and what is left of its template?"""

from dataclasses import dataclass, replace

import pytest
import torch

from core.job import Edit
from tests.jobs import a_request
from tests.models import make_unet
from worker.edit import Canvas
from worker.masking.activations import Activations
from worker.masking.knobs import Knobs
from worker.masking.recording import Recording
from worker.masking.reuse import Masking
from worker.masking.rows import MaskedRow, RecordedRow

STEPS = 8
REQUEST = a_request(
    steps=STEPS, edit=Edit(template="t/template.png", template_sha256="ab", mask="t/mask.png")
)


@dataclass
class Schedule:
    """As much of a sampler as masks look at."""

    position: int = 0
    num_steps: int = STEPS


def a_canvas(masked=0.25):
    mask = torch.zeros(1, 1, 16, 16)
    mask[..., : round(16 * masked), :] = 1
    latent = torch.zeros(1, 4, 16, 16)
    return Canvas(template=latent, noise=latent, mask=mask, is_blank=not masked)


class Desk:
    """The masks of one model, its recordings, and the edits of one template."""

    def __init__(self, **knobs):
        self.unet = make_unet(cross_attention_dim=64)
        self.activations = Activations(2**30)
        self.masking = Masking(self.unet, self.activations, Knobs(**knobs), weights="w")

    def open(self, canvas=None, *, at=0, rows=2, **changes):
        request = replace(REQUEST, **changes)
        canvas = canvas or a_canvas()
        return self.masking.open(request, 1, canvas, Schedule(at), rows, is_guided=True)

    def record(self, steps=range(STEPS)):
        """Record a template of ones, as its first edit would."""
        recording = Recording()
        for position in steps:
            recording.keep(position, {name: torch.ones(64, 64) for name in self.masking.blocks})
        self.activations.add(self.open().key, recording)


@pytest.fixture
def desk():
    desk = Desk(full_share=0.25)
    desk.record()
    yield desk
    desk.masking.close()


def test_the_first_step_of_an_edit_and_every_fourth_run_in_full_if_a_quarter_shall(desk):
    reuse = desk.open()
    kinds = [{type(row) for row in reuse.rows(position, 2)} for position in range(STEPS)]
    assert kinds == [{RecordedRow}, *[{MaskedRow}] * 3] * 2
    begun_late = desk.open(at=3)
    assert begun_late.full == {3, 7}


def test_what_a_step_in_full_was_apart_from_its_template_corrects_the_steps_behind_it(desk):
    reuse, (name, *_) = desk.open(), sorted(desk.masking.blocks)
    for number, row in enumerate(reuse.rows(0, 2)):
        row.outputs[name] = torch.full((64, 64), 3.0 + number)
    corrected = [row.cached[name].mean().item() for row in reuse.rows(1, 2)]
    assert corrected == pytest.approx([3.0, 4.0])
