"""Runs of `bench.delivered` that are kept, and which of them are summed up."""

import json
from dataclasses import asdict, replace

import pytest

from bench.delivered import means_of
from bench.parts.delivered_runs import Run, Trial, complete, read, run_all

POLICIES = ("atelier", "ac")


def a_run(goodput: float) -> Run:
    return Run(goodput=goodput, late=0.0, quality=1.0, loads_each=0.0, promised=0.0, deciding_s=0.1)


def a_trial(policy: str = "atelier", seed: int = 0, regime: str = "light") -> Trial:
    return Trial(regime=regime, policy=policy, seed=seed, seconds=60.0, is_misjudged=seed == 0)


def kept_in(path, runs):
    rows = [{"trial": asdict(trial), "run": asdict(found)} for trial, found in runs.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def runs():
    """Both policies have been through seed 0, one of them through seed 1."""
    return {
        a_trial(): a_run(0.9),
        a_trial("ac"): a_run(0.8),
        a_trial(seed=1): a_run(0.1),
    }


def test_what_was_kept_is_not_made_again(tmp_path, runs):
    kept = kept_in(tmp_path / "runs.jsonl", runs)
    assert list(run_all(list(runs), kept, processes=1)) == [runs]


def test_a_run_of_another_length_is_another_one(tmp_path, runs):
    kept = kept_in(tmp_path / "runs.jsonl", runs)
    longer = [replace(trial, seconds=1200.0) for trial in runs]
    assert list(run_all(longer, kept, processes=0)) == [{}]


def test_a_line_that_was_not_written_to_its_end_is_no_run(tmp_path, runs):
    kept = kept_in(tmp_path / "runs.jsonl", runs)
    kept.write_text(kept.read_text()[:-20])
    assert len(read(kept)) == len(runs) - 1


def test_policies_are_compared_over_the_worlds_that_all_have_been_in(runs):
    assert complete(runs, POLICIES).keys() == {a_trial(), a_trial("ac")}
    means = means_of(runs, POLICIES)
    assert means["light"]["atelier"].goodput == 0.9
    assert means["light"]["ac"].goodput == 0.8


def test_a_run_ends_in_the_file_and_in_what_is_given(tmp_path):
    kept, trial = tmp_path / "runs.jsonl", a_trial("clipper-ht")
    *_, found = run_all([trial], kept, processes=1)
    assert read(kept) == found
    assert 0 < found[trial].goodput <= 1
