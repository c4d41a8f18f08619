import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reporting.chart import Chart
from reporting.html import render
from simulator.report.charts import latency, level_shares, levels_best_first
from simulator.report.costs import cost_per_job
from simulator.report.lay_out import lay_out
from simulator.report.rows import rows_of
from simulator.report.stretches import MOST, merged
from simulator.report.write import names_of, write_report
from tests.unit.simulator.report.outcomes import LEVELS, a_series, an_outcome


def two():
    return names_of([an_outcome("argus", slow=2.0), an_outcome("atelier")])


def test_the_best_policy_is_named_first_and_the_next_beside_it():
    named = two()
    document = lay_out(named, {})
    best, other = (f"{named[name].goodput:.3f}" for name in ("atelier", "argus"))
    assert document.answer.startswith(f"atelier delivers most: goodput {best}")
    assert document.answer.endswith(f"Next is argus, {other}.")
    assert [row.name for row in document.chapters[0].blocks[0].rows] == ["atelier", "argus"]


def test_a_policy_keeps_its_colour_in_every_figure():
    document = lay_out(two(), {})
    drawn = [each for chart in document.charts for each in chart.curves]
    assert {each.paint for each in drawn if each.name == "argus"} == {"c0"}
    table = document.chapters[0].blocks[0]
    assert {row.name: row.paint for row in table.rows} == {"argus": "c0", "atelier": "c1"}


def test_levels_are_ordered_by_model_and_of_one_from_all_its_steps():
    assert levels_best_first(two()) == list(LEVELS)
    rows = level_shares(two()).rows
    assert sum(rows["atelier"].values()) == pytest.approx(1.0)


def test_one_policy_with_two_seeds_has_two_names():
    named = names_of([an_outcome(), an_outcome(seed=1)])
    assert list(named) == ["atelier, seed 0", "atelier, seed 1"]


def test_the_share_within_seconds_is_of_all_jobs_and_its_slo_is_marked():
    chart = latency(two())
    ends = [curve.values[-1] for curve in chart.curves]
    assert all(0.9 < end < 0.995 for end in ends)  # one in a hundred was refused
    assert [mark.at for mark in chart.marks] == [12.6]


def test_an_image_costs_what_the_whole_fleet_costs_while_it_is_up():
    outcome = an_outcome()
    made = int((~np.isnan(outcome.ended_s)).sum())
    hours = 8 * max(1200, np.nanmax(outcome.ended_s)) / 3600
    assert cost_per_job(outcome, {"h200": 3.5}) == pytest.approx(3.5 * hours / made)


def test_a_crowd_is_paid_for_until_the_last_of_it_is_made():
    outcome = an_outcome(stretches=1)
    patient = replace(outcome, ended_s=np.linspace(60, 3600, len(outcome.ended_s)))
    assert cost_per_job(patient, {"h200": 1.0}) == pytest.approx(8 / len(outcome.ended_s))
    nobody = replace(outcome, ended_s=np.full_like(outcome.ended_s, np.nan))
    assert cost_per_job(nobody, {"h200": 1.0}) is None


@given(st.integers(1, 500), st.integers(1, 120))
@settings(max_examples=40, deadline=None)
def test_merged_stretches_count_and_weigh_as_all_do(stretches, most):
    series = a_series(stretches, np.random.default_rng(0))
    found = merged(series, most=most)
    assert len(found.demand) <= most
    for name in ("demand", "done", "late"):
        assert getattr(found, name).sum() == getattr(series, name).sum()
    assert found.levels.sum(axis=0).tolist() == series.levels.sum(axis=0).tolist()
    whole = np.nansum(series.goodput * series.demand)
    assert np.nansum(found.goodput * found.demand) == pytest.approx(whole)


def test_four_files_hold_the_outcomes(tmp_path):
    outcomes = [an_outcome("argus", slow=2.0), an_outcome("atelier")]
    paths = write_report(outcomes, tmp_path, run={"fleet": "h200=8"}, prices={"h200": 3.5})
    page, _, machine, table = paths
    assert page.stat().st_size < 1_000_000
    read = json.loads(machine.read_text())
    assert [each["policy"] for each in read["policies"]] == ["argus", "atelier"]
    assert read["run"] == {"fleet": "h200=8"}
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == len(rows_of(names_of(outcomes))) == 240
    assert sum(int(row["demand"]) for row in rows[:120]) == outcomes[0].series.demand.sum()


def test_ten_policies_over_a_day_are_less_than_a_megabyte():
    named = names_of([an_outcome(f"policy {i}", seed=i, stretches=1440) for i in range(10)])
    document = lay_out(named, {})
    assert all(len(chart.x) <= 2 * MOST for chart in document.charts if isinstance(chart, Chart))
    assert len(render(document)) < 1_000_000
