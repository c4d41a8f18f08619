"""Controls as a person writes them: an id, a mode where it has some, and a picture."""

import pytest
import typer

from cli.commands.kept.controlnets import named

PICTURE = "0b5a3c1e9d7f4a68b2c4d6e8f0a1b3c5"


def test_a_control_may_say_the_mode_of_its_picture():
    assert named([f"edges={PICTURE}", f"union:3={PICTURE}"]) == [
        {"id": "edges", "image": PICTURE},
        {"id": "union", "image": PICTURE, "mode": 3},
    ]


@pytest.mark.parametrize("given", [f"union:pose={PICTURE}", f"union:={PICTURE}", "edges"])
def test_what_cannot_be_read_says_why(given):
    with pytest.raises(typer.BadParameter, match="must be"):
        named([given])
