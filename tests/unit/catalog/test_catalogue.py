import json
import os
import shutil
from pathlib import Path

import pytest

from catalog.catalogue import Catalogue, ModelChange
from catalog.watch import FolderWatch
from core.errors import ConfigurationError


def write(folder: Path, name: str, **fields: object) -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / name / "atelier.json"
    path.write_text(json.dumps({"name": name, "family": "noop", **fields}))
    return path


def test_a_model_that_is_added_changed_and_removed_is_followed(tmp_path: Path) -> None:
    write(tmp_path, "a")
    catalogue = Catalogue(tmp_path)
    assert list(catalogue) == ["a"]
    assert not catalogue.refresh()

    write(tmp_path, "b")
    assert catalogue.refresh() == ModelChange(added=("b",))
    assert catalogue["b"].name == "b"

    write(tmp_path, "a", default_steps=7)
    assert catalogue.refresh() == ModelChange(changed=("a",))
    assert catalogue["a"].default_steps == 7

    shutil.rmtree(tmp_path / "a")
    assert catalogue.refresh() == ModelChange(removed=("a",))
    assert dict(catalogue) == {"b": catalogue["b"]}


def test_who_iterates_sees_one_state_whatever_happens_meanwhile(tmp_path: Path) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b")
    catalogue = Catalogue(tmp_path)
    names = []
    for name, model in catalogue.items():
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        catalogue.refresh()
        names.append((name, model.name))
    assert names == [("a", "a"), ("b", "b")]
    assert list(catalogue) == ["a"]


def test_a_folder_that_goes_wrong_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    write(tmp_path, "a")
    path = write(tmp_path, "b")
    catalogue = Catalogue(tmp_path)
    path.write_text("{")
    assert catalogue.refresh() == ModelChange(removed=("b",))
    write(tmp_path, "b")
    assert catalogue.refresh() == ModelChange(added=("b",))


def test_a_change_that_could_not_be_read_is_noticed_at_the_next_look(tmp_path: Path) -> None:
    write(tmp_path, "a")
    catalogue = Catalogue(tmp_path)
    write(tmp_path, "b")
    link = tmp_path / "c"
    link.symlink_to("x" * 256)  # no file system looks for such a name
    with pytest.raises(OSError, match="File name too long"):
        catalogue.refresh()
    link.unlink()
    link.symlink_to("nowhere")  # which looks the same to who watches
    assert list(catalogue) == ["a"]
    assert catalogue.refresh() == ModelChange(added=("b",))


def test_what_is_wrong_at_the_start_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a").write_text("{")
    with pytest.raises(ConfigurationError, match=r"a/atelier\.json"):
        Catalogue(tmp_path)


def test_a_folder_that_is_not_there_yet_is_noticed_when_it_comes(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "later")
    assert len(catalogue) == 0
    write(tmp_path / "later", "a")
    assert catalogue.refresh() == ModelChange(added=("a",))


def test_a_link_that_is_removed_or_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "users", "a")
    (tmp_path / "models").mkdir()
    link = tmp_path / "models" / "a"
    link.symlink_to(tmp_path / "users" / "a")
    catalogue = Catalogue(tmp_path / "models")
    assert list(catalogue) == ["a"]
    (tmp_path / "users" / "a").rename(tmp_path / "users" / "elsewhere")
    assert catalogue.refresh() == ModelChange(removed=("a",))
    link.unlink()
    assert not catalogue.refresh()


def test_weights_that_are_written_anew_are_noticed_by_their_time(tmp_path: Path) -> None:
    part = tmp_path / "a" / "unet" / "diffusion_pytorch_model.safetensors"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"1")
    watch = FolderWatch(tmp_path)
    assert watch.has_changed()
    assert not watch.has_changed()
    os.utime(part, ns=(1, 1))
    assert watch.has_changed()
    (tmp_path / "a" / ".part").write_bytes(b"2")
    assert not watch.has_changed()


def test_a_quality_that_was_measured_makes_a_model_known(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / "models", name)
    write(tmp_path / "models", "d", quality=0.2)
    profile = tmp_path / "profile.json"
    rows = {"any": {"a@0": 0.8, "a@25": 0.3, "b@0": 0.5, "d@0": 0.9}}
    families = {"all": {"quality": {"any": {"b@0": 0.6}}}}
    profile.write_text(json.dumps({"quality": rows, "families": families}))
    known = {n: m.quality for n, m in Catalogue(tmp_path / "models", profile).items()}
    assert known == {"a": 0.8, "b": 0.5, "c": None, "d": 0.2}
