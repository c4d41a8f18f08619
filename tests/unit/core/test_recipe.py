from dataclasses import replace

from core.job import Edit, Quality
from core.levels.approximation import skipping
from core.model import Model
from core.recipe import NAME_DIGITS, Recipe, edit_works, works_of
from core.uploads.lora import AppliedLora
from tests.jobs import a_request

MODEL = Model(name="tiny", family="sdxl")
EDIT = Edit(template="t/i.png", template_sha256="ab", mask="t/m.png", masked=0.1)
ASKED = a_request(edit=EDIT, width=64, height=32, steps=10)


def name_of(request, seed=0, is_guided=True):
    return Recipe.of(request, seed, is_guided=is_guided).name


def test_edits_share_a_recipe_whatever_their_prompt_and_mask():
    other = replace(ASKED, prompt="else", edit=replace(EDIT, mask="t/other.png", masked=0.3))
    assert name_of(ASKED) == name_of(other)
    assert len(name_of(ASKED)) == NAME_DIGITS


def test_noise_schedule_size_and_model_are_part_of_a_recipe():
    changes = [{"steps": 11}, {"width": 32}, {"model": "other"}, {"scheduler": "ddim"}]
    others = [name_of(replace(ASKED, **change)) for change in changes]
    assert len({name_of(ASKED), name_of(ASKED, seed=1), *others}) == len(changes) + 2


def test_guidance_counts_where_it_is_told_to_the_model():
    stronger = replace(ASKED, guidance=9.0)
    assert name_of(ASKED) == name_of(stronger)
    assert name_of(ASKED, is_guided=False) != name_of(stronger, is_guided=False)


def test_every_image_of_an_edit_is_work_with_a_recipe_of_its_own():
    first, second = works_of("j", replace(ASKED, n=2, seed=7), MODEL)
    assert (first.steps, first.rows, first.pixels, first.masked) == (10, 2, 2048, 0.1)
    assert first.recording == name_of(ASKED, seed=7)
    assert second.recording == name_of(ASKED, seed=8)


def test_what_is_skipped_or_cut_off_the_schedule_is_no_work():
    [weak] = works_of("j", replace(ASKED, edit=replace(EDIT, strength=0.5)), MODEL)
    [resumed] = works_of("j", a_request(steps=10), MODEL, approximation=skipping(10))
    assert (weak.steps, resumed.steps) == (5, 8)
    assert (resumed.masked, resumed.recording) == (1.0, "")


def test_only_edits_that_reuse_their_template_are_sent_to_a_worker():
    assert edit_works("j", ASKED, MODEL)
    assert not edit_works("j", a_request(), MODEL)
    assert not edit_works("j", replace(ASKED, quality=Quality.EXACT), MODEL)
    assert not edit_works("j", replace(ASKED, edit=replace(EDIT, mask="")), MODEL)


def test_what_an_edit_reuses_is_named_with_its_loras():
    lora = AppliedLora(id="ink", key="k", models=("tiny",), size_bytes=1, sha256="ab")
    [plain], [styled] = (
        works_of("j", asked, MODEL) for asked in (ASKED, replace(ASKED, loras=(lora,)))
    )
    assert plain.recording != styled.recording
