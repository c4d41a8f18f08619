import pytest
import structlog


@pytest.fixture(autouse=True, scope="package")
def quiet_logs():
    """Poisoned requests log their tracebacks; rendering them takes longer than the tests."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(logger, name, event):
    raise structlog.DropEvent
