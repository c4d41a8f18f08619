"""Headers that tell a client what its limits leave. Pure.

They are those of draft-ietf-httpapi-ratelimit-headers-10.
"""

import math
from typing import Final

from starlette.types import Scope

from core.tenants.limits import DAY_S, Standing, TenantLimits

POLICY: Final = "RateLimit-Policy"
LEFT: Final = "RateLimit"
SAID: Final = "answer_headers"  #: where the scope of a request has what is said beside its answer


def tell_standing(scope: Scope, standing: Standing) -> None:
    """Have the answer to a request tell where its tenant stands."""
    scope[SAID] = headers_of(standing)


def headers_of(standing: Standing) -> dict[str, str]:
    """Say what is limited, and what of it is left."""
    policies, left = _policies(standing.limits), _left(standing)
    if not policies:
        return {}
    return {POLICY: ", ".join(policies), LEFT: ", ".join(left)}


def _policies(limits: TenantLimits) -> list[str]:
    said = []
    if limits.jobs_per_s is not None:
        window_s = math.ceil(limits.most_at_once / limits.jobs_per_s)
        said.append(f'"jobs";q={limits.most_at_once};w={window_s}')
    if limits.open_jobs is not None:
        said.append(f'"open";q={limits.open_jobs};qu="concurrent-requests"')
    if limits.images_a_day is not None:
        said.append(f'"images";q={limits.images_a_day};qu="images";w={DAY_S}')
    return said


def _left(standing: Standing) -> list[str]:
    limits, said = standing.limits, []
    if limits.jobs_per_s is not None:
        said.append(f'"jobs";r={standing.free_jobs};t={math.ceil(standing.full_in_s)}')
    if limits.open_jobs is not None:
        said.append(f'"open";r={max(0, limits.open_jobs - standing.open_jobs)}')
    if limits.images_a_day is not None:
        rest = max(0, limits.images_a_day - standing.images)
        said.append(f'"images";r={rest};t={math.ceil(standing.day_left_s)}')
    return said
