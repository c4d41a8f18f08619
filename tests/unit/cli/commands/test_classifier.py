import json
from dataclasses import replace

import pytest

from classifier.labels import read_labels, write_labels
from classifier.training.data import TAUGHT, TESTED
from classifier.training.train import MIN_PROMPTS
from cli.main import main
from core.settings import get_settings
from tests.unit.classifier.fake import LEVELS, some_labels


def test_a_classifier_is_trained_measured_and_written(tmp_path, capfd):
    learned, measured, target = (tmp_path / name for name in ("train", "test", "classifier"))
    write_labels(learned, some_labels(100))
    write_labels(measured, some_labels(20, seed=1))
    files = ["--labels", str(learned), "--test", str(measured), "--output", str(target)]
    with pytest.raises(SystemExit) as end:
        main(["train-classifier", *files, "--json"])
    assert end.value.code == 0
    card = json.loads(capfd.readouterr().out)
    assert card == json.loads((target / "classifier.json").read_text())
    assert card["levels"] == list(LEVELS)
    assert {"calibration_error", "test_calibration_error"} <= card["figures"].keys()
    kept = [read_labels(target / name).prompts for name in (TAUGHT, TESTED)]
    assert kept == [read_labels(path).prompts for path in (learned, measured)]


def test_labels_that_cannot_be_read_or_are_too_few_are_named(tmp_path, capfd):
    few = tmp_path / "few"
    write_labels(few, some_labels(MIN_PROMPTS - 1))
    for path in (tmp_path / "nowhere", few):
        with pytest.raises(SystemExit) as end:
            main(["train-classifier", "--labels", str(path), "--test", str(few)])
        assert end.value.code == 1
    complaints = capfd.readouterr().err.replace("\n", "")
    assert "nowhere" in complaints
    assert "too few" in complaints


@pytest.fixture
def train(tmp_path, monkeypatch, capfd):
    """Train on some labels where nothing ships; return exit code, stdout and stderr."""
    monkeypatch.setenv("ATELIER_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("ATELIER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "400")
    write_labels(tmp_path / "train", some_labels(100))

    def train(*options):
        get_settings.cache_clear()
        with pytest.raises(SystemExit) as end:
            main(["train-classifier", "--labels", str(tmp_path / "train"), *map(str, options)])
        return end.value.code, *capfd.readouterr()

    yield train
    get_settings.cache_clear()


@pytest.mark.parametrize("is_told", [True, False])
def test_a_classifier_is_written_where_the_service_reads_it(train, tmp_path, monkeypatch, is_told):
    if is_told:
        monkeypatch.setenv("ATELIER_CLASSIFIER_DIR", str(tmp_path / "told"))
    code, _, _ = train("--test", tmp_path / "train")
    path = tmp_path / ("told" if is_told else "data/classifier")
    assert code == 0
    assert get_settings().classifier_path == path
    assert (path / "classifier.json").exists()


def test_a_test_set_of_other_models_gives_no_figures(train, tmp_path):
    others = tuple(f"other-{level}" for level in LEVELS)
    write_labels(tmp_path / "others", replace(some_labels(20), levels=others))
    code, out, err = train("--test", tmp_path / "others", "--json")
    figures = json.loads(out)["figures"]
    assert code == 0
    assert {value for name, value in figures.items() if name.startswith("test_")} == {None}
    assert f"no image of the test set is at {', '.join(LEVELS)}" in err
    written = json.loads((tmp_path / "data/classifier/classifier.json").read_text())["figures"]
    assert written.keys() == {name for name in figures if not name.startswith("test_")}
    assert "test_error -" in " ".join(train("--test", tmp_path / "others")[1].split())


def test_where_no_test_set_ships_one_is_asked_for(train):
    code, _, err = train()
    assert code == 2
    assert "'--test'" in err or "--test:" in err
    assert "name a file of labels" in err
