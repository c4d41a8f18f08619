"""Type the commands of a page into a shell, block after block, as a reader would."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cli.stack.process import ROOT
from core.errors import EngineError

#: What pages call the service, and what they leave for readers to fill in: the last id printed.
HOME = re.compile(r"(?:http://)?(?:localhost|127\.0\.0\.1):8000")
ID = re.compile(r"\b[0-9a-f]{32}\b")
#: Folders of the repository that commands name.
NAMED = ("docs", "ops", "zoo", ".venv", "atelier_client")
#: Seconds a block may take.
PATIENCE_S = 600.0


@dataclass(kw_only=True)
class Shell:
    """A folder to type in, beside a service: what one block exports the next one has."""

    folder: Path
    url: str
    environment: Mapping[str, str] = field(default_factory=dict)
    last_id: str = "<id>"

    def __post_init__(self) -> None:
        for name in NAMED:
            (self.folder / name).symlink_to(ROOT / name)
        beside = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "ATELIER_URL": self.url,
            **self.environment,
        }

    def type(self, script: str) -> str:
        """Run a script line by line and return what it printed.

        Raises:
            EngineError: a line failed; the message has what was said.
        """
        lines = script.replace("\\\n", " ").splitlines()
        return "".join(self._type_line(line) for line in lines if line.strip())

    def _type_line(self, line: str) -> str:
        kept = self.folder / ".environment"
        # Every variable that is set is kept for the lines to come.
        whole = f"set -aeuo pipefail\n{self._filled(line)}\nenv -0 > {kept}\n"
        said = self._run(["bash", "-c", whole])
        pairs = (each.partition("=") for each in kept.read_text().split("\0") if each)
        self.environment = {name: value for name, _, value in pairs}
        return said

    def run_python(self, script: str) -> str:
        """Run a Python script, as `type` does."""
        return self._run([sys.executable, "-c", self._filled(script)])

    def _filled(self, script: str) -> str:
        return HOME.sub(self.url, script).replace("<id>", self.last_id)

    def _run(self, command: list[str]) -> str:
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            text=True,
            timeout=PATIENCE_S,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if ended.returncode:
            raise EngineError(f"{command[-1]}\nended with {ended.returncode}:\n{ended.stdout}")
        self.last_id = next(reversed(ID.findall(ended.stdout)), self.last_id)
        return ended.stdout


def scripts(page: Path, language: str = "bash") -> Iterable[str]:
    """The fenced blocks of a page that are typed."""
    found = re.finditer(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return (each[1] for each in found)
