"""Prometheus metrics that processes share. No id, prompt or tenant in a label."""

from prometheus_client import Counter, Gauge, Histogram

#: Seconds a person may wait for an image, from a blink to too long.
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)
_STEP_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

jobs = Counter("atelier_jobs", "Jobs that ended.", ["task", "status"])
requests_running = Gauge(
    "atelier_num_requests_running", "Slots in the running batch.", ["worker", "model"]
)
requests_waiting = Gauge("atelier_num_requests_waiting", "Jobs queued, not claimed.", ["queue"])
oldest_waiting = Gauge(
    "atelier_oldest_waiting_seconds", "How long the first job of a queue has waited.", ["queue"]
)
queue_time = Histogram(
    "atelier_request_queue_time_seconds", "Accepted to claimed.", buckets=_SECONDS
)
step_time = Histogram(
    "atelier_step_time_seconds", "One denoising step.", ["model"], buckets=_STEP_SECONDS
)
e2e_latency = Histogram(
    "atelier_e2e_request_latency_seconds", "Accepted to stored.", ["task"], buckets=_SECONDS
)
levels = Counter("atelier_level", "Images made, by level.", ["model", "level"])
slo_violations = Counter(
    "atelier_slo_violations", "Jobs that ended later than their SLO, or without images."
)
saturation = Gauge("atelier_saturation", "Share of the demand the plan cannot serve.")
redeliveries = Counter("atelier_redeliveries", "Jobs queued once more.", ["reason"])
fenced_writes = Counter("atelier_fenced_writes", "Results refused: another claim owns the job.")
jobs_dead = Counter("atelier_jobs_dead", "Jobs given up: they can be tried again.")
messages_unreadable = Counter(
    "atelier_messages_unreadable", "Messages that workers dropped: none of this service's."
)
webhook_deliveries = Counter("atelier_webhook_deliveries", "Webhooks posted.", ["outcome"])
archive_behind = Gauge(
    "atelier_archive_behind_seconds",
    "How long the first job is in the store that should be in the archive.",
)
upkeep_is_led = Gauge(
    "atelier_upkeep_is_led",
    "Whether an upkeep leads, so that jobs of lost workers go back and webhooks are posted.",
)
cache_hits = Counter("atelier_cache_hits", "Lookups, by where they were found.", ["cache", "tier"])
cache_retrieval = Histogram(
    "atelier_cache_retrieval_seconds",
    "Looking something up that a job can do without.",
    ["cache"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.25),
)
latents_left = Counter(
    "atelier_latents_left", "Jobs that left latents behind: kept, dropped or failed.", ["outcome"]
)
image_states = Counter(
    "atelier_image_states",
    "Where images stood on their way: kept, dropped for a newer one, failed to be kept, resumed.",
    ["outcome"],
)
recordings_dropped = Counter(
    "atelier_recordings_dropped",
    "Recordings of templates that memory had no room for: not begun, given up or not saved.",
    ["outcome"],
)
ranks = Gauge("atelier_ranks", "Processes that compute a model's steps in one worker.", ["model"])
ranks_lost = Counter("atelier_ranks_lost", "Second ranks that died: their workers go on alone.")
model_load = Histogram(
    "atelier_model_load_seconds", "Loading one model.", buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)
)
