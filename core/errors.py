"""Exception hierarchy of the project, grouped by who is at fault.

* AtelierError
  + RequestRejected        the client's fault: the API answers 4xx, nothing is stored
    - InvalidRequest         422, names each field
    - TooLarge               413
    - TooSlow                408, a body that trickles
    - NotFound               404, also for other tenants' things
    - Forbidden              403, a wrong or expired signature
    - MissingScope           403, what a key may not do
    - Unauthorized           401
    - Conflict               409, an idempotency key used for another request
      * NotRetriable           409, a job that is not buried, or whose deadline has passed
    - Gone                   410, what a job needs to be tried again is not kept any more
    - TooManyRequests        429 with Retry-After
      * LimitReached           429, a limit of the tenant
  + Unavailable            ours: 503 naming the dependency, retried
    - StoreUnavailable       Redis
      * StoreRefused           it writes nothing now, and has written nothing
    - ArchiveUnavailable     the database of jobs that ended a while ago
    - ObjectsUnavailable     the object store
    - VectorsUnavailable     the index of prompts: jobs start from noise meanwhile
    - SchedulerUnavailable   the scheduler service
    - NoPlan                 no worker can hold the model that is asked for
    - NewerSchema            a newer version wrote it, and must read it
  + ObjectMissing          there is no object under this key
  + TargetRefused          a client's URL leads where we do not call
  + ImageRefused           what a client sent as an image is not one we take; names no field yet
  + WeightsRefused         what a client sent as weights is no file that we take, or fits no model
  + ModelRefused           what an operator wants served is no model that can be; says what helps
  + PromptRefused          a prompt has weights or breaks that mean nothing here; names no field yet
  + LeaseLost              the job belongs to another claim by now; what was made is dropped
  + EngineError            fails one job, never the worker
    - OutOfMemory
    - BadWeights             a model folder that cannot be loaded
    - ControlUnavailable     no ControlNet worker has taken a job in time
    - LoraUnavailable        a LoRA was still on its way when its job was late
    - ProcessLost            CPU processes died or hung over one call, one after another
  + JobStopped             a job leaves the engine on purpose
    - JobCanceled
    - JobExpired
    - JobHandedOver
  + AllocationError        the solver found no plan
  + ConfigurationError     a setting that cannot work; ends the process at start
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from core.tenants.limits import Standing
from core.text import shorten

#: Fields that an answer names at most, and characters that it says of each.
MAX_ERRORS: Final = 50
MAX_DETAIL: Final = 500
#: Characters of the names of all of them: names may be a client's own words.
MAX_NAMES: Final = 300


class AtelierError(Exception):
    """Base class of every error this project raises on purpose."""


class RequestRejected(AtelierError):
    """The client must change something before asking again."""

    status = 400
    title = "The request cannot be accepted"


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field."""

    field: str  #: dotted path, such as `controls.0.image`
    detail: str  #: what it must be

    def shortened(self) -> "FieldError":
        """Bound what is said, whatever of a client's it repeats."""
        return FieldError(shorten(self.field), shorten(self.detail, MAX_DETAIL))


class InvalidRequest(RequestRejected):
    """One or more fields cannot be accepted as they are."""

    status = 422
    title = "The request has fields that cannot be accepted"

    def __init__(self, errors: Sequence[FieldError]) -> None:
        shortened = [each.shortened() for each in errors[:MAX_ERRORS]]
        lengths = accumulate(len(each.field) for each in shortened)
        named = sum(1 for length in lengths if length <= MAX_NAMES)
        self.errors = tuple(shortened[: max(1, named)])
        super().__init__("; ".join(f"{e.field}: {e.detail}" for e in self.errors))


class TooLarge(RequestRejected):
    """A body has more bytes than this service takes."""

    status = 413
    title = "The body is larger than this service takes"


class TooSlow(RequestRejected):
    """A body trickles in."""

    status = 408
    title = "The body does not come"


class NotFound(RequestRejected):
    """There is no such thing, or it is another tenant's."""

    status = 404
    title = "There is no such thing"


class Forbidden(RequestRejected):
    """A signature is wrong or has expired."""

    status = 403
    title = "The signature is wrong or has expired"


class MissingScope(RequestRejected):
    """The API key may not do this; the message says which scope it lacks."""

    status = 403
    title = "The API key may not do this"


class Unauthorized(RequestRejected):
    """The API key is missing or unknown."""

    status = 401
    title = "A valid API key is needed"


class Conflict(RequestRejected):
    """An idempotency key was used for another request, or a name is taken."""

    status = 409
    title = "The request contradicts an earlier one"


class NotRetriable(Conflict):
    """The job is not buried, or its deadline has passed."""

    title = "The job cannot be tried again"


class Gone(RequestRejected):
    """What a job needs to be tried again is not kept any more."""

    status = 410
    title = "What the job needs is not kept any more"


class TooManyRequests(RequestRejected):
    """Quota used up or queue full."""

    status = 429
    title = "Too many requests"

    def __init__(self, detail: str, retry_after_s: float, reason: str = "quota") -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
        self.reason = reason  #: one word, for those who count


class LimitReached(TooManyRequests):
    """The tenant asks for more than it may; the message says which limit it is."""

    title = "A limit of the tenant is reached"

    def __init__(
        self, detail: str, retry_after_s: float, reason: str, standing: Standing | None = None
    ) -> None:
        super().__init__(detail, retry_after_s, reason)
        self.standing = standing  #: where the tenant stands; None: nobody has looked


class Unavailable(AtelierError):
    """Something we depend on does not answer. Worth another try."""

    dependency = "service"


class StoreUnavailable(Unavailable):
    """Redis does not answer, or takes nothing."""

    dependency = "store"


class StoreRefused(StoreUnavailable):
    """Redis is full, read-only or without its replicas or disk: nothing of this was written."""


class ArchiveUnavailable(Unavailable):
    """The database of jobs that ended a while ago does not answer; they stay in the store then."""

    dependency = "archive"


class ObjectsUnavailable(Unavailable):
    """The object store does not answer in time."""

    dependency = "objects"


class VectorsUnavailable(Unavailable):
    """The vector index cannot serve; jobs start from noise meanwhile."""

    dependency = "vectors"


class SchedulerUnavailable(Unavailable):
    """The scheduler service does not answer in its budget."""

    dependency = "scheduler"


class NoPlan(Unavailable):
    """No worker can hold any of the models asked for, or none is there."""

    dependency = "worker"


class NewerSchema(Unavailable):
    """A newer version wrote this in a form that we do not know: it is left for that one."""

    dependency = "newer version"


class ObjectMissing(AtelierError):
    """There is no object under this key."""


class TargetRefused(AtelierError):
    """A client's URL leads to an address that we do not call."""


class ImageRefused(AtelierError):
    """What a client sent as an image, or leads us to, is not one we take. Says what it is."""


class ModelRefused(AtelierError):
    """A folder or a file cannot be served as a model; says why, and what would help."""


class WeightsRefused(AtelierError):
    """What a client sent as weights is no file that we take, or fits no model. Says why."""


class PromptRefused(AtelierError):
    """A prompt cannot be read as its syntax has it; the message says what it says."""


class LeaseLost(AtelierError):
    """Another claim owns the job by now."""


class EngineError(AtelierError):
    """A job could not be made. The worker goes on."""

    type = "engine_error"


class OutOfMemory(EngineError):
    """Not even one row fits in device memory."""

    type = "out_of_memory"


class BadWeights(EngineError):
    """A model folder cannot be loaded; the message names the file and the reason."""

    type = "bad_weights"


class ControlUnavailable(EngineError):
    """No ControlNet worker has taken a job in time, or each that did was lost."""

    type = "control_unavailable"


class LoraUnavailable(EngineError):
    """A LoRA has not come in time."""

    type = "lora_unavailable"


class ProcessLost(EngineError):
    """CPU processes died or hung over one call, one after another."""

    type = "process_lost"


class JobStopped(AtelierError):
    """The job leaves the engine before its last step, on purpose."""


class JobCanceled(JobStopped):
    """Somebody asked for it to stop."""


class JobExpired(JobStopped):
    """Its deadline has passed."""


class JobHandedOver(JobStopped):
    """Another worker goes on with it."""


class AllocationError(AtelierError):
    """The solver found no plan; the last good one stays."""


class ConfigurationError(AtelierError):
    """A setting that cannot work. The message names the variable."""
