"""What a tenant has open, keeps and has used, and its limits as `submit.lua` checks them."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from core.tenants.limits import DAY_S, Standing, TenantLimits

#: Seconds that who is refused is told at most, where places are given out in turn.
MOST_TOLD_S = 60.0


@dataclass(slots=True)
class Account:
    """What one tenant has open, keeps and has used."""

    open: set[str] = field(default_factory=set)
    kept_bytes: int = 0
    promised_bytes: int = 0
    full_at: float = 0.0  #: epoch s, when all jobs at once may come again
    told: float = 0.0  #: epoch s, the moment that the last one was told
    told_open: float = 0.0
    took_s: float = 0.0  #: from acceptance to end, smoothed
    charged: dict[str, int] = field(default_factory=dict)  #: job -> day that its images count on
    usage: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  #: by day

    def day(self, now: float) -> Counter[str]:
        """Give what is counted today."""
        return self.usage[int(now // DAY_S)]


def standing(account: Account, limits: TenantLimits, now: float) -> Standing:
    """Tell where the tenant stands."""
    full_in_s = max(0.0, account.full_at - now)
    most, pause_s = limits.most_at_once, 1 / limits.jobs_per_s if limits.jobs_per_s else 0.0
    free = int((most * pause_s - full_in_s) / pause_s + 1e-6) if pause_s else most
    return Standing(
        limits=limits,
        full_in_s=full_in_s,
        free_jobs=max(0, free),
        open_jobs=len(account.open),
        images=account.day(now)["asked"],
        day_left_s=DAY_S - now % DAY_S,
    )


def over(
    account: Account, limits: TenantLimits, now: float, images: int, num_bytes: int
) -> tuple[str, float]:
    """Name the limit that a job would exceed, and when to try again; else nothing."""
    if limits.open_jobs and len(account.open) >= limits.open_jobs:
        pause_s = max(account.took_s, 1.0) / limits.open_jobs
        account.told_open = _moment(now, now + pause_s, account.told_open, pause_s)
        return "open_jobs", account.told_open - now
    if limits.images_a_day and account.day(now)["asked"] + images > limits.images_a_day:
        return "images_a_day", DAY_S - now % DAY_S
    if has_no_room(account, limits, num_bytes):
        return "kept_bytes", MOST_TOLD_S
    if limits.jobs_per_s is None:
        return "", 0.0
    most, pause_s = limits.most_at_once, 1 / limits.jobs_per_s
    free_at = max(account.full_at, now) - (most - 1) * pause_s
    if free_at > now:
        spread_s = 1 / (most - 1) if most > 1 else pause_s + 1
        account.told = _moment(now, free_at, account.told, max(pause_s, spread_s))
        return "jobs_per_s", account.told - now
    account.full_at = max(account.full_at, now) + pause_s
    return "", 0.0


def has_no_room(account: Account, limits: TenantLimits, num_bytes: int) -> bool:
    """Tell whether so many bytes more are too many."""
    held = account.kept_bytes + account.promised_bytes + num_bytes
    return limits.kept_bytes is not None and held > limits.kept_bytes


def _moment(now: float, earliest: float, last: float, pause_s: float) -> float:
    return max(earliest, min(last + pause_s, now + MOST_TOLD_S))
