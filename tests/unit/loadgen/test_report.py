import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.job import Timing
from loadgen.main import write_report
from loadgen.page.charts import levels_in_order
from loadgen.page.lay_out import lay_out, rows_of
from loadgen.report import make_report, series, shares, spread, summarise
from loadgen.sample import ClientOutcome, RequestSample
from reporting.files import as_csv
from reporting.html import render


def a_sample(due_s=0.0, took_s=1.0, ending=ClientOutcome.SUCCEEDED, late_s=0.0, **more):
    timing = Timing(queue_s=0.1, prepare_s=0.2, denoise_s=0.5, finish_s=0.2, total_s=1.0)
    return RequestSample(
        due_s=due_s,
        sent_s=due_s + late_s,
        accepted_s=due_s + late_s + 0.01,
        ended_s=due_s + took_s,
        ending=ending,
        **{"timing": timing, "level": "m@0", "model": "m", **more},
    )


def a_page(report, samples):
    return render(lay_out(report, samples))


def test_latency_counts_from_the_due_time_so_that_a_late_client_hides_nothing():
    report = make_report([a_sample(due_s=1.0, took_s=3.0, late_s=2.0)], {})
    assert report.latency.p50 == 3.0
    assert report.lateness.p50 == 2.0


def test_only_jobs_that_succeeded_count_for_latency_levels_and_stages():
    samples = [
        a_sample(),
        a_sample(took_s=9.0, ending=ClientOutcome.FAILED, level="x@0", error="oom"),
    ]
    report = make_report(samples, {})
    assert report.latency.max == 1.0
    assert report.levels == {"m@0": 1.0}
    assert report.endings == {"succeeded": 1, "failed": 1}
    assert report.errors == {"oom": 1}
    assert report.stages["denoise_s"].p50 == 0.5


def test_percentiles_are_those_of_the_samples():
    found = spread([float(i) for i in range(101)])
    assert (found.p50, found.p90, found.p99, found.max) == (50.0, 90.0, 99.0, 100.0)


@given(st.lists(st.sampled_from(["a@0", "b@0", "b@5"]), min_size=1))
def test_shares_sum_to_one(levels):
    assert sum(shares(levels).values()) == pytest.approx(1.0)


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0.01, 50), st.sampled_from(ClientOutcome)),
        min_size=1,
    )
)
@settings(deadline=None)
def test_the_series_counts_every_request_once(drawn):
    samples = [a_sample(due_s=due, took_s=took, ending=end) for due, took, end in drawn]
    duration_s = max(sample.ended_s for sample in samples)
    stretches = series(samples, duration_s)
    assert sum(stretch.asked for stretch in stretches) == len(samples)
    good = sum(sample.ending is ClientOutcome.SUCCEEDED for sample in samples)
    assert sum(stretch.succeeded for stretch in stretches) == good
    assert all(0 <= stretch.in_flight <= len(samples) for stretch in stretches)
    assert len(stretches) <= 60


def test_the_job_that_ends_a_long_run_is_in_its_last_stretch():
    samples = [a_sample(due_s=float(at)) for at in range(120)]
    report = make_report(samples, {})
    assert len(report.series) == 60
    assert sum(stretch.succeeded for stretch in report.series) == 120


def test_the_rate_asked_for_counts_gaps_and_not_requests():
    assert make_report([a_sample(due_s=i / 2) for i in range(5)], {}).offered_per_s == 2.0


def test_a_run_in_which_nothing_succeeded_still_has_a_report():
    samples = [
        RequestSample(due_s=0, sent_s=0, ended_s=1, ending=ClientOutcome.REFUSED, error="HTTP 503")
        for _ in range(3)
    ]
    report = make_report(samples, {"rate": 3})
    assert (report.latency, report.succeeded_per_s) == (None, 0.0)
    assert "nothing to show" in a_page(report, samples)


def test_an_empty_run_has_a_report():
    report = make_report([], {})
    assert report.asked == 0
    assert "0 of 0" in a_page(report, [])


def test_the_page_tells_what_was_run_and_what_it_is_made_of():
    samples = [a_sample(due_s=i / 10, took_s=1 + i / 50) for i in range(50)]
    report = make_report(samples, {"url": "<b>"})
    document = lay_out(report, samples)
    assert [chart.name for chart in document.charts] == ["throughput", "in_flight", "latency"]
    assert [mark.text for mark in document.charts[-1].marks] == ["p50", "p95", "p99"]
    assert "&lt;b&gt;" in render(document)


def test_a_run_with_an_slo_and_qualities_shows_both_over_time():
    samples = [
        a_sample(due_s=i / 2, took_s=1 + i / 10, level=f"m@{i % 2}", quality=0.8 + 0.2 * (i % 2))
        for i in range(40)
    ]
    document = lay_out(make_report(samples, {}, slo_s=3.0), samples)
    drawn = {chart.name: chart for chart in document.charts}
    assert list(drawn) == ["throughput", "in_flight", "late", "quality", "levels", "latency"]
    assert drawn["late"].curves[0].values[0] == 0.0
    assert [value for value in drawn["late"].curves[0].values if value is not None][-1] == 1.0
    assert drawn["latency"].marks[-1].text == "SLO"
    assert {key.title for key in document.keys} >= {"Late", "Goodput", "Quality"}


def test_levels_are_shown_by_model_the_best_first():
    made = [("a", 10, 0.6), ("a", 0, 0.7), ("b", 0, 0.9)]
    samples = [
        a_sample(due_s=float(i), level=f"{model}@{skipped}", model=model, quality=quality)
        for i, (model, skipped, quality) in enumerate(made)
    ]
    assert levels_in_order(make_report(samples, {}), samples) == ["b@0", "a@0", "a@10"]


def test_a_client_that_was_the_bottleneck_is_said_to_be():
    late = [a_sample(late_s=0.5)]
    assert "bottleneck" in a_page(make_report(late, {}), late)
    assert "bottleneck" not in a_page(make_report([a_sample()], {}), [a_sample()])


def test_the_files_hold_the_same_run(tmp_path):
    samples = [a_sample(due_s=float(i)) for i in range(4)]
    report = make_report(samples, {"rate": 1.0})
    write_report(report, samples, tmp_path / "made")
    read = json.loads((tmp_path / "made" / "report.json").read_bytes())
    assert read["asked"] == 4
    assert read["latency"]["p50"] == 1.0
    back = msgspec.json.decode(
        (tmp_path / "made" / "samples.json").read_bytes(), type=list[RequestSample]
    )
    assert back == samples
    assert summarise(report) in (tmp_path / "made" / "report.html").read_text()
    assert (tmp_path / "made" / "report.csv").read_text() == as_csv(rows_of(report))
    assert (tmp_path / "made" / "report.png").read_bytes().startswith(b"\x89PNG")
