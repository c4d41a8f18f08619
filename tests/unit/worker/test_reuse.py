"""Rows of an edit that run in full at each step, and what is left of its template."""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
import torch

from catalog.masking.config import Keep, MaskingConfig
from core.job import Edit, Quality
from core.telemetry import metrics
from tests.jobs import a_request
from tests.models import CUTS, make_transformer, make_unet
from worker.diffusion.edit import Canvas
from worker.diffusion.forward_context import HookedModel
from worker.masking.activations import Activations
from worker.masking.blocks.rows import MaskedRow, RecordedRow, rows_of
from worker.masking.recording import Recording
from worker.masking.reuse import Masking

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

    def __init__(self, model=None, *, budget=2**30, **knobs):
        self.unet = model or make_unet(cross_attention_dim=64)
        self.activations = Activations(budget)
        self.masking = Masking(
            self.unet, CUTS, self.activations, MaskingConfig(**knobs), weights="w"
        )

    @property
    def rows(self):
        """What the blocks are told of the rows of a step."""
        return rows_of(HookedModel.of(self.unet).context)

    @contextmanager
    def called(self, samples, numbers=None):
        """Call the model for some samples."""
        hooked = HookedModel.of(self.unet)
        with self.masking.applied(samples, numbers) as context, hooked.running(context):
            yield

    def open(self, canvas=None, *, at=0, rows=2, is_guided=True, **changes):
        request = replace(REQUEST, **changes)
        canvas = canvas or a_canvas()
        return self.masking.open(request, 1, canvas, Schedule(at), rows, is_guided=is_guided)

    def recording(self, steps=range(STEPS), names=()):
        """Record a template of ones, as its first edit would."""
        recording = Recording()
        for position in steps:
            outputs = {name: torch.ones(64, 32) for name in names or self.masking.blocks}
            recording.keep(position, outputs)
        return recording

    def record(self, steps=range(STEPS)):
        """Put such a recording at hand."""
        self.activations.add(self.open().key, self.recording(steps))


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
        row.outputs[name] = torch.full((64, 32), 3.0 + number)
    corrected = [row.cached[name].mean().item() for row in reuse.rows(1, 2)]
    assert corrected == pytest.approx([3.0, 4.0])


@dataclass
class EditSample:
    """A sample as masks see it."""

    reuse: object
    rows: int
    sampler: Schedule


def step(desk, samples, position, numbers=None):
    """Take one step of the model; return the rows that its blocks were told of."""
    for sample in samples:
        sample.sampler.position = position
    count = sum(sample.rows for sample in samples) if numbers is None else len(numbers)
    with torch.no_grad(), desk.called(samples, numbers):
        told = desk.rows
        desk.unet(torch.ones(count, 4, 16, 16), 1, torch.ones(count, 7, 64))
    return told


@pytest.mark.parametrize(
    "changes",
    [{"edit": None}, {"quality": Quality.EXACT}, {"canvas": a_canvas(0.75)}],
    ids=["no edit", "exact", "more than half is made anew"],
)
def test_some_jobs_run_in_full_and_leave_nothing_behind(desk, changes):
    assert desk.open(**changes) is None
    assert desk.open(a_canvas(0.5)) is not None, "half is not too much"


def test_the_first_edit_of_a_template_draws_it_in_a_last_row_beside_its_own():
    desk = Desk()
    reuse = desk.open()
    assert reuse.is_recording and reuse.feed is None
    *own, last = reuse.rows(0, 3)
    assert own == [None, None]
    assert isinstance(last, RecordedRow) and last.has_caption and not last.outputs
    assert not desk.open(is_guided=False).rows(0, 3)[-1].has_caption


def test_the_row_of_the_template_is_kept_step_by_step_and_found_after_the_last():
    desk = Desk()
    sample = EditSample(desk.open(), 3, Schedule())
    recording = sample.reuse.recording
    for position in range(STEPS):
        assert desk.activations.find(sample.reuse.key) is None
        *own, last = step(desk, [sample], position)
        assert own == [None, None]
        recorded = recording.steps[position]
        assert set(recorded) == set(last.outputs) == set(desk.masking.blocks)
    found = desk.activations.find(sample.reuse.key)
    assert found is recording and found.covers(range(STEPS))
    assert sample.reuse.is_recording, "its last row is there until it is decoded"
    assert sample.reuse.recording is None, "who remembers the edit would hold what was dropped"
    later = desk.open()
    assert not later.is_recording and later.feed is not None


def of_template(number):
    """An edit of another template."""
    return replace(REQUEST.edit, template_sha256=f"{number:02x}")


def size_of_one(desk):
    """Record a template by an edit of it; say how many bytes that takes."""
    sample = EditSample(desk.open(edit=of_template(0)), 3, Schedule())
    for position in range(STEPS):
        step(desk, [sample], position)
    return desk.activations.find(sample.reuse.key).num_bytes


def dropped(outcome):
    return metrics.recordings_dropped.labels(outcome)._value.get()


def test_an_edit_whose_recording_has_no_room_is_made_in_full_and_counted():
    desk = Desk()
    size = size_of_one(desk)
    desk.activations.budget_bytes = 2 * size - 1
    first, before = desk.open(edit=of_template(1)), dropped("not_begun")
    assert first.is_recording and first.recording.expected_bytes == size
    assert desk.open(edit=of_template(2)) is None
    assert dropped("not_begun") == before + 1
    assert desk.open(edit=of_template(2), at=STEPS // 2).is_recording, "half of it has room"
    first.close()
    assert desk.open(edit=of_template(2)).is_recording


def test_what_is_kept_makes_room_for_a_recording():
    desk = Desk()
    size = size_of_one(desk)
    desk.activations.budget_bytes = size
    assert desk.activations.num_bytes == size
    assert desk.open(edit=of_template(1)).is_recording
    assert desk.activations.num_bytes == 0


def test_a_recording_of_unknown_size_is_given_up_for_one_that_was_begun_before_it():
    desk, before = Desk(budget=1), dropped("given_up")
    first, second = (
        EditSample(desk.open(edit=of_template(number)), 3, Schedule()) for number in range(2)
    )
    for position in range(2):  # after the first step it is known of both
        step(desk, [second, first], position)
    assert second.reuse.recording is None and second.reuse.is_recording
    assert dropped("given_up") == before + 1
    told = step(desk, [second, first], 2)
    assert [type(row) for row in told[2::3]] == [type(None), RecordedRow]
    assert first.reuse.recording.covers(range(3)), "alone it may be larger than the budget"
    for position in range(3, STEPS):
        step(desk, [second, first], position)
    assert first.reuse.recording is None
    assert desk.activations.find(first.reuse.key) is None, "which is why it is dropped"


def test_an_edit_that_is_over_lets_go_of_its_template(desk):
    later = desk.open()
    later.rows(0, 2)
    later.close()
    assert later.drift is None and not later.feed.at(1)
    first = Desk().open()
    first.close()
    assert first.recording is None


def test_only_the_rows_of_edits_are_masked_in_a_batch_with_others(desk):
    edit, other = EditSample(desk.open(), 2, Schedule()), EditSample(None, 1, Schedule())
    told = step(desk, [other, edit], 1)
    assert [type(row) for row in told] == [type(None), MaskedRow, MaskedRow]
    assert desk.rows == (), "blocks are told nothing between steps"
    assert [type(row) for row in step(desk, [other, edit], 2, [2, 0])] == [MaskedRow, type(None)]
    assert step(desk, [other], 1) == ()


def test_a_later_edit_leaves_nothing_behind_though_some_of_its_steps_run_in_full(desk):
    edit = EditSample(desk.open(), 2, Schedule())
    told = step(desk, [edit], 0)
    assert {type(row) for row in told} == {RecordedRow} and edit.reuse.recording is None


def test_blocks_are_told_nothing_any_more_after_a_step_that_failed(desk):
    edit = EditSample(desk.open(), 2, Schedule())
    with pytest.raises(MemoryError), desk.called([edit]):
        raise MemoryError
    assert desk.rows == ()


def test_what_a_failed_step_would_have_left_behind_is_not_kept():
    desk = Desk()
    edit = EditSample(desk.open(), 3, Schedule())
    with pytest.raises(MemoryError), desk.called([edit]):
        raise MemoryError
    assert not edit.reuse.recording.steps


def test_only_the_row_that_was_told_what_the_template_was_takes_its_caption(desk):
    for is_guided in (True, False):
        recording = desk.open(is_guided=is_guided)
        desk.activations.add(recording.key, desk.recording())
        reuse = desk.open(is_guided=is_guided)
        assert [row.has_caption for row in reuse.rows(0, 2)] == [is_guided, False]
        assert [row.is_told_alike for row in reuse.rows(1, 2)] == [is_guided, False]


def test_a_recording_that_lacks_a_step_of_the_edit_is_drawn_anew():
    desk = Desk()
    desk.record(range(1, STEPS))
    assert desk.open().is_recording
    assert not desk.open(at=1).is_recording


@pytest.mark.parametrize(("steps", "tier"), [(STEPS, "memory"), (STEPS - 1, "none"), (0, "none")])
def test_each_edit_counts_where_its_recording_was_found(steps, tier):
    desk = Desk()
    if steps:
        desk.record(range(steps))
    before = hits(tier)
    desk.open()
    assert hits(tier) == before + 1


def hits(tier):
    return metrics.cache_hits.labels("activations", tier)._value.get()


def test_nothing_is_left_to_do_where_nothing_is_made_anew_of_a_template_that_is_recorded(desk):
    assert desk.open(a_canvas(0.0)) is None
    assert Desk().open(a_canvas(0.0)).is_recording


def test_without_steps_in_full_every_step_is_masked_and_nothing_is_corrected():
    desk = Desk(full_share=0.0)
    desk.record()
    reuse, (name, *_) = desk.open(), sorted(desk.masking.blocks)
    rows = [row for position in range(STEPS) for row in reuse.rows(position, 2)]
    assert {type(row) for row in rows} == {MaskedRow}
    assert all(torch.equal(row.cached[name], torch.ones(64, 32)) for row in rows)


def test_keys_are_kept_only_of_a_model_all_of_whose_blocks_have_them():
    unet, transformer = Desk(keeps=Keep.KEYS), Desk(make_transformer(), keeps=Keep.KEYS)
    assert unet.open().keeps is Keep.OUTPUTS and unet.open().keys == ()
    reuse = transformer.open()
    assert reuse.keeps is Keep.KEYS and len(reuse.keys) == 2 * len(transformer.masking.blocks)
    assert reuse.rows(0, 2)[-1].keeps is Keep.KEYS


def test_a_step_without_some_of_its_keys_runs_in_full():
    desk = Desk(make_transformer(), keeps=Keep.KEYS, full_share=0.0)
    first = desk.open()
    desk.activations.add(first.key, desk.recording(names=first.keys))
    steps = desk.activations.find(first.key).steps
    steps[3] = steps[3].only(set(steps[3]) - {first.keys[1]})
    reuse = desk.open()
    kinds = [{type(row) for row in reuse.rows(position, 2)} for position in (2, 3, 4)]
    assert kinds == [{MaskedRow}, {type(None)}, {MaskedRow}]


def test_an_edit_says_which_steps_of_its_schedule_are_its_own():
    reuse = Desk().open(at=3)
    assert (reuse.begin, reuse.end) == (3, STEPS)


def test_a_model_has_blocks_if_a_mask_can_cut_any():
    assert Desk().masking.has_blocks
    unet = make_unet(cross_attention_dim=64)
    none = Masking(unet, {}, Activations(1), MaskingConfig(), weights="w")
    assert not none.has_blocks
    none.close()


def test_a_model_that_goes_loads_nothing_more(desk):
    desk.masking.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        desk.masking._loader._thread.submit(print)
