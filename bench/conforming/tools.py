"""Keep other people's tools in an environment of their own, made when it is first needed."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
REQUIREMENTS: Final = Path(__file__).parent / "requirements.txt"


def tool(name: str) -> str:
    """Give the path of a program of that environment, such as `schemathesis`."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = ROOT / ".conformance" / digest
    if not (folder / "is-whole").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "-qq", "-r", str(REQUIREMENTS)]
        subprocess.run(pip, check=True)
        (folder / "is-whole").touch()
    return str(folder / "bin" / name)
