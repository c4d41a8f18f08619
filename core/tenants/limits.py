"""What one tenant may ask for and keep, and what of that is left."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Final

from pydantic import ConfigDict, Field

Rate = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**15)]

#: Seconds of the day that images are counted by, in UTC.
DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """TenantLimits of one tenant; what is None is not limited, or as the settings have it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    jobs_per_s: Rate | None = None  #: jobs accepted a second, in the long run
    burst: Count | None = None  #: jobs accepted at once; None: those of a second
    open_jobs: Count | None = None  #: jobs that have not ended
    images_a_day: Count | None = None  #: images asked for on one day of UTC
    kept_bytes: Count | None = None  #: of images, of what jobs bring, and of uploads

    @property
    def is_empty(self) -> bool:
        """Whether nothing that a job asks for is limited."""
        return all(getattr(self, each.name) is None for each in fields(self))

    @property
    def most_at_once(self) -> int:
        """How many jobs are accepted at once by who has sent none for a while."""
        return self.burst or max(1, int(self.jobs_per_s or 1))

    def over(self, defaults: "TenantLimits") -> "TenantLimits":
        """Take the defaults where this says nothing."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(defaults, **{name: own for name, own in own.items() if own is not None})


UNLIMITED: Final = TenantLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a tenant stood when it was last answered; it has these limits."""

    limits: TenantLimits
    full_in_s: float  #: until as many jobs are accepted at once as at most
    free_jobs: int  #: of those
    open_jobs: int  #: that have not ended
    images: int  #: asked for on this day
    day_left_s: float  #: seconds until another day begins
