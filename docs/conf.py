"""How Sphinx makes a site of these pages: `make docs`."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import reference  # noqa: E402  (beside this file)

project = "Atelier"
copyright = "the authors of Atelier, Apache-2.0"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["samples"]
html_theme = "furo"
html_title = "Atelier"
html_theme_options = {"source_edit_link": ""}
html_show_sourcelink = False
html_copy_source = False

#: Pages that are written while the site is made, after what their files say.
WRITTEN = {
    "http": reference.http,
    "settings": reference.settings,
    "commands": reference.commands,
}
#: Pages that are named before they are made: by `make gpu`.
TO_COME = {"gpu-figures.md"}
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`docs/([\w/-]+\.md)`|`docs/adr/(\d{4})`|\bADR (\d{4})\b")


def _linked(found: re.Match[str], page: str) -> str:
    """Make a link of a page that is named by its path, or of a decision by its number."""
    name, number = found[1], found[2] or found[3]
    if name in TO_COME:
        return found[0]
    if number:
        (path,) = HERE.glob(f"adr/{number}-*.md")
        name = f"adr/{path.name}"
    text = found[0].strip("`") if found[1] is None else found[0]
    return f"[{text}]({os.path.relpath(name, Path(page).parent)})"


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    parts = _FENCED.split(source[0])
    parts[::2] = [_NAMED.sub(lambda found: _linked(found, page), part) for part in parts[::2]]
    source[0] = "".join(parts) + (WRITTEN[page]() if page in WRITTEN else "")


def setup(app: Sphinx) -> None:
    """Read every page through ours."""
    app.connect("source-read", _read)
