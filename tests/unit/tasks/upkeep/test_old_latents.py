import time

from core.latents import latents_key
from storage.objects.directory import DirectoryStore
from tasks.upkeep.old_latents import GRACE_S, OldLatents


async def test_latents_go_when_no_index_can_hold_them_any_more(tmp_path):
    now = [time.time()]
    objects = DirectoryStore(tmp_path, public_url="http://x", secret=b"s")
    latents = OldLatents(objects=objects, ttl_s=60.0, clock=lambda: now[0])
    key = latents_key("t", "j", 5)
    objects.put(key, b"x", "application/octet-stream")
    objects.put("t/j/1/0.png", b"x", "image/png")
    now[0] += 50.0 + GRACE_S
    await latents.sweep()
    assert objects.get(key)
    now[0] += 20.0
    await latents.sweep()
    assert [each.key for each in objects.list("latents")] == []
    assert objects.get("t/j/1/0.png")
