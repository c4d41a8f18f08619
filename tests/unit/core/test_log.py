import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr

import pytest
import structlog

from core.log import MAX_OWNERS, _owners, configure, get_logger, note_owner


@pytest.fixture
def configured_under_capture():
    with redirect_stderr(io.StringIO()) as captured:
        configure("info", is_json=True)
    captured.close()
    yield
    structlog.reset_defaults()


def test_events_go_to_what_stderr_is_when_they_happen(configured_under_capture, capsys):
    get_logger("test").info("happened", job="j1")
    assert '"event": "happened"' in capsys.readouterr().err


def test_lines_of_libraries_are_events_with_a_time_as_ours_are():
    program = """
import logging
from core.log import configure
configure("info", is_json=True)
try:
    raise ValueError("bad")
except ValueError:
    logging.getLogger("kombu.connection").exception("lost %s", "it")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    (line,) = ended.stderr.decode().splitlines()
    event = json.loads(line)
    assert (
        event.items()
        >= {"event": "lost it", "level": "error", "logger": "kombu.connection"}.items()
    )
    assert "T" in event["timestamp"]
    assert event["exception"].endswith("ValueError: bad")


def test_lines_of_celery_are_formatted_by_us():
    program = """
import logging
from tasks.app import app
app.log.setup(loglevel="INFO")
logging.getLogger("celery.task").warning("late")
logging.getLogger("celery.worker").warning("lost")
"""
    env = {**os.environ, "ATELIER_LOG_JSON": "true"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, check=True, env=env)
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [event["event"] for event in events] == ["late", "lost"]


HOSTILE = "/a\x1b[2J\r\nfake-line\x9b31m\u202e"

#: A process of its own: pytest has handlers on the standard library's loggers.
LOGGING = f"""
import logging
from core.log import MAX_OWNERS, _owners, configure, get_logger, note_owner
configure("info", is_json=False)
hostile = {HOSTILE!r}
get_logger("test").info("request", path=hostile)
logging.getLogger("uvicorn.error").warning("refused %s", hostile)
for log in (get_logger("test"), logging.getLogger("test")):
    try:
        raise ValueError(hostile)
    except ValueError as error:
        log.error("failed", exc_info=error)
"""


def test_no_control_character_reaches_the_console():
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, check=True)
    lines = done.stderr.decode().split("\n")
    assert all(line.isprintable() for line in lines)
    assert "\\x1b" in lines[0] and "fake-line" in lines[0]
    assert "\\x1b" in lines[1] and "fake-line" in lines[1]
    assert sum(line.startswith("ValueError: /a\\x1b") for line in lines) == 2


def events_of(program, **env):
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, check=False, env={**os.environ, **env})
    return [json.loads(line) for line in ended.stderr.splitlines()]


def test_a_line_about_a_job_says_whose_it_is_once_its_record_was_seen():
    events = events_of("""
from core.log import configure, get_logger, note_owner
configure("info", is_json=True, process="api")
log = get_logger("test")
log.info("unknown", job="j1")
note_owner("j1", "acme")
log.info("known", job="j1")
log.info("said", job="j1", tenant="other")
log.info("many", job=["j1"])
""")
    assert [event.get("tenant") for event in events] == [None, "acme", "other", None]
    assert {event["process"] for event in events} == {"api"}


def test_tenants_of_so_many_jobs_are_remembered():
    for number in range(MAX_OWNERS + 5):
        note_owner(f"job-{number}", "acme")
    assert len(_owners) == MAX_OWNERS
    assert "job-4" not in _owners and "job-5" in _owners
    _owners.clear()


def test_what_a_request_is_about_stands_on_its_lines_and_not_on_those_of_the_next():
    events = events_of("""
from core.log import begin_request, bind, configure, get_logger
configure("info", is_json=True, process="api")
begin_request()
bind(tenant="acme", job="j1")
get_logger("test").info("one")
begin_request()
get_logger("test").info("two")
""")
    assert [(event.get("tenant"), event.get("job")) for event in events] == [
        ("acme", "j1"),
        (None, None),
    ]


def test_what_ends_a_process_or_a_thread_and_what_warns_are_lines_of_json():
    events = events_of("""
import threading, warnings
from core.log import configure
configure("info", is_json=True, process="worker")
warnings.warn("odd")
thread = threading.Thread(target=lambda: 1 / 0, name="renews")
thread.start()
thread.join()
raise ValueError("the end")
""")
    assert [event["level"] for event in events] == ["warning", "error", "critical"]
    assert events[1]["thread"] == "renews"
    assert events[1]["exception"].endswith("ZeroDivisionError: division by zero")
    assert events[2]["exception"].endswith("ValueError: the end")
    assert {event["process"] for event in events} == {"worker"}


@pytest.mark.parametrize("is_json", [True, False])
def test_a_process_that_cannot_start_says_why_in_its_last_line(is_json):
    program = f"""
from core.log import configure, end
configure("info", is_json={is_json}, process="api")
end("api", ValueError("no keys"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    if is_json:
        assert json.loads(line).items() >= {"level": "critical", "reason": "no keys"}.items()
    else:
        assert line == "api: no keys"


def test_a_signal_handler_writes_a_line_of_its_own():
    (event,) = events_of("""
from core.log import say
say("worker", "worker: Warm shutdown (MainProcess)", "anything else")
""")
    assert event.keys() == {"event", "level", "process", "timestamp"}
    assert event["event"].startswith("worker: Warm")
