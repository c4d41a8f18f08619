"""A picture that keeps to a condition, through the whole service."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from atelier_client import JobStatus
from cli.client.picture import named
from zoo.control.condition import Kind, view
from zoo.control.measure import is_met
from zoo.scenes import draw, held_out

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.e2e


def picture(path, pixels):
    Image.fromarray(pixels).save(path, "PNG")
    return named(str(path))


def test_an_image_keeps_to_its_condition(client, tmp_path):
    [scene] = held_out(1, 1, 2026)
    body = {
        "prompt": scene.caption,
        "seed": 1,
        "steps": 20,
        "guidance": 4.0,
        "controls": [
            {"id": kind, "image": picture(tmp_path / kind, view(kind, scene)), "scale": 0.7}
            for kind in (Kind.EDGES, Kind.DEPTH)
        ],
    }
    job = client.jobs.wait(client.jobs.create(**body).id, timeout_s=180)
    assert job.status is JobStatus.SUCCEEDED, job.error
    data = client.images.fetch(job.images[0])
    pixels = np.asarray(Image.open(BytesIO(data)).convert("RGB"))
    assert is_met(Kind.EDGES, pixels, scene) and is_met(Kind.DEPTH, pixels, scene)


def test_an_edit_keeps_to_its_condition_and_to_its_template_around_the_mask(client, tmp_path):
    [before], [after] = held_out(1, 1, 2026), held_out(1, 1, 2027)
    mask = np.zeros((64, 64), np.uint8)
    mask[10:54, 10:54] = 255
    body = {
        "task": "edit",
        "prompt": after.caption,
        "template": picture(tmp_path / "template", draw(before)),
        "mask": picture(tmp_path / "mask", mask),
        "steps": 10,
        "guidance": 4.0,
        "controls": [{"id": Kind.EDGES, "image": picture(tmp_path / "e", view(Kind.EDGES, after))}],
    }
    for _ in range(2):  # the second takes from the recording that the first leaves
        job = client.jobs.wait(client.jobs.create(**body).id, timeout_s=180)
        assert job.status is JobStatus.SUCCEEDED, job.error
        data = client.images.fetch(job.images[0])
        pixels = np.asarray(Image.open(BytesIO(data)).convert("RGB")).astype(int)
        off = abs(pixels - draw(before).astype(int)).mean(axis=2)
        assert off[mask == 0].mean() < 12 < off[mask > 0].mean()


def test_the_command_line_lists_controlnets_and_asks_for_them(service, tmp_path):
    [scene] = held_out(1, 1, 2026)
    Image.fromarray(view(Kind.EDGES, scene)).save(tmp_path / "edges.png")
    out = tmp_path / "out.png"
    words = ["--control", f"edges={tmp_path / 'edges.png'}", "--out", str(out), "--steps", "4"]
    for command in (["controlnets", "list"], ["submit", scene.caption, *words]):
        told = atelier(service, *command)
        assert command[0] == "submit" or "thin white outlines" in told
    with Image.open(out) as made:
        assert made.size == (64, 64)


def test_a_controlnet_that_a_tenant_keeps_steers_like_the_services_own(service, client, tmp_path):
    [scene] = held_out(1, 1, 2026)
    weights = service_weights("edges")
    added = atelier(service, "controlnets", "add", str(weights), "--condition", "outlines")
    body = {"prompt": scene.caption, "seed": 1, "steps": 4}
    shown = picture(tmp_path / "edges", view(Kind.EDGES, scene))
    images = []
    for name in ("edges", added):
        controls = [{"id": name, "image": shown}]
        asked = client.jobs.create(**(body | {"controls": controls}))
        job = client.jobs.wait(asked.id, timeout_s=180)
        assert job.status is JobStatus.SUCCEEDED, job.error
        images.append(job.images[0].sha256)
    assert images[0] == images[1]
    assert "is deleted" in atelier(service, "controlnets", "remove", added)


def service_weights(name):
    return ROOT / "zoo/adapters/controlnets" / name / "diffusion_pytorch_model.safetensors"


def atelier(service, *command):
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *command, "--url", service.addresses.api],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
