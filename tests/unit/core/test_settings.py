import logging
import re
from pathlib import Path

import pytest
import structlog
from celery.utils.log import LOG_LEVELS as LEVELS_OF_CELERY

from core.errors import ConfigurationError
from core.settings import LOG_LEVELS, Settings, get_settings, read_settings


def test_a_bad_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATELIER_URL_TTL_S", "soon")
    get_settings.cache_clear()
    with pytest.raises(ConfigurationError, match="ATELIER_URL_TTL_S"):
        get_settings()
    get_settings.cache_clear()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"RETENTION_S": "0"}, ["RETENTION_S"]),
        ({"RETENTION_S": "-60"}, ["RETENTION_S"]),
        ({"LEASE_S": "0"}, ["LEASE_S"]),
        ({"BEAT_S": "0"}, ["BEAT_S"]),
        ({"LEASE_S": "5"}, ["LEASE_S", "BEAT_S"]),
        ({"BEAT_S": "8"}, ["LEASE_S", "BEAT_S"]),
        ({"LOG_LEVEL": "verbose"}, ["LOG_LEVEL"]),
    ],
)
def test_what_would_lose_jobs_or_end_a_process_later_is_refused_by_its_name(
    given: dict[str, str], named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"ATELIER_{name}", value)
    get_settings.cache_clear()
    with pytest.raises(ConfigurationError) as refused:
        get_settings()
    get_settings.cache_clear()
    assert all(f"ATELIER_{name}" in str(refused.value) for name in named)


@pytest.mark.parametrize("name", LOG_LEVELS.split("|"))
def test_a_level_of_the_log_may_be_written_in_any_case_and_is_known_to_whoever_logs(
    name: str,
) -> None:
    for level in (name, name.upper(), name.title()):
        assert Settings(log_level=level).log_level == level
    assert structlog.make_filtering_bound_logger(name.upper())
    assert name.upper() in logging.getLevelNamesMapping().keys() & LEVELS_OF_CELERY.keys()


def test_short_leases_may_be_as_short_as_their_beats_allow() -> None:
    settings = Settings(lease_s=0.5, beat_s=0.1, retention_s=60.0)
    assert (settings.lease_s, settings.beat_s, settings.retention_s) == (0.5, 0.1, 60.0)


#: Each setting that holds a secret, as an operator may write it, and the secret in it.
SECRETS = {
    "redis_url": ("redis://atelier:s3cr3t-0@redis:6379/0", "s3cr3t-0"),
    "s3_access_key": ("s3cr3t-1", "s3cr3t-1"),
    "s3_secret_key": ("s3cr3t-2", "s3cr3t-2"),
    "url_secret": ("s3cr3t-3", "s3cr3t-3"),
    "qdrant_api_key": ("s3cr3t-4", "s3cr3t-4"),
    "api_keys": ('{"s3cr3t-5": "acme"}', "s3cr3t-5"),
    "operator_keys": ('["s3cr3t-6"]', "s3cr3t-6"),
    "webhook_secret": ("whsec_s3cr3t-7", "s3cr3t-7"),
    "flower_auth": ("atelier:s3cr3t-8", "s3cr3t-8"),
}
#: Names that secrets have.
SOUNDS_SECRET = re.compile(r"secret|password|_keys?$|auth|token")


def test_every_setting_that_sounds_like_a_secret_is_told_apart() -> None:
    assert {name for name in Settings.model_fields if SOUNDS_SECRET.search(name)} <= SECRETS.keys()


def test_settings_that_are_shown_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (value, _) in SECRETS.items():
        monkeypatch.setenv(f"ATELIER_{name.upper()}", value)
    settings = Settings()
    shown = f"{settings!r} {settings}"
    assert [secret for _, secret in SECRETS.values() if secret in shown] == []
    assert settings.operator_keys == ("s3cr3t-6",)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_cannot_work_is_not_repeated(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ATELIER_{name.upper()}", '{"s3cr3t": ["s3cr3t"]')
    get_settings.cache_clear()
    try:
        get_settings()
    except ConfigurationError as error:
        assert "s3cr3t" not in str(error)
        assert f"ATELIER_{name.upper()}: " in str(error)
    get_settings.cache_clear()


def test_settings_of_other_processes_are_those_of_their_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATELIER_CELL", "eu")
    monkeypatch.setenv("ATELIER_MAX_IMAGES", "3")
    file = tmp_path / "us.env"
    file.write_text("ATELIER_CELL=us\nATELIER_S3_SECRET_KEY='a b'\nREDIS_PASSWORD=x\n")
    settings = read_settings(file)
    assert (settings.cell, settings.max_images) == ("us", 8)
    assert settings.s3_secret_key.get_secret_value() == "a b"
    file.write_text("ATELIER_CELL=US\n")
    with pytest.raises(ConfigurationError, match="ATELIER_CELL"):
        read_settings(file)
    with pytest.raises(ConfigurationError, match="no such file"):
        read_settings(tmp_path / "missing.env")
