#!/usr/bin/env python3
"""Does somebody lead in a matter, such as `upkeep`? The health check of a process without HTTP."""

import sys

from core.settings import get_settings
from storage.redis.connect import connect_sync

if __name__ == "__main__":
    with connect_sync(get_settings().redis_url) as redis:
        sys.exit(not redis.exists(f"leader:{sys.argv[1]}"))
