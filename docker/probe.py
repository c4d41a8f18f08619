#!/usr/bin/env python3
"""Does an address on this machine answer 200? For health checks of images without curl."""

import sys
from urllib.request import ProxyHandler, build_opener

if __name__ == "__main__":
    with build_opener(ProxyHandler({})).open(sys.argv[1], timeout=4) as answer:
        sys.exit(answer.status != 200)
