import json
import shlex

import pytest
import typer
from rich.cells import cell_len

import atelier_client
from cli.main import app, main
from core.settings import get_settings
from tests.documents.existing import complaint
from tests.unit.cli.service import EMBEDDING, IMAGE, PROBLEM, TEMPLATE, serving

ID = TEMPLATE["id"]


@pytest.fixture
def service():
    with serving() as service:
        yield service


@pytest.fixture
def run(service, capfd):
    """Run a command against the tiny service; return its exit code, stdout and stderr."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([*arguments, "--url", service.url])
        out, err = capfd.readouterr()
        return end.value.code, out, err

    return run


def test_submit_says_which_job_it_is(run, service):
    code, out, _ = run("submit", "a red circle", "--steps", "8", "-n", "2", "--quality", "exact")
    assert code == 0
    assert "j1  queued" in out
    assert "2 before it" in out and "expected in 3.2 s" in out
    assert service.bodies == [{"prompt": "a red circle", "steps": 8, "n": 2, "quality": "exact"}]
    assert len(service.headers[0]["Idempotency-Key"]) == 32


def test_an_image_that_starts_from_another_is_no_edit(run, service, tmp_path):
    (tmp_path / "photo.png").write_bytes(b"white")
    run("submit", "x", "--image", str(tmp_path / "photo.png"), "--strength", "0.6")
    sent = "data:image/png;base64,d2hpdGU="
    assert service.bodies == [{"prompt": "x", "image": sent, "strength": 0.6}]


def test_steps_are_told_more(run, service):
    told = ["--scheduler", "euler", "--sigmas", "9,3.5,0", "--spacing", "beta", "--rescale", "0.7"]
    run("submit", "x", *told)
    assert service.bodies == [
        {"prompt": "x", "scheduler": "euler", "sigmas": [9.0, 3.5, 0.0]}
        | {"sigma_spacing": "beta", "guidance_rescale": 0.7}
    ]
    with pytest.raises(SystemExit, match="2"):
        main(["submit", "x", "--sigmas", "high,low"])


def test_a_second_pass_is_said_in_short(run, service):
    for given in ("2", "1.5:0.4"):
        run("submit", "x", "--second-pass", given)
    assert [body["second_pass"] for body in service.bodies] == [
        {"scale": 2.0},
        {"scale": 1.5, "strength": 0.4},
    ]
    with pytest.raises(SystemExit, match="2"):
        main(["submit", "x", "--second-pass", "twice"])


def test_a_picture_to_enlarge_is_sent_along(run, service, tmp_path):
    (tmp_path / "a.png").write_bytes(b"white")
    code, _, _ = run("upscale", str(tmp_path / "a.png"), "--model", "anime", "--format", "webp")
    assert code == 0
    asked = {"task": "upscale", "image": "data:image/png;base64,d2hpdGU=", "model": "anime"}
    assert service.bodies == [asked | {"output_format": "webp"}]


def test_an_edit_sends_files_along_and_names_the_rest(run, service, tmp_path):
    (tmp_path / "mask.png").write_bytes(b"white")
    mask, sent = str(tmp_path / "mask.png"), "data:image/png;base64,d2hpdGU="
    for template in (ID, "https://example.com/a.png", mask):
        code, _, _ = run("submit", "x", "--template", template, "--mask", mask, "--strength", "0.8")
        assert code == 0
    edit = {"task": "edit", "prompt": "x", "mask": sent, "strength": 0.8}
    assert service.bodies == [
        edit | {"template": template} for template in (ID, "https://example.com/a.png", sent)
    ]


def test_a_webhook_and_metadata_go_with_a_job(run, service):
    told = ["--webhook", "https://example.com/h", "--webhook-event", "started"]
    run("submit", "x", *told, "--metadata", "order=1=2", "--metadata", "by=me")
    hook = {"url": "https://example.com/h", "events": ["started"]}
    assert service.bodies == [
        {"prompt": "x", "webhook": hook, "metadata": {"order": "1=2", "by": "me"}}
    ]
    for wrong in (["--metadata", "order"], ["--webhook-event", "started"]):
        assert run("submit", "x", *wrong)[0] == 2


def test_an_image_that_is_nowhere_is_a_wrong_command_line(capfd):
    with pytest.raises(SystemExit, match="2"):
        main(["submit", "x", "--template", "no/photo.png", "--mask", ID])
    assert "no/photo.png is no file" in " ".join(capfd.readouterr().err.split())


def test_a_template_is_added_listed_and_removed(run, service, tmp_path):
    (tmp_path / "photo.jpeg").write_bytes(b"a photo")
    code, out, _ = run("templates", "add", str(tmp_path / "photo.jpeg"))
    assert (code, out) == (0, f"{ID}\n")
    assert service.uploads == [b"a photo"]
    assert service.headers[-1]["Content-Type"] == "image/jpeg"
    _, out, err = run("templates", "list", "--limit", "5")
    assert ID in out and "96 x 64" in out and "--limit 5 --cursor next" in err
    code, out, _ = run("templates", "remove", ID)
    assert (code, out) == (0, f"{ID} is deleted\n")
    code, _, _ = run("templates", "remove", "../jobs/j1")
    assert (code, service.seen[-1]) == (1, ("DELETE", "/v1/templates/..%2Fjobs%2Fj1"))


def test_a_file_is_added_listed_shown_and_removed(run, service, tmp_path):
    (tmp_path / "mask.png").write_bytes(b"a mask")
    assert run("files", "add", str(tmp_path / "mask.png"))[:2] == (0, f"{ID}\n")
    assert service.uploads == [b"a mask"]
    assert ID in run("files", "list")[1]
    assert "96 x 64" in run("files", "show", ID)[1]
    assert run("files", "remove", ID)[:2] == (0, f"{ID} is deleted\n")
    assert ID in run("loras", "show", ID)[1]
    assert "avatars" in run("applications", "show", "avatars")[1]


def test_webhooks_that_nobody_took_are_listed_and_sent_again(run, service):
    _, out, err = run("webhooks", "list", "--limit", "5")
    assert out.split()[5:] == ["d1", "j1", "completed", "8", "https://example.com/hook"]
    assert "atelier webhooks list --limit 5 --cursor next" in err
    assert run("webhooks", "replay", "d1")[:2] == (0, "d1 is sent again\n")
    assert run("webhooks", "replay", "d2")[0] == 1
    assert run("webhooks", "secret")[1] == "whsec_c2VjcmV0\n"


def test_operators_see_workers_plan_and_history(run):
    _, out, _ = run("fleet")
    assert "w1@h" in out and "w1@h cannot serve other: it is not there" in out
    _, out, _ = run("current-plan")
    assert "Plan 7 of atelier: 10% of the demand unserved" in out
    assert "m@0 75% m@5 25%" in out
    _, out, _ = run("history")
    assert out.split()[-8:] == ["00:01:30", "12", "11", "0", "0", "0", "0", "3.2"]
    assert "plus" in run("ip-adapters", "list")[1]


def test_the_version_is_told(capfd):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capfd.readouterr().out == f"atelier {atelier_client.__version__}\n"


def test_a_shell_completes_what_is_begun(monkeypatch, capfd):
    begun = {"_ATELIER_COMPLETE": "complete_bash", "COMP_WORDS": "atelier sub", "COMP_CWORD": "1"}
    for name, value in begun.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert capfd.readouterr().out.split() == ["submit"]


def commands(command, path=()):
    """Every command, with the words that lead to it."""
    found = getattr(command, "commands", None)
    if found is None:
        yield path, command
    for name, each in (found or {}).items():
        yield from commands(each, (*path, name))


def groups(command, path=()):
    """Every group of commands, with the words that lead to it."""
    if hasattr(command, "commands"):
        yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from groups(each, (*path, name))


EVERY = dict(commands(typer.main.get_command(app)))
GROUPS = dict(groups(typer.main.get_command(app)))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_speaks_json_and_shows_an_example(path):
    options = {name for parameter in EVERY[path].params for name in parameter.opts}
    assert "--json" in options
    assert f"atelier {' '.join(path)}" in EVERY[path].epilog


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_every_group_shows_an_example_of_a_command_that_exists(path, capfd):
    example = shlex.split(GROUPS[path].epilog.removeprefix("Example: "))
    assert example[: len(path) + 1] == ["atelier", *path]
    assert complaint(example) is None
    with pytest.raises(SystemExit, match="0"):
        main([*path, "--help"])
    assert GROUPS[path].epilog in " ".join(capfd.readouterr().out.split())


def test_the_help_of_keys_says_what_a_service_without_keys_answers(capfd):
    with pytest.raises(SystemExit, match="0"):
        main(["keys", "--help"])
    assert {"409:", "ATELIER_OPERATOR_KEYS"} <= set(capfd.readouterr().out.split())


def test_an_application_is_added_listed_and_removed(run, service):
    options = ("--model", "m", "--slo", "2.5", "--floor", "0.9")
    code, out, _ = run("applications", "add", "avatars", *options)
    wanted = {"name": "avatars", "models": ["m"], "slo_s": 2.5, "quality_floor": 0.9}
    assert (code, service.bodies) == (0, [wanted])
    assert "avatars" in out and "2.5" in out
    assert "avatars" in run("applications", "list")[1]
    assert run("applications", "remove", "avatars")[:2] == (0, "avatars is deleted\n")
    assert run("applications", "remove", "banners")[0] == 1


def test_an_embedding_is_added_listed_said_and_removed(run, service, tmp_path):
    (tmp_path / "cat.safetensors").write_bytes(b"vectors")
    code, out, _ = run("embeddings", "add", str(tmp_path / "cat.safetensors"), "--token", "<cat>")
    assert (code, out, service.uploads) == (0, f"{EMBEDDING['id']}\n", [b"vectors"])
    assert service.seen[-1] == ("POST", "/v1/embeddings?token=%3Ccat%3E")
    _, out, _ = run("embeddings", "list")
    assert EMBEDDING["id"] in out and "<cat>" in out
    run("submit", "a <cat>", "--embedding", EMBEDDING["id"], "--weighted", "--clip-skip", "1")
    said = {"embeddings": [{"id": EMBEDDING["id"]}], "prompt_syntax": "weighted", "clip_skip": 1}
    assert service.bodies == [{"prompt": "a <cat>", **said}]
    code, out, _ = run("embeddings", "remove", EMBEDDING["id"])
    assert code == 0 and EMBEDDING["id"] in out


def test_an_ip_adapter_is_named_with_its_picture_and_scale(run, service):
    run("submit", "x", "--ip-adapter", f"plus={ID}")
    run("submit", "x", "--ip-adapter", f"plus:0.6={ID}")
    use = {"id": "plus", "image": ID}
    assert service.bodies == [
        {"prompt": "x", "ip_adapter": use},
        {"prompt": "x", "ip_adapter": use | {"scale": 0.6}},
    ]
    for wrong in ("plus", f"plus:much={ID}"):
        with pytest.raises(SystemExit, match="2"):
            main(["submit", "x", "--ip-adapter", wrong])


def test_a_lora_is_added_listed_used_and_removed(run, service, tmp_path):
    (tmp_path / "night.safetensors").write_bytes(b"a lora")
    code, out, _ = run("loras", "add", str(tmp_path / "night.safetensors"), "--bound", "10")
    assert (code, out, service.uploads) == (0, f"{ID}\n", [b"a lora"])
    assert service.seen[-1] == ("POST", "/v1/loras?bound=10")
    _, out, err = run("loras", "list", "--limit", "5")
    assert ID in out and "1.0" in out and "--limit 5 --cursor next" in err
    run("submit", "x", "--lora", ID, "--lora", f"{ID}:0.5")
    assert service.bodies == [{"prompt": "x", "loras": [{"id": ID}, {"id": ID, "scale": 0.5}]}]
    code, out, _ = run("loras", "remove", ID)
    assert (code, out) == (0, f"{ID} is deleted\n")
    with pytest.raises(SystemExit, match="2"):
        main(["submit", "x", "--lora", f"{ID}:strong"])


def test_submit_waits_saves_the_image_and_prints_its_url(run, service, tmp_path):
    path = tmp_path / "made" / "circle.png"
    code, out, _ = run("submit", "a red circle", "--out", str(path))
    assert code == 0
    assert path.read_bytes() == IMAGE
    assert f"{service.url}/v1/files/a.png?signature=s" in out


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--out", "a.webp"], "webp"),
        (["--out", "a.JPEG"], "jpeg"),
        (["--out", "a.jpg", "--format", "avif"], "avif"),
        (["--out", "a.dat"], None),
        (["--format", "webp"], "webp"),
    ],
)
def test_an_image_is_written_as_its_file_is_called(run, service, tmp_path, words, asked):
    words = [str(tmp_path / word) if "." in word else word for word in words]
    run("submit", "x", *words, "--output-quality", "40")
    body = {"prompt": "x", "output_quality": 40}
    assert service.bodies == [body | ({"output_format": asked} if asked else {})]


def test_several_images_are_numbered(run, service, tmp_path):
    service.images = 2
    run("submit", "two", "--out", str(tmp_path / "a.png"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-1.png", "a-2.png"]


def test_a_job_that_failed_ends_with_one_and_says_why(run, service):
    service.ends_as = "failed"
    code, out, _ = run("submit", "a red circle", "--wait")
    assert code == 1
    assert "It broke: step [3]" in out


def test_a_stream_that_breaks_off_is_resumed_after_its_last_event(run, service):
    service.breaks = 2
    code, _, _ = run("submit", "a red circle", "--wait")
    assert code == 0
    streams = [h for h, (_, p) in zip(service.headers, service.seen, strict=True) if "events" in p]
    assert [headers.get("Last-Event-ID") for headers in streams] == [None, "1-0", "1-0"]


def test_an_image_that_is_not_what_was_made_is_not_saved(run, service, tmp_path):
    service.sha256 = "0" * 64
    code, _, err = run("submit", "a red circle", "--out", str(tmp_path / "a.png"))
    assert code == 1
    assert "another image" in err
    assert "signature" not in err
    assert not (tmp_path / "a.png").exists()


def test_a_refusal_is_told_field_by_field_without_a_traceback(run):
    code, out, err = run("submit", "")
    assert (code, out) == (1, "")
    assert "prompt: must not be empty" in err
    assert "Traceback" not in err


def test_an_unknown_job_is_told(run):
    code, _, err = run("status", "j9")
    assert code == 1
    assert "no job [j9]" in err


def test_a_service_that_is_not_there_is_told(capfd):
    with pytest.raises(SystemExit, match="1"):
        main(["list", "--url", "http://127.0.0.1:1"])
    assert "http://127.0.0.1:1 does not answer" in capfd.readouterr().err


def test_a_key_that_cannot_travel_is_told_without_a_traceback(run):
    code, _, err = run("list", "--key", "schlüssel")
    assert code == 1
    assert "Error:" in err


def test_a_file_that_cannot_be_written_is_told_without_a_traceback(run, tmp_path):
    code, _, err = run("submit", "a red circle", "--out", str(tmp_path))
    assert code == 1
    assert str(tmp_path) in err


def test_a_folder_that_cannot_hold_a_stack_is_told_without_a_traceback(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="1"):
        main(["up", "--data-dir", str(tmp_path / "file")])
    assert "file" in capfd.readouterr().err


def test_something_else_that_answers_is_told(run, service):
    service.job = lambda: {"hello": "world"}
    code, _, err = run("status", "j1")
    assert code == 1
    assert "does not answer like an Atelier service" in err


def test_status_shows_what_waits_before_a_queued_job(run):
    code, out, _ = run("status", "j1")
    assert code == 0
    assert "2 before it" in out


def test_cancel_says_that_it_is_canceled(run):
    code, out, _ = run("cancel", "j1")
    assert code == 0
    assert "canceled" in out


def test_list_shows_a_page_and_where_the_next_one_starts(run, service):
    code, out, err = run("list", "--status", "queued", "--limit", "5")
    assert code == 0
    assert "a red circle" in out
    assert "atelier list --status queued --limit 5 --cursor next" in err
    assert service.seen == [("GET", "/v1/jobs?status=queued&limit=5")]


def test_buried_jobs_are_listed_with_the_reason_and_tried_again(run, service):
    service.status = "failed"
    code, out, err = run("dead", "list", "--limit", "5")
    assert code == 0
    assert out.split()[4:] == ["j1", "1970-01-01", "engine_error", "a", "red", "circle"]
    assert "atelier dead list --limit 5 --cursor next" in err
    code, out, _ = run("dead", "retry", "j1")
    assert code == 0 and "queued" in out
    assert service.seen == [
        ("GET", "/v1/jobs?status=buried&limit=5"),
        ("POST", "/v1/jobs/j1/retry"),
    ]


@pytest.mark.parametrize(
    "prompt",
    [
        "word " * 400,
        "x" * 2000,
        "one\ntwo\r\n\tthree",
        "\x1b[31mred\x1b[2J\x07",
        "\u7ea2\u8272" * 50,
    ],
)
def test_list_keeps_its_columns_whatever_a_prompt_is(run, service, monkeypatch, prompt):
    monkeypatch.setenv("COLUMNS", "100")
    service.status, service.prompt = "succeeded", prompt
    code, out, _ = run("list")
    head, row = out.splitlines()
    assert code == 0
    assert max(cell_len(head), cell_len(row)) <= 100
    assert row.split()[:4] == ["j1", "succeeded", "00:00:01", "0.40"]
    assert cell_len(row.rstrip()) > head.index("prompt")
    assert row.isprintable()


def test_models_list_shows_their_limits(run):
    code, out, _ = run("models", "list")
    assert code == 0
    assert "64 (64 to 128 by 16)" in out


@pytest.mark.parametrize(
    "command",
    [
        ["submit", "a red circle", "--wait"],
        ["status", "j1"],
        ["cancel", "j1"],
        ["list"],
        ["models", "list"],
        ["templates", "list"],
        ["applications", "list"],
        ["dead", "list"],
        ["dead", "retry", "j1"],
        ["files", "list"],
        ["webhooks", "list"],
        ["ip-adapters", "list"],
    ],
)
def test_json_is_what_the_service_wrote(run, command):
    code, out, _ = run(*command, "--json")
    assert code == 0
    assert json.loads(out)["object"] in ("job", "list")


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["submit", ""], 1, "prompt"),
        (["status", "j9"], 1, "no job [j9]"),
        (["list", "--key", "schl\u00fcssel"], 1, "key"),
        (["submit", "x", "--template", "no/photo.png"], 2, "no/photo.png"),
        (["submit", "x", "--steps", "many"], 2, "--steps"),
        (["submit", "x", "--color", "red"], 2, "--color"),
        (["list", "--status", "sleeping"], 2, "sleeping"),
        (["submit"], 2, "prompt"),
    ],
)
def test_with_json_an_error_is_one_object_on_stderr(run, command, code, told):
    ended, out, err = run(*command, "--json")
    problem = json.loads(err)
    assert (ended, out) == (code, "")
    assert problem["title"]
    assert told in json.dumps(problem, ensure_ascii=False)


def test_with_json_a_problem_is_as_the_service_wrote_it(run):
    _, _, err = run("submit", "", "--json")
    assert json.loads(err) == PROBLEM


def test_with_json_a_service_that_is_not_there_is_told(capfd):
    with pytest.raises(SystemExit, match="1"):
        main(["list", "--url", "http://127.0.0.1:1", "--json"])
    assert "does not answer" in json.loads(capfd.readouterr().err)["detail"]


def test_with_json_a_wait_shows_nothing_else(run):
    code, out, err = run("submit", "a red circle", "--wait", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["status"] == "succeeded"


def test_up_refuses_at_once_without_a_model_and_names_what_lacks_a_description(
    tmp_path, monkeypatch, capfd
):
    (tmp_path / "models" / "sdxl-base" / "unet").mkdir(parents=True)
    monkeypatch.setenv("ATELIER_MODELS_DIR", str(tmp_path / "models"))
    get_settings.cache_clear()
    with pytest.raises(SystemExit, match="1"):
        main(["up", "--port", "0", "--data-dir", str(tmp_path / "data")])
    get_settings.cache_clear()
    err = " ".join(capfd.readouterr().err.split())
    assert "sdxl-base is not served: sdxl-base has no model_index.json" in err
    assert "models has no model" in err and "Traceback" not in err
    assert not (tmp_path / "data").exists()


def test_models_list_names_folders_here_that_are_not_served(run, tmp_path, monkeypatch):
    (tmp_path / "sdxl-base").mkdir()
    monkeypatch.setenv("ATELIER_MODELS_DIR", str(tmp_path))
    get_settings.cache_clear()
    code, out, err = run("models", "list")
    get_settings.cache_clear()
    assert code == 0
    assert "sdxl-base is not served" in " ".join(err.split())
    assert "sdxl-base" not in out


def test_the_key_is_sent(run, service):
    run("list", "--key", "secret-key")
    assert service.headers[0]["Authorization"] == "Bearer secret-key"


@pytest.mark.parametrize(
    "command",
    [
        ["submit"],
        ["submit", "x", "--steps", "many"],
        ["list", "--status", "sleeping"],
        ["list", "--limit", "0"],
        ["up", "--workers", "0"],
        ["paint"],
    ],
)
def test_a_wrong_command_line_ends_with_two(command, capfd):
    with pytest.raises(SystemExit, match="2"):
        main(command)
