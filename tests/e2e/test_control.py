"""A picture that keeps to a condition, through the whole service."""

import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from cli.picture import named
from core.job import JobStatus
from zoo.control.condition import Kind, view
from zoo.control.measure import is_met
from zoo.scenes import held_out

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
    job = client.job(client.submit(body).view.id, wait_s=60).view
    assert job.status is JobStatus.SUCCEEDED, job.error
    data = client.fetch(job.images[0].url, job.images[0].sha256)
    pixels = np.asarray(Image.open(BytesIO(data)).convert("RGB"))
    assert is_met(Kind.EDGES, pixels, scene) and is_met(Kind.DEPTH, pixels, scene)


def test_the_command_line_lists_controlnets_and_asks_for_them(service, tmp_path):
    [scene] = held_out(1, 1, 2026)
    Image.fromarray(view(Kind.EDGES, scene)).save(tmp_path / "edges.png")
    out = tmp_path / "out.png"
    words = ["--control", f"edges={tmp_path / 'edges.png'}", "--out", str(out), "--steps", "4"]
    for command in (["controlnets", "list"], ["submit", scene.caption, *words]):
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *command, "--url", service.addresses.api],
            capture_output=True,
            text=True,
            check=True,
        )
        assert command[0] == "submit" or "thin white outlines" in done.stdout
    with Image.open(out) as made:
        assert made.size == (64, 64)
