import json

import pytest

from classifier.labels import write_labels
from classifier.training.train import MIN_PROMPTS
from cli.main import main
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
