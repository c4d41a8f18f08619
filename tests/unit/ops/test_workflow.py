"""The workflow of a release builds what is here, by digest, and says what of."""

import re

import yaml

from tests.unit.ops.compose import ROOT

WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "images.yml").read_text())
JOBS = WORKFLOW["jobs"]
STEPS = {each.get("uses", "").partition("@")[0]: each for each in JOBS["image"]["steps"]}
BUILD = STEPS["docker/build-push-action"]["with"]


def targets():
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


def test_every_image_is_published():
    images = JOBS["image"]["strategy"]["matrix"]["image"]
    assert sorted(images) == sorted(path.stem for path in (ROOT / "docker").glob("*.Dockerfile"))
    assert BUILD["file"] == "docker/${{ matrix.image }}.Dockerfile"


def test_the_base_is_the_one_of_the_dockerfiles_by_its_digest():
    argument, _, value = BUILD["build-args"].partition("=")
    assert value == "${{ needs.base.outputs.python }}"
    for path in (ROOT / "docker").glob("*.Dockerfile"):
        assert f"ARG {argument}={WORKFLOW['env']['BASE']}\n" in path.read_text()
    assert "Manifest.Digest" in JOBS["base"]["steps"][1]["run"]


def test_an_image_carries_its_provenance_and_its_bills():
    assert BUILD["provenance"] == "mode=max"
    assert BUILD["sbom"] is True
    digest = "${{ steps.push.outputs.digest }}"
    assert STEPS["docker/build-push-action"]["id"] == "push"
    for name in ("actions/attest-sbom", "actions/attest-build-provenance"):
        assert STEPS[name]["with"]["subject-digest"] == digest
    assert "sbom/$$each.cdx.json" in (ROOT / "Makefile").read_text()
    assert STEPS["actions/attest-sbom"]["with"]["sbom-path"] == "sbom/${{ matrix.image }}.cdx.json"


def test_what_it_makes_is_made_here_and_no_job_may_do_more_than_it_must():
    runs = [step.get("run", "") for job in JOBS.values() for step in job["steps"]]
    made = {name for run in runs for name in re.findall(r"^make ([\w-]+)", run, re.M)}
    assert made == {"sbom"} <= targets()
    assert WORKFLOW["permissions"] == {}
    for job in JOBS.values():
        for step in job["steps"]:
            assert re.search(r"@v\d+$", step["uses"]) if "uses" in step else step["run"]
