"""Every key this service keeps in Redis. The scripts in `scripts/` are the other users.

All times are epoch milliseconds of the server's own clock. `<list>` is a queue's name for
priority 0, and the name, `\\x06\\x16`, priority for 6 and 9: the lists kombu pops from.

| key                    | type   | what it is                                                  |
|------------------------|--------|-------------------------------------------------------------|
| `job:<id>`             | hash   | the record: the truth about one job                         |
| `<list>`               | list   | messages waiting for a worker; kombu's                      |
| `waiting:<list>`       | zset   | queued jobs of that list, by time of acceptance             |
| `turns:<list>`         | zset   | the same jobs by whose turn it is: tenant by tenant         |
| `shares:<list>`        | zset   | tenant -> work it has been given; '': how far is served     |
| `queued:<queue>`       | hash   | tenant -> its jobs that wait                                |
| `queues`               | set    | every queue that ever got a job                             |
| `leases`               | zset   | running jobs, by the end of their lease                     |
| `held:<worker>`        | set    | running jobs that this worker has claimed                   |
| `deadlines`            | zset   | unfinished jobs that have a deadline, by deadline           |
| `finished`             | zset   | terminal jobs, by the time they ended                       |
| `archiving`            | hash   | id -> token of who has taken a terminal job to archive it   |
| `expected`             | stream | objects stored for jobs to be submitted: job, keys; capped  |
| `gone:<id>`            | string | a job was deleted: it is not brought back; ends by itself   |
| `missing`              | zset   | queued jobs seen without a message, by when first seen      |
| `tenant:<tenant>`      | zset   | all jobs of one tenant, by time of acceptance               |
| `buried:<tenant>`      | zset   | those that ended for want of attempts, by the same time     |
| `idem:<n>:<t>:<key>`   | string | digest, newline, job id: an idempotency key of tenant t     |
| `events:<id>`          | stream | what happened to a job that somebody followed, capped       |
| `preview:<id>`         | string | the last pictures of its images on their way; ends by itself |
| `outbox`               | zset   | webhook deliveries to make, by due time                     |
| `pending:<tenant>`     | zset   | those of one tenant, by when posted; ends by itself         |
| `outbox:dead:<tenant>` | zset   | deliveries of one tenant that were given up, by when        |
| `outbox:dead`          | zset   | those of older versions, of all tenants; ends by itself     |
| `delivery:<name>`      | hash   | one delivery: job, tenant, url, event, attempt, body        |
| `upload:<id>`          | hash   | a file, template or LoRA: tenant, kind, document, created_at |
| `uploads:<kind>:<t>`   | zset   | all uploads of one kind of tenant t, by time                |
| `evacuated`            | set    | uploads that this cell's heir has too (docs/cells.md)       |
| `evacuated:heir`       | string | that heir's name                                            |
| `scores`               | stream | scores of finished images, capped; `job:<id>` names its own |
| `history`              | stream | samples of the service, twice a minute, capped              |
| `classifiers`          | list   | versions of the classifier, the one in force first          |
| `classifiers:wanted`   | string | why another one is wanted                                   |
| `applications`         | set    | tenants that have registered applications                   |
| `applications:<t>`     | hash   | name -> application of tenant t                             |
| `keys`                 | hash   | id -> API key of some tenant: its digest, scopes, end       |
| `tenants`              | hash   | tenant -> what operators have said of it: limits, weight    |
| `audit`                | stream | who did what, from where, capped                            |
| `<table>:version`      | string | another one after every change of `keys` or of `tenants`    |
| `open:<tenant>`        | set    | its jobs that have not ended                                |
| `account:<tenant>`     | hash   | bytes it keeps, bytes its open jobs may leave, its rate     |
| `usage:<tenant>:<day>` | hash   | images, jobs, time of devices; day: since the epoch, of UTC |
| `latents:made`         | list   | lenders that the scheduler has not taken in yet, newest first |
| `latents:deleted`      | list   | jobs deleted lately that it has not taken out, newest first |
| `fleet`                | hash   | worker name -> its last report                              |
| `fleet:beats`          | zset   | worker names, by the time of the last report                |
| `fleet:changes`        | zset   | worker names, by the number of their last change            |
| `fleet:number`         | hash   | epoch, last: that count, and when it began (ms)             |
| `measured:<type>`      | hash   | model -> what workers of a device type have measured of it  |
| `plan`                 | hash   | fence, version, document, takes_latents: the plan in force  |
| `plan:assignments`     | hash   | worker -> model that it gives it                            |
| `demand`               | hash   | scheduler -> when (ms), space, what it is asked for         |
| `leader:<name>`        | string | owner, newline, fence: who leads, until its time runs out   |
| `leader:<name>:fence`  | string | the last fence handed out                                   |
| `stats`                | hash   | counters: submitted, refused, ended, ...                    |
| `schema`               | string | number of the forms that may be written; missing: 1         |
| `schema:readers`       | zset   | number and name of each process, by until when it is there  |
| `schema:since`         | string | when (ms) all processes began to read a newer one           |

| channel                | payload                                                              |
|------------------------|----------------------------------------------------------------------|
| `bell:<id>`            | event name: the job's stream has a new line                          |
| `stop:<worker>`        | job id: look at its record: it may be yours no more, or be followed  |
| `plan`                 | version: a new plan is in force                                      |
"""

#: Of jobs, 0 first. A pop waits for a list of each, and who counts what waits counts each.
PRIORITIES = (0, 6, 9)

LEASES = "leases"
DEADLINES = "deadlines"
FINISHED = "finished"
QUEUES = "queues"
MISSING = "missing"
EVACUATED = "evacuated"
EVACUATED_HEIR = "evacuated:heir"
ARCHIVING = "archiving"
EXPECTED = "expected"
OUTBOX = "outbox"
DEAD = "outbox:dead"
FLEET = "fleet"
BEATS = "fleet:beats"
PLAN = "plan"
ASSIGNMENTS = "plan:assignments"
DEMAND = "demand"
PLANNERS = "scheduler"  #: who leads in this matter publishes plans
STATS = "stats"
LENDERS = "latents:made"
DELETED = "latents:deleted"
SCORES = "scores"
HISTORY = "history"
CLASSIFIERS = "classifiers"
WANTED = "classifiers:wanted"
APPLICANTS = "applications"
TENANT_KEYS = "keys"
TENANTS = "tenants"
AUDIT = "audit"


def list_of(queue: str, priority: int) -> str:
    """Name the Redis list that holds the messages of one queue and priority."""
    return f"{queue}\x06\x16{priority}" if priority else queue


def measured_key(device_type: str) -> str:
    """Name the hash of what was measured on one type of device."""
    return f"measured:{device_type}"


def job_key(job_id: str) -> str:
    """Name the hash of a job's record."""
    return f"job:{job_id}"


def waiting_key(queue: str, priority: int) -> str:
    """Name the index of when the jobs of one list were accepted."""
    return f"waiting:{list_of(queue, priority)}"


def turns_key(queue: str, priority: int) -> str:
    """Name the index of whose turn it is among the jobs of one list."""
    return f"turns:{list_of(queue, priority)}"


def queued_key(queue: str) -> str:
    """Name the count of each tenant's jobs that wait on a queue."""
    return f"queued:{queue}"


def tenant_key(tenant: str) -> str:
    """Name the index of a tenant's jobs, by time."""
    return f"tenant:{tenant}"


def buried_key(tenant: str) -> str:
    """Name the index of a tenant's buried jobs."""
    return f"buried:{tenant}"


def held_key(worker: str) -> str:
    """Name the set of jobs that a worker has claimed."""
    return f"held:{worker}"


def open_key(tenant: str) -> str:
    """Name the set of a tenant's jobs that have not ended."""
    return f"open:{tenant}"


def account_key(tenant: str) -> str:
    """Name the hash of what a tenant keeps, and how fast it may go on."""
    return f"account:{tenant}"


def usage_key(tenant: str, day: int) -> str:
    """Name the hash of what a tenant has used on a day since the epoch, of UTC."""
    return f"usage:{tenant}:{day}"


def version_key(table: str) -> str:
    """Name the version of a table."""
    return f"{table}:version"


def idempotency_key(tenant: str, key: str) -> str:
    """Name the record of an Idempotency-Key; no two tenants can share one."""
    return f"idem:{len(tenant.encode())}:{tenant}:{key}"


def events_key(job_id: str) -> str:
    """Name the stream of a job's events."""
    return f"events:{job_id}"


def preview_key(job_id: str) -> str:
    """Name the latest pictures of a job's images on their way."""
    return f"preview:{job_id}"


def leader_key(matter: str) -> str:
    """Name the lease of whoever leads in a matter."""
    return f"leader:{matter}"


def delivery_key(name: str) -> str:
    """Name the hash of a webhook delivery."""
    return f"delivery:{name}"


def pending_key(tenant: str) -> str:
    """Name the index of a tenant's deliveries that are to be made."""
    return f"pending:{tenant}"


def dead_key(tenant: str) -> str:
    """Name the index of a tenant's deliveries that were given up."""
    return f"{DEAD}:{tenant}"


def upload_key(upload_id: str) -> str:
    """Name the record of an upload."""
    return f"upload:{upload_id}"


def uploads_key(kind: str, tenant: str) -> str:
    """Name the index of a tenant's uploads of one kind."""
    return f"uploads:{kind}:{tenant}"


def applications_key(tenant: str) -> str:
    """Name the hash of a tenant's applications."""
    return f"applications:{tenant}"


def bell_channel(job_id: str) -> str:
    """Name the channel that rings when a job has a new event."""
    return f"bell:{job_id}"


def stop_channel(worker: str) -> str:
    """Name the channel on which a worker hears which jobs to stop."""
    return f"stop:{worker}"
