"""Where images lie: full, slow, lying, gone; and the processes that write them."""

import asyncio
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import psutil

from bench.nemesis.kind import STORE_S, Kind, Scene
from bench.nemesis.service import Setup

AWAY_S = 5.0
#: Silence after which a CPU process is replaced.
HUNG_S = 15.0


async def _fill(path: Path) -> None:
    """Fill a file system for a while."""
    filler = path / "filler"
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(2**20))
    with suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(b"0")
    await asyncio.sleep(AWAY_S)
    filler.unlink()


async def fill(scene: Scene) -> None:
    """Leave no room for images."""
    await _fill(scene.service.disks["objects"])


async def fill_store(scene: Scene) -> None:
    """Leave no room for the file of the store."""
    await _fill(scene.service.disks["store"])


async def forbid(scene: Scene) -> None:
    """Have a file lie where the folder of the tenant's images was, as who mounts a wrong disk."""
    folder = scene.service.rig.folder / "data" / "objects" / "default"
    aside = folder.rename(folder.with_name("aside"))
    folder.touch()
    await asyncio.sleep(AWAY_S)
    folder.unlink()
    aside.rename(folder)


def _encoders(scene: Scene, worker: str) -> list[psutil.Process]:
    children = psutil.Process(scene.service.rig.processes[worker].pid).children()
    return [each for each in children if "spawn_main" in " ".join(each.cmdline())]


async def kill_encoders(scene: Scene) -> None:
    """Kill the processes that encode the images of a worker, three times."""
    for _ in range(3):
        for process in _encoders(scene, await scene.service.busy_worker(scene.draw)):
            process.send_signal(SIGKILL)
        await asyncio.sleep(1.0)


async def hang_encoders(scene: Scene) -> None:
    """Stop them: they never answer, until somebody loses patience."""
    for process in _encoders(scene, await scene.service.busy_worker(scene.draw)):
        process.send_signal(SIGSTOP)


async def stall_encoders(scene: Scene) -> None:
    """Stop them for a while that nobody minds."""
    stopped = _encoders(scene, await scene.service.busy_worker(scene.draw))
    for process in stopped:
        process.send_signal(SIGSTOP)
    await asyncio.sleep(AWAY_S)
    for process in stopped:
        process.send_signal(SIGCONT)


async def slow(scene: Scene) -> None:
    """Take half a second for every piece of data."""
    assert scene.service.objects is not None
    scene.service.objects.delay_s = 0.5
    await asyncio.sleep(AWAY_S)
    scene.service.objects.heal()


async def lie(scene: Scene) -> None:
    """Store what is sent and never say so."""
    assert scene.service.objects is not None
    scene.service.objects.is_deaf = True
    await asyncio.sleep(AWAY_S)
    scene.service.objects.heal()


async def part(scene: Scene) -> None:
    """Let nothing through."""
    assert scene.service.objects is not None
    scene.service.objects.part()
    await asyncio.sleep(AWAY_S)
    scene.service.objects.heal()


async def cut(scene: Scene) -> None:
    """Reset all connections, in the middle of what they carry."""
    assert scene.service.objects is not None
    for _ in range(30):
        scene.service.objects.cut()
        await asyncio.sleep(scene.draw.uniform(0.0, 0.3))


async def kill(scene: Scene) -> None:
    """Kill the object store, and start it again."""
    assert scene.service.s3 is not None
    await asyncio.to_thread(scene.service.s3.kill)
    await asyncio.sleep(AWAY_S)
    await asyncio.to_thread(scene.service.s3.start)


async def freeze(scene: Scene) -> None:
    """Stop the object store: it takes connections and says nothing."""
    assert scene.service.s3 is not None
    scene.service.s3.pause()
    await asyncio.sleep(AWAY_S)
    scene.service.s3.resume()


#: Images that could not be written are tried again after so long at most.
AGAIN_S = 5.0 + STORE_S
KINDS = (
    Kind(name="disk of images full", do=fill, recovers_s=AGAIN_S, needs="objects"),
    Kind(name="disk of the store full", do=fill_store, recovers_s=AGAIN_S, needs="store"),
    Kind(name="folder of images gone", do=forbid, recovers_s=AGAIN_S),
    Kind(name="encoders killed", do=kill_encoders, recovers_s=AGAIN_S),
    Kind(name="encoders hang", do=hang_encoders, recovers_s=HUNG_S + AGAIN_S),
    Kind(name="encoders stall", do=stall_encoders, recovers_s=AGAIN_S),
    Kind(name="object store slow", do=slow, recovers_s=AGAIN_S, setup=Setup.S3),
    Kind(name="object store lies", do=lie, recovers_s=AGAIN_S, setup=Setup.S3),
    Kind(name="object store parted", do=part, recovers_s=AGAIN_S, setup=Setup.S3),
    Kind(name="object store's connections cut", do=cut, recovers_s=AGAIN_S, setup=Setup.S3),
    Kind(name="object store killed", do=kill, recovers_s=AGAIN_S, setup=Setup.S3),
    Kind(name="object store frozen", do=freeze, recovers_s=AGAIN_S, setup=Setup.S3),
)
