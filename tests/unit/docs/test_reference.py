"""Reference pages, written from the code: every setting says what it is."""

import importlib.util
import re

from core.settings import Settings
from tests.map import ROOT


def test_every_setting_says_what_it_is():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    row = re.compile(r"^\| `ATELIER_(\w+)` \| [^|]* \| (.*) \|$", re.MULTILINE)
    told = dict(row.findall(reference.settings()))
    assert {name.upper() for name in Settings.model_fields} == told.keys()
    assert [name for name, meaning in told.items() if not meaning.strip()] == []
