import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr

import pytest
import structlog

from core.log import configure, get_logger


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
from core.log import configure, get_logger
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
