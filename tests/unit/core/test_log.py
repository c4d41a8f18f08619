import io
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
