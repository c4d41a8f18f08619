"""Files of adapters outlast their records for as long as jobs may need them."""

from core.uploads.lora import LORAS, KeptLora, lora_key
from core.uploads.upload import UploadKind
from storage.fakes import MemoryUploads
from storage.objects.directory import DirectoryStore
from storage.objects.image_states import PREFIX, StateKey, job_of
from tasks.upkeep.orphaned_files import OrphanedFiles


async def test_a_file_goes_once_its_record_has_been_gone_for_long(tmp_path):
    now, loras = [0.0], MemoryUploads(KeptLora)
    objects = DirectoryStore(tmp_path, public_url="http://x", secret=b"s")
    files = OrphanedFiles(
        folder=LORAS, objects=objects, records=loras, grace_s=10.0, clock=lambda: now[0]
    )
    for name in ("kept", "gone"):
        key = lora_key("t", name)
        objects.put(key, b"x", "application/octet-stream")
        await loras.add(
            KeptLora(id=name, tenant="t", key=key, models=("m",), num_layers=1, bound=0,
                 size_bytes=1, sha256="ab")
        )  # fmt: skip
    await files.sweep()
    await loras.remove(UploadKind.LORA, "gone", "t")
    for now[0], left in ((20.0, {"kept", "gone"}), (29.0, {"kept", "gone"}), (30.0, {"kept"})):
        await files.sweep()
        assert {each.key for each in objects.list("loras")} == {lora_key("t", it) for it in left}


async def test_where_images_stand_goes_with_the_end_of_their_job(tmp_path):
    """A worker that is lost just then leaves it behind."""

    class Unfinished:
        async def known(self, ids):
            return {job_id for job_id in ids if job_id == "open"}

    now, objects = [0.0], DirectoryStore(tmp_path, public_url="http://x", secret=b"s")
    files = OrphanedFiles(
        folder=PREFIX,
        objects=objects,
        records=Unfinished(),
        grace_s=10.0,
        id_of=job_of,
        clock=lambda: now[0],
    )
    keys = [str(StateKey(tenant="t", job_id=of, fence=1, index=0)) for of in ("open", "over")]
    for key in keys:
        objects.put(key, b"x", "application/octet-stream")
    await files.sweep()
    assert {each.key for each in objects.list(PREFIX)} == set(keys)
    now[0] = 11.0
    await files.sweep()
    assert {each.key for each in objects.list(PREFIX)} == {keys[0]}
