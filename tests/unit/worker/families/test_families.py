"""A family of models is one file and one row; what names one must be there."""

import json
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import diffusers
import numpy as np
import pytest

import worker.families
from catalog.weights import CONTROLNETS
from core.family import FAMILIES, Family
from tests.jobs import a_job
from tests.models import tiny_model
from tests.stock import engine_images
from worker.control.server.load_network import NETWORKS
from worker.families import RUNNERS
from worker.families.load import load
from worker.families.noop import NoopRunner

ROOT = Path(__file__).parents[4]
PREFIX = f"{worker.families.__name__}."


class WhiteRunner(NoopRunner):
    """A family that paints everything white."""

    def decode(self, sample):
        return np.full((*sample.size, 3), 255, np.uint8)


def test_a_family_that_is_added_needs_its_class_and_its_row(monkeypatch, tmp_path):
    monkeypatch.setitem(RUNNERS, "white", lambda: WhiteRunner)
    model = tiny_model(family="white")
    runner = load(tmp_path, model, device="cpu", dtype="float32")
    [image] = engine_images(runner, [(0, a_job(steps=2, width=16, height=8))])["j1"]
    assert image.shape == (8, 16, 3) and image.min() == 255
    assert model.family_facts == Family()  # as it has no row of other facts


def test_a_row_of_facts_is_all_that_api_and_scheduler_need(monkeypatch):
    facts = Family(samplers={"own": ("OwnScheduler", {})}, can_edit=True, embeds_guidance=True)
    monkeypatch.setitem(FAMILIES, "white", facts)
    model = tiny_model(family="white")
    assert list(model.samplers) == ["own"]
    assert model.can_edit and not model.reads_negative_prompts and not model.is_guided(5.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_row_has_one_runner_in_the_file_with_its_name(name):
    runner = RUNNERS[name]()
    assert (runner.family, runner.__module__) == (name, f"worker.families.{name}")


def test_every_runner_that_names_a_family_has_its_row():
    modules = [import_module(each.name) for each in iter_modules(worker.families.__path__, PREFIX)]
    named = [
        each.family
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and hasattr(each, "family")
    ]
    assert sorted(named) == sorted(FAMILIES)


def test_every_family_that_is_named_has_its_row():
    named = {json.loads(file.read_text())["family"] for file in ROOT.glob("zoo/weights/*/a*.json")}
    assert named and named <= FAMILIES.keys()


@pytest.mark.parametrize("name", sorted(RUNNERS.keys() - {"noop", "paced", "esrgan"}))
def test_a_family_names_a_pipeline_of_diffusers_and_a_part_of_it(name):
    runner = RUNNERS[name]()
    parts = getattr(diffusers, runner.pipeline_class)._get_signature_types()
    assert runner.architecture.part in parts
    assert runner.architecture.compiled >= runner.architecture.cuts.keys()


def test_every_controlnet_that_is_served_has_its_row():
    assert NETWORKS.keys() == set(CONTROLNETS)
