"""A stranger's path: models of her own, added to a running service, used, and removed."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

from atelier_client import InvalidRequest, JobStatus
from cli.client.options import connect
from cli.main import main
from cli.stack.running import running
from tests import original
from tests.e2e.lean import BEST, NO_CONTROLNETS, one_model
from tests.e2e.waiting import make, until
from tests.models import save_sd
from tests.stock import load_stock

pytestmark = [
    pytest.mark.long,
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """A stock folder, and the single file that it could have been made of."""
    folder = tmp_path_factory.mktemp("users")
    save_sd(folder / "my-sd")
    (folder / "my-sd" / "atelier.json").unlink()  # as diffusers saves it
    original.save_sd_file(load_stock(folder / "my-sd"), folder / "checkpoint.safetensors")
    return folder


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    env = {**NO_CONTROLNETS, **one_model(models)}
    with running(tmp_path_factory.mktemp("data"), env=env) as service:
        yield service, models


@pytest.fixture
def run(service, capfd):
    def run(*words):
        with pytest.raises(SystemExit) as end:
            main(["models", *map(str, words), "--url", service[0].addresses.api])
        out, err = capfd.readouterr()
        return end.value.code, out, " ".join(err.split())

    return run


@pytest.fixture
def client(service):
    with connect(service[0].addresses.api, None) as client:
        yield client


def known(client):
    return {model.id: model for model in client.models.list().data}


def test_a_stock_folder_is_added_used_swapped_out_and_removed(run, client, users, service):
    code, out, err = run("add", users / "my-sd", "--dry-run")
    assert (code, "my-sd" in known(client)) == (0, False), err

    code, out, err = run("add", users / "my-sd")
    assert code == 0, err
    assert "unknown" in out  # its quality
    assert known(client)["my-sd"].is_loadable

    first = make(client, model="my-sd", steps=2)
    assert (first.status, first.placement.model) == (JobStatus.SUCCEEDED, "my-sd")
    image = json.loads(client.jobs.get.raw(first.id).body)["images"][0]
    assert (image["width"], image["height"]) == (32, 32)
    until(lambda: known(client)["my-sd"].is_resident)

    unnamed = make(client, steps=2)  # never by a model of unknown quality
    assert (unnamed.status, unnamed.placement.model) == (JobStatus.SUCCEEDED, BEST.name)

    code, out, err = run("remove", "my-sd")
    assert code == 0, err
    assert list(known(client)) == [BEST.name]
    with pytest.raises(InvalidRequest, match="must be one of shapes-xl"):
        client.jobs.create(prompt="a red circle", model="my-sd")
    assert (users / "my-sd" / "model_index.json").is_file()
    assert not (service[1] / "my-sd").exists()
    assert make(client, steps=2).status is JobStatus.SUCCEEDED


def test_a_single_file_is_converted_used_and_removed(run, client, users, service):
    file = users / "checkpoint.safetensors"
    code, out, err = run("add", file, "--name", "mine", "--base", users / "my-sd")
    assert code == 0, err
    made = make(client, model="mine", steps=2)
    assert made.status is JobStatus.SUCCEEDED

    code, out, _ = run("show", "mine", "--json")
    shown = json.loads(out)
    assert (shown["family"], shown["weights"]["files"], shown["quality"]) == ("sd", 3, None)

    code, _, err = run("remove", "mine")
    assert code == 0, err
    assert file.is_file()
    assert not (service[1] / "mine").exists()


def test_weights_that_are_renamed_over_are_served_without_a_restart(client, users, service):
    shutil.copytree(users / "my-sd", service[1] / ".part").rename(service[1] / "renamed-over")
    until(lambda: "renamed-over" in known(client) and known(client)["renamed-over"].is_loadable)
    old = make(client, model="renamed-over", steps=2, seed=1)
    (file,) = (service[1] / "renamed-over" / "vae").glob("*.safetensors")
    other = file.with_suffix(".part")
    save_file({name: tensor / 2 for name, tensor in load_file(file).items()}, other)
    other.rename(file)  # a CPU worker has the old one open, and goes on with it
    until(lambda: image_of(client, "renamed-over") != old.images[0].sha256)
    shutil.rmtree(service[1] / "renamed-over")
    until(lambda: "renamed-over" not in known(client))


def image_of(client, model):
    return make(client, model=model, steps=2, seed=1).images[0].sha256


def test_every_refusal_names_the_cure(run, users, tmp_path):
    broken = shutil.copytree(users / "my-sd", tmp_path / "broken")
    for weights in (broken / "unet").glob("*.safetensors"):
        weights.rename(weights.with_suffix(".bin"))
    (tmp_path / "old.ckpt").write_bytes(b"pickle")
    (tmp_path / "empty").mkdir()
    cures = {
        broken: "save_pretrained(NEW)",
        tmp_path / "old.ckpt": "weights_only=True",
        tmp_path / "empty": "save_pretrained",
        users / "checkpoint.safetensors": "fit its configuration",  # it is smaller than SD 1.5
        users / "my-sd": "--name",  # of a name that is taken
    }
    for path, cure in cures.items():
        code, _, err = run("add", path, "--name", BEST.name if path.name == "my-sd" else "new")
        assert (code, cure in err) == (1, True), (path, err)
