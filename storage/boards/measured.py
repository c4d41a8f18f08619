"""What workers have measured of models, shared by all of one type of device, in Redis."""

from collections.abc import Mapping

import msgspec
import redis

from core.boards.measured import MeasuredModel
from core.codec import decode, encode
from storage.redis.connect import ask_sync, converting_errors
from storage.redis.keys import measured_key


def read_measured(client: redis.Redis, device_type: str) -> Mapping[str, MeasuredModel]:
    """Read what is known of models on one type of device, by name. Another version's is left out.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    found = ask_sync(client, "HGETALL", measured_key(device_type))
    known: dict[str, MeasuredModel] = {}
    for name, document in found.items():
        try:
            known[name.decode()] = decode(document, MeasuredModel)
        except msgspec.ValidationError:
            continue
    return known


def write_measured(
    client: redis.Redis, device_type: str, model: str, measured: MeasuredModel
) -> None:
    """Tell the other workers of this type, and whoever starts later.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    with converting_errors():
        client.hset(measured_key(device_type), model, encode(measured))
