"""Take the object store away for longer than a minute: nothing can be written, nor read."""

import asyncio

from bench.fault.scenario import Scenario

AWAY_S, QUICK_S = 70.0, 40.0


class AwayObjects(Scenario):
    """A file lies where the folder of all images was."""

    pause_s = 1.0

    async def disturb(self) -> None:
        await asyncio.sleep(2.0)
        folder = self.rig.folder / "data" / "objects"
        aside = folder.rename(folder.with_name("aside"))
        folder.touch()
        await asyncio.sleep(QUICK_S if self.is_quick else AWAY_S)
        folder.unlink()
        aside.rename(folder)
