"""`atelier models` where no service answers: the models folder of this machine is used."""

import json

import pytest

from api.views.model_view import ModelView
from cli.client.show_models import OF_WORKERS
from cli.main import main
from core.settings import get_settings
from tests.unit.catalog.description.stock_folders import write_folder

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("ATELIER_MODELS_DIR", str(tmp_path / "models"))
    get_settings.cache_clear()

    def run(*arguments, url=NOBODY):
        with pytest.raises(SystemExit) as end:
            main(["models", *map(str, arguments), "--url", url])
        out, err = capfd.readouterr()
        return end.value.code, out, " ".join(err.split())

    yield run
    get_settings.cache_clear()


def test_a_model_is_added_and_removed_without_a_service(run, tmp_path):
    mine = write_folder(tmp_path / "users" / "mine")
    code, out, err = run("add", mine, "--dry-run")
    assert (code, "dry run" in out) == (0, True)
    assert "does not answer" in err
    assert not (tmp_path / "models").exists()

    code, out, _ = run("add", mine, "--name", "portraits")
    assert (code, "portraits" in out, "512" in out) == (0, True, True)
    assert (tmp_path / "models" / "portraits").is_symlink()

    code, _, err = run("remove", "portraits")
    assert (code, "removed from" in err) == (0, True)
    assert (mine / "model_index.json").is_file()


def test_a_service_elsewhere_that_does_not_answer_is_an_error(run, tmp_path):
    mine = write_folder(tmp_path / "users" / "mine")
    code, _, err = run("add", mine, url="http://elsewhere.invalid")
    assert (code, "does not answer" in err) == (1, True)
    assert not (tmp_path / "models").exists()


def test_what_cannot_be_served_says_what_would_help(run, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = run("add", tmp_path / "empty")
    assert code == 1
    assert "save_pretrained" in err


def test_with_json_both_are_told_without_a_service_as_a_service_tells_them(run, tmp_path):
    mine = write_folder(tmp_path / "users" / "mine")
    for options in (["--dry-run"], []):
        code, out, _ = run("add", mine, *options, "--json")
        told = json.loads(out)
        assert code == 0
        assert (told["id"], told["object"], told["steps"]["default"]) == ("mine", "model", 30)
        assert set(ModelView.model_fields) - set(told) == OF_WORKERS
    code, out, _ = run("remove", "mine", "--json")
    assert (code, json.loads(out)) == (0, {"id": "mine", "object": "model", "deleted": True})
