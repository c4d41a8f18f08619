"""The pictures that the README's commands use: the zoo's renderer drew them."""

import re
import shlex

import numpy as np
import pytest
from PIL import Image

from tests.documents.pages import blocks
from tests.unit.ops.compose import ROOT
from zoo.control.condition import Kind, view
from zoo.scenes import draw
from zoo.scenes.render import SIDE
from zoo.scenes.spec import Figure, Noun, Scene
from zoo.scenes.words import Colour, Shape

SAMPLES = ROOT / "docs" / "samples"
GREY = (128, 128, 128)
#: Words of a command line that name a file.
FILE = re.compile(r"[\w./-]+/[\w.-]+|[\w-]+\.(?:png|jpg|json|safetensors)")
NO_FILES = (".venv", "application/", "image/")


def figure(shape, colour, rgb, x, y):
    return Figure(noun=Noun(shape=shape, colour=colour), x=x, y=y, radius=13.0, rgb=rgb)


def scene(caption, *figures):
    return Scene(level=2, caption=caption, background=None, canvas=GREY, figures=figures)


CIRCLE = figure(Shape.CIRCLE, Colour.RED, (210, 40, 40), 18.0, 32.0)
SQUARE = figure(Shape.SQUARE, Colour.GREEN, (40, 160, 70), 46.0, 32.0)
PHOTO = scene("a red circle left of a green square", CIRCLE, SQUARE)
STAR = scene("a red star", figure(Shape.STAR, Colour.RED, (210, 40, 40), 32.0, 32.0))


def mask(covered):
    """White where a figure stands, and a little around it."""
    picture = np.zeros((SIDE, SIDE), np.uint8)
    reach = int(covered.radius) + 4
    x, y = int(covered.x), int(covered.y)
    picture[max(0, y - reach) : y + reach, max(0, x - reach) : x + reach] = 255
    return picture


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("photo.png", draw(PHOTO)),
        ("mask.png", mask(SQUARE)),
        ("outlines.png", view(Kind.EDGES, STAR)),
    ],
)
def test_a_sample_is_what_the_renderer_draws(name, drawn):
    path = SAMPLES / name
    assert path.stat().st_size < 4096
    assert np.array_equal(np.asarray(Image.open(path)), drawn)


def read_by(line):
    """The files that a command line reads: what it writes is none of them."""
    words = shlex.split(re.sub(r"--(out|output) \S+", "", line), comments=True)
    named = [word.removeprefix("@").rpartition("=")[2] for word in words if "localhost" not in word]
    return [word for word in named if FILE.fullmatch(word) and not word.startswith(NO_FILES)]


@pytest.mark.parametrize("name", ["README.md", "docs/edits.md", "docs/controlnets.md"])
def test_every_file_that_a_command_of_a_document_reads_is_there(name):
    scripts = [block.text for block in blocks(ROOT / name) if block.is_run]
    lines = [line for script in scripts for line in script.splitlines()]
    commands = [line for line in lines if re.match(r"(\.venv/bin/)?atelier |curl ", line)]
    files = [file for line in commands for file in read_by(line)]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []
