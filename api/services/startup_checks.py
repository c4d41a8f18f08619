"""Find what cannot work before the api answers anybody: keys, models, settings of the store."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from api.intake.tokenizers import read_tokenizers
from api.services.auth import keyring_of
from catalog.controlnets import read_controlnets
from catalog.ip_adapters import read_ip_adapters
from catalog.models import read_models, warn_of_undescribed
from core.errors import ConfigurationError, Unavailable
from core.log import get_logger
from core.settings import Settings
from storage.objects.store import open_objects
from storage.redis.connect import connect
from storage.redis.durability import read_durability
from storage.redis.strict import confirming

#: Seconds the store has to say how it is set, when the process starts.
STORE_BUDGET_S = 2.0

log = get_logger(__name__)


def check(settings: Settings) -> None:
    """Find what cannot work before anybody connects.

    Raises:
        ConfigurationError: keys, secrets, models or tokenizers; the message says which.
    """
    keyring_of(settings)
    open_objects(settings)
    warn_of_undescribed(settings.models_dir)
    read_tokenizers(settings.models_dir, read_models(settings.models_dir))
    read_controlnets(settings.controlnets_dir)
    read_ip_adapters(settings.ip_adapters_dir)


async def check_store(settings: Settings) -> None:
    """Look at the store's settings before a job is accepted; one that is away is not waited for.

    Raises:
        ConfigurationError: it would forget or evict jobs, or cannot confirm them; the message says
            what to write where.
    """
    redis = connect(settings.redis_url)
    try:
        async with asyncio.timeout(STORE_BUDGET_S):
            durability = await read_durability(redis)
            with suppress(Unavailable):  # a second server may come yet
                await confirming(settings.durability, settings.redis_url)(redis)
    except (Unavailable, TimeoutError):
        return
    finally:
        await redis.aclose()
    if durability.unknown:
        log.warning("store_settings_unknown", settings=durability.unknown)
    refuse(durability.faults)


def refuse(faults: Sequence[str]) -> None:
    """Refuse a store by what is wrong with its settings.

    Raises:
        ConfigurationError: something is.
    """
    if faults:
        raise ConfigurationError("the store would lose accepted jobs: " + "; ".join(faults))
