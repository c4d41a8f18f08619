from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from core.model import Model
from core.placement import Placement
from core.settings import Settings
from scheduler.approximate_cache.cache import (
    GIB,
    ApproximateCache,
    limits_of,
    open_approximate_cache,
)
from scheduler.metrics import Metrics
from scheduler.profile.profile import Profile
from storage.redis.connect import connect
from tests.unit.scheduler.fakes import a_model, a_profile, a_query

WHOLE = Placement(queue="gen.base", model="base", level="base@0")
SKIPPED = replace(WHOLE, level="base@20", skipped_steps=20)
PROFILE = a_profile(a_model("base"))
TURBO = a_profile(Model(name="turbo", family="noop", default_steps=8))


def opened(folder: Path, profile: Profile = PROFILE, **changes: object) -> ApproximateCache | None:
    settings = Settings(data_dir=folder, url_secret=SecretStr("s" * 32)).model_copy(update=changes)
    redis = connect(settings.redis_url)  # nothing is sent
    return open_approximate_cache(settings, profile, redis, Metrics(), leads=lambda: True)


async def test_an_empty_index_gives_nobody_a_start_and_one_scheduler_opens_it(
    tmp_path: Path,
) -> None:
    cache = opened(tmp_path)
    assert cache is not None
    assert await cache.start([a_query()], [SKIPPED]) == [WHOLE]
    assert set(cache.hits.rates()) == {f"base@{k}" for k in (5, 10, 15, 20, 25)}
    assert opened(tmp_path) is None, "another scheduler on this folder places without it"


@pytest.mark.parametrize(
    "changes",
    [
        {"latents_gib": 0.0},
        {"url_secret": SecretStr("")},
        {"encoder_dir": Path("/nowhere")},
        {"profile": TURBO},
    ],
    ids=["switched off", "no object store", "no encoder", "no steps to skip"],
)
def test_a_scheduler_that_lacks_a_part_of_it_places_without(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    assert opened(tmp_path, **changes) is None  # type: ignore[arg-type]


def test_latents_are_kept_no_longer_than_the_jobs_that_left_them() -> None:
    limits = limits_of(Settings(latents_gib=0.5, latents_ttl_s=7200.0, retention_s=3600.0))
    assert (limits.num_bytes, limits.ttl_s) == (GIB // 2, 3600.0)
