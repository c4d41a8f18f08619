import json

import pytest
from rich.console import Console

from cli.main import main
from cli.profile import tables
from scheduler.measured import About, Assignment, Family, Judged, Measured

SHARES = {"tiny@0": 0.25, "base@0": 0.75}
MEASURED = Measured(
    about=About(device="cpu"),
    tau={"cpu": {"base@0": 2.0, "tiny@0": 0.5}},
    judged={name: Judged(strict=0.5, share=0.75, quality=0.625) for name in SHARES},
    families={
        "sm": Family(
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


def test_a_folder_that_cannot_be_loaded_is_named(tmp_path, capfd):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "atelier.json").write_text(
        json.dumps({"name": "broken", "family": "sdxl"})
    )
    with pytest.raises(SystemExit) as end:
        main(["profile", "--quick", "--models-dir", str(tmp_path), "--data-dir", str(tmp_path)])
    assert end.value.code == 1
    assert "broken/model_index.json" in capfd.readouterr().err
