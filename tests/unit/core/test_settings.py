import pytest

from core.errors import ConfigurationError
from core.settings import get_settings


def test_a_bad_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATELIER_URL_TTL_S", "soon")
    get_settings.cache_clear()
    with pytest.raises(ConfigurationError, match="ATELIER_URL_TTL_S"):
        get_settings()
    get_settings.cache_clear()
