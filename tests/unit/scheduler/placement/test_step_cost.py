from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from catalog.masking.costs import BlockShape, CostLine, MaskingCosts
from core.boards.cost import Cost
from core.boards.image_work import ImageWork
from core.model import Model
from scheduler.placement.placer import NO_PLAN
from scheduler.placement.step_cost import (
    PlannedCosts,
    StepCosts,
    Tier,
    masked_tokens,
    step_costs,
)
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import Measured, StepTime

SIDE = 64
BLOCKS = (BlockShape(tokens=1024, channels=64, weights=50_000),) * 3
COMPUTE = CostLine(start_s=1e-3, per_unit_s=(1e-11, 1e-11), r2=0.99)
NOTHING = CostLine(start_s=0.0, per_unit_s=(0.0,), r2=1.0)
SLOW = CostLine(start_s=0.0, per_unit_s=(1e-6,), r2=1.0)
COSTS = MaskingCosts(compute=COMPUTE, load=SLOW, copy=NOTHING, rest_s=2e-3, blocks=BLOCKS)
STEPS = StepCosts.of(COSTS, SIDE**2)


def an_edit(masked=0.1, pixels=SIDE**2, rows=2):
    return ImageWork(
        job="j",
        model="m",
        steps=10,
        rows=rows,
        pixels=pixels,
        masked=masked,
        recording="r",
    )


def seconds(work, tier=Tier.MEMORY):
    return STEPS.burden(work, tier).compute_s


@given(masks=st.tuples(st.floats(0.01, 0.5), st.floats(0.01, 0.5)), tier=st.sampled_from(Tier))
def test_a_larger_mask_is_never_less_to_compute(masks, tier):
    small, large = sorted(masks)
    assert seconds(an_edit(small), tier) <= seconds(an_edit(large), tier) + 1e-12


def test_an_edit_in_full_costs_the_same_wherever_its_template_is():
    full = {tier: STEPS.burden(an_edit(0.6), tier) for tier in Tier}
    assert len(set(full.values())) == 1
    assert seconds(an_edit(0.4)) < full[Tier.MEMORY].compute_s


def test_a_template_that_must_be_recorded_takes_a_row_more_and_all_in_full():
    assert seconds(an_edit(0.1), Tier.NOWHERE) == approx(seconds(an_edit(1.0, rows=3)))


def test_a_slow_disk_leaves_blocks_to_computing_until_loads_are_hidden():
    from_disk = STEPS.burden(an_edit(0.1), Tier.DISK)
    from_memory = STEPS.burden(an_edit(0.1), Tier.MEMORY)
    assert from_memory.load_s == 0.0 < from_disk.load_s
    assert from_memory.compute_s < from_disk.compute_s < seconds(an_edit(1.0))


def test_four_times_the_pixels_are_more_than_four_times_the_work():
    rest_s = 2 * len(BLOCKS) * COSTS.rest_s
    small, large = seconds(an_edit(1.0)), seconds(an_edit(1.0, pixels=4 * SIDE**2))
    assert large - rest_s > 4 * (small - rest_s)


@given(share=st.floats(0.0, 1.0), tokens=st.integers(1, 5000))
def test_a_mask_touches_no_more_tokens_than_there_are(share, tokens):
    assert 0 < masked_tokens(share, tokens) <= tokens


def test_steps_are_known_by_blocks_then_by_batches_then_by_a_guess():
    model = Model(name="m", family="sdxl", default_size=SIDE, step_s=0.4)
    times = tuple(
        StepTime(images=count, is_guided=True, seconds=0.1 + 0.2 * count) for count in (1, 2, 4)
    )
    poor = MaskingCosts(
        compute=CostLine(start_s=0.0, per_unit_s=(1.0, 1.0), r2=0.3),
        load=SLOW,
        copy=NOTHING,
        blocks=BLOCKS,
    )
    found = {}
    for name, measured in {
        "blocks": Measured(masking={"cpu": {"m": COSTS}}, steps={"cpu": {"m": times}}),
        "batches": Measured(masking={"cpu": {"m": poor}}, steps={"cpu": {"m": times}}),
        "guess": Measured(),
    }.items():
        found[name] = step_costs(Profile(models={"m": model}, measured=measured), "m", "cpu")
    whole = {name: costs.burden(an_edit(1.0), Tier.MEMORY) for name, costs in found.items()}
    assert found["blocks"].start_s == approx(3e-3)
    assert whole["batches"].compute_s == approx(0.2)
    assert found["batches"].start_s == approx(0.1)
    assert found["batches"].burden(an_edit(0.1), Tier.MEMORY) == whole["batches"]
    assert whole["guess"].compute_s == approx(0.4)
    assert step_costs(Profile(models={}), "unheard of", "cpu").start_s == 0.0


def test_whole_steps_cost_what_the_plan_in_force_says():
    model = Model(name="m", family="sdxl", default_size=SIDE, step_s=0.4)
    models, plans = {"m": model}, [NO_PLAN]
    costs = PlannedCosts(Profile(models=models), lambda: plans[-1])
    assert costs("m", "new").burden(an_edit(1.0), Tier.MEMORY).compute_s == approx(0.4)
    seen = Cost(steps=((1, 0.03), (2, 0.05)), is_measured=True)
    plans.append(replace(NO_PLAN, costs={"new": {"m": seen}}, slowness={"new": 2.0}))
    assert costs("m", "new").burden(an_edit(1.0), Tier.MEMORY).compute_s == approx(2 * 0.02)
    assert costs("m", "new").start_s == approx(2 * 0.01)
    assert costs("m", "new") is costs("m", "new")
    models["m"] = replace(model, default_size=2 * SIDE)
    assert costs("m", "new").burden(an_edit(1.0), Tier.MEMORY).compute_s == approx(2 * 0.005)


def test_no_plan_says_what_blocks_take():
    model, plans = Model(name="m", family="sdxl", default_size=SIDE), [NO_PLAN]
    profile = Profile(models={"m": model}, measured=Measured(masking={"cpu": {"m": COSTS}}))
    costs = PlannedCosts(profile, lambda: plans[-1])
    known = costs("m", "cpu")
    plans.append(replace(NO_PLAN, slowness={"cpu": 2.0}))
    assert costs("m", "cpu") is known
    assert known.burden(an_edit(), Tier.MEMORY) == STEPS.burden(an_edit(), Tier.MEMORY)
