"""Note every path that this process opens for writing, in the file that WRITES names."""

import os
import sys

MAKES = {"os.mkdir": 0, "os.rename": 1, "os.symlink": 1, "os.link": 1}
NOTES = os.open(os.environ["WRITES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
noted: set[str] = set()


def note(event: str, args: tuple[object, ...]) -> None:
    path: object = None
    if event == "open":
        path, _, flags = args
        if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event in MAKES:
        path = args[MAKES[event]]
    if isinstance(path, str | bytes | os.PathLike):
        text = os.path.abspath(os.fsdecode(path))
        if text not in noted:
            noted.add(text)
            os.write(NOTES, f"{text}\n".encode())


sys.addaudithook(note)
