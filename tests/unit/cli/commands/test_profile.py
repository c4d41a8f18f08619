import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from catalog.lora.bounds import read_bounds
from catalog.lora.layers import read_shapes
from cli.commands.profile import tables
from cli.main import main
from core.settings import PROMPTS, SCORER
from scheduler.profile.profile_file import (
    About,
    Assignment,
    Judged,
    LevelFamily,
    Measured,
    joined,
    read_measured,
    write_measured,
)
from tests.loras import ATTENTION, factors, save_peft
from tests.map import ROOT
from tests.models import OF_DIFFUSERS, save_sdxl

WITH = ("--prompts-from", str(ROOT / "zoo" / PROMPTS), "--scorer", str(ROOT / "zoo" / SCORER))
SHARES = {"tiny@0": 0.25, "base@0": 0.75}
MEASURED = Measured(
    about=About(device="cpu"),
    tau={"cpu": {"base@0": 2.0, "tiny@0": 0.5}},
    judged={name: Judged(strict=0.5, share=0.75, quality=0.625) for name in SHARES},
    families={
        "sm": LevelFamily(
            levels=("tiny@0", "base@0"),
            shares=SHARES,
            quality={"any": {"tiny@0": 0.6, "base@0": 1.0}},
            assignment=Assignment(optimal=0.99, random=0.9, low=0.88, high=0.92, seconds=1.6),
        )
    },
)


def test_tables_say_what_was_found():
    console = Console(width=100)
    with console.capture() as said:
        for table in tables(MEASURED):
            console.print(table)
    for words in ("tiny@0", "0.500", "25.0%", "0.600", "+10.0%"):
        assert words in said.get()


def test_a_folder_without_models_is_named(tmp_path, capfd):
    with pytest.raises(SystemExit) as end:
        main(["profile", "--models-dir", str(tmp_path), "--data-dir", str(tmp_path)])
    assert end.value.code == 1
    assert str(tmp_path) in capfd.readouterr().err.replace("\n", "")


def test_without_prompts_it_is_said_where_they_should_be(measured_loras, capfd):
    folders = ("--models-dir", str(measured_loras / "models"), "--data-dir", str(measured_loras))
    with pytest.raises(SystemExit) as end:
        main(["profile", "--quick", *folders])
    assert end.value.code == 1
    said = capfd.readouterr().err.replace("\n", "")
    assert str(measured_loras / "prompts.jsonl") in said and '{"prompt": ...}' in said


def test_a_folder_that_cannot_be_loaded_is_named(tmp_path, capfd):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "atelier.json").write_text(
        json.dumps({"name": "broken", "family": "sdxl"})
    )
    with pytest.raises(SystemExit) as end:
        main(
            [
                "profile",
                "--quick",
                *WITH,
                "--models-dir",
                str(tmp_path),
                "--data-dir",
                str(tmp_path),
            ]
        )
    assert end.value.code == 1
    assert "broken/model_index.json" in capfd.readouterr().err


@pytest.fixture
def measured_loras(tmp_path):
    """One model, a LoRA that fits it and one that does not, and a profile beside the model."""
    models, loras = tmp_path / "models", tmp_path / "loras"
    model = replace(save_sdxl(models / "tiny"), default_steps=2)
    (models / "tiny" / "atelier.json").write_text(json.dumps(asdict(model)))
    loras.mkdir()
    drawn = factors(read_shapes(models / model.name), ATTENTION)
    save_peft(loras / "fits.safetensors", drawn)
    save_peft(loras / "other.safetensors", factors({"unet.elsewhere": (4, 4)}, ("",)))
    write_measured(tmp_path / "profile.json", MEASURED)
    return tmp_path


def profile_loras(folder: Path, *more: str) -> None:
    places = ("--models-dir", "models", "--data-dir", "data", "--loras", "loras")
    args = [a if a.startswith("-") else str(folder / a) for a in places]
    with pytest.raises(SystemExit) as end:
        main(["profile", "--only-loras", *WITH, *args, *more])
    assert not end.value.code


@pytest.mark.filterwarnings(OF_DIFFUSERS)
def test_what_is_measured_of_a_lora_is_where_workers_read_it(measured_loras):
    profile_loras(measured_loras)
    own = measured_loras / "data" / "profile.json"
    [[model, bounds]] = read_bounds(own).bounds.items()
    assert model == "tiny" and len(bounds) == 1 and set(bounds.values()) <= {0, 25, 50}
    assert read_measured(own).tau == MEASURED.tau, "the rest is that of the shipped one"


def test_a_lora_is_measured_once(measured_loras):
    data = (measured_loras / "loras" / "fits.safetensors").read_bytes()
    known = {"tiny": {hashlib.sha256(data).hexdigest(): 7}}
    write_measured(measured_loras / "profile.json", Measured(bounds=known))
    profile_loras(measured_loras)
    assert read_measured(measured_loras / "data" / "profile.json").bounds == known


def test_bounds_are_those_of_the_same_weights():
    known = Measured(about=About(digests={"a": "1"}), bounds={"a": {"ab": 5}})
    again, other = (Measured(about=About(digests={"a": each})) for each in "12")
    assert joined(known, again).bounds == known.bounds
    assert not joined(known, other).bounds
