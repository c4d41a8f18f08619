"""Let a process hold as many connections as it is to hold: each takes an open file."""

import resource


def allow_files(wanted: int) -> int:
    """Raise the limit of open files to this, where the system lets us; say what it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, wanted)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
