"""List the files that are mutated, the tests of each, and the mutants that no test can notice."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One file, and the tests that should notice a change of it, the nearest first."""

    path: str
    tests: tuple[str, ...]
    only: str | None = None  #: pytest's `-k`

    @property
    def arguments(self) -> list[str]:
        """What pytest is told."""
        return [*self.tests, *(("-k", self.only) if self.only else ())]


_ENGINE = (
    "tests/unit/worker/engine/test_engine.py",
    "tests/unit/worker/engine/test_running_batch.py",
    "tests/unit/worker/engine/test_aside.py",
    "tests/unit/worker/engine/test_reopening.py",
    "tests/unit/worker/engine/test_prompts.py",
    "tests/unit/worker/engine/test_sharing.py",
    "tests/unit/worker/engine/test_faults.py",
    "tests/unit/worker/engine/test_stats.py",
    "tests/unit/worker/engine/test_watchdog.py",
    "tests/unit/worker/test_control.py",
)
_STORES = (
    "tests/contract/test_leases.py",
    "tests/contract/test_suspects.py",
    "tests/contract/test_buried.py",
    "tests/contract/test_upkeep.py",
    "tests/contract/test_events.py",
    "tests/contract/test_outbox.py",
    "tests/contract/test_slo.py",
)
_TURNS = ("tests/contract/test_fairness.py", "tests/contract/test_rung.py")
_POLICIES = (
    "tests/unit/scheduler/policy/test_policies.py",
    "tests/unit/scheduler/policy/test_strategies.py",
)

AREAS: Mapping[str, tuple[Subject, ...]] = {
    "leases": (
        Subject(
            path="storage/fakes/leases.py",
            tests=(
                "tests/unit/storage/test_fakes.py",
                *_STORES,
                *_TURNS,
                "tests/contract/test_usage.py",
            ),
            only="memory or fakes",
        ),
        Subject(
            path="storage/redis/scripts/claim.lua",
            tests=(*_STORES, *_TURNS),
            only="wheel",
        ),
        Subject(path="storage/redis/scripts/beat.lua", tests=_STORES, only="wheel"),
        Subject(
            path="storage/redis/scripts/follow.lua",
            tests=("tests/contract/test_events.py",),
            only="wheel",
        ),
        Subject(
            path="storage/redis/scripts/finish.lua",
            tests=(*_STORES, "tests/contract/test_usage.py"),
            only="wheel",
        ),
        Subject(path="storage/redis/scripts/release.lua", tests=_STORES, only="wheel"),
        Subject(path="storage/redis/scripts/reap.lua", tests=_STORES, only="wheel"),
        Subject(path="storage/redis/scripts/isolate.lua", tests=_STORES, only="wheel"),
        Subject(path="storage/redis/scripts/retry.lua", tests=_STORES, only="wheel"),
        Subject(
            path="storage/redis/scripts/rebuild.lua",
            tests=("tests/contract/test_rebuild.py",),
            only="wheel",
        ),
    ),
    "engine": (
        Subject(
            path="worker/engine/batch.py",
            tests=(
                "tests/unit/worker/engine/test_batch.py",
                "tests/unit/worker/engine/test_slot.py",
                *_ENGINE,
            ),
        ),
        Subject(
            path="worker/jobs/claimed.py",
            tests=(
                "tests/unit/worker/jobs/test_claimed.py",
                "tests/unit/worker/jobs/test_spans.py",
                "tests/unit/worker/test_suspects.py",
                "tests/unit/worker/jobs/test_executor.py",
                "tests/unit/worker/process/test_pool.py",
            ),
        ),
        Subject(
            path="worker/jobs/suspects.py",
            tests=("tests/unit/worker/test_suspects.py", "tests/unit/worker/jobs/test_executor.py"),
        ),
        Subject(path="worker/engine/aside.py", tests=("tests/unit/worker/engine/test_aside.py",)),
        Subject(path="worker/engine/faults.py", tests=_ENGINE),
        Subject(path="worker/engine/reopening.py", tests=_ENGINE),
        Subject(path="worker/engine/stats.py", tests=_ENGINE),
        Subject(
            path="worker/engine/prompts.py", tests=("tests/unit/worker/engine/test_prompts.py",)
        ),
        Subject(path="worker/engine/running_batch.py", tests=_ENGINE),
        Subject(
            path="worker/engine/slot.py",
            tests=(
                "tests/unit/worker/engine/test_slot.py",
                "tests/unit/worker/engine/test_slowdown.py",
                "tests/unit/test_approximation.py",
                *_ENGINE,
            ),
        ),
        Subject(
            path="worker/engine/engine.py",
            tests=(*_ENGINE, "tests/unit/worker/engine/test_idle_work.py"),
        ),
        Subject(
            path="worker/engine/row_caps.py",
            tests=("tests/unit/worker/engine/test_row_caps.py", *_ENGINE),
        ),
    ),
    "routing": (
        Subject(
            path="scheduler/routing/route.py",
            tests=(
                "tests/unit/scheduler/routing/test_route.py",
                "tests/unit/scheduler/placement/test_placer.py",
            ),
        ),
        Subject(
            path="scheduler/placement/placer.py",
            tests=(
                "tests/unit/scheduler/placement/test_placer.py",
                "tests/unit/scheduler/placement/test_admission.py",
                "tests/unit/scheduler/placement/test_overflow.py",
                "tests/unit/scheduler/demand/test_demand.py",
                "tests/unit/scheduler/demand/test_history.py",
                "tests/unit/scheduler/approximate_cache/test_retrieve.py",
            ),
        ),
        Subject(
            path="scheduler/placement/backlog.py",
            tests=(
                "tests/unit/scheduler/placement/test_backlog.py",
                "tests/unit/scheduler/placement/test_overflow.py",
                "tests/unit/scheduler/placement/test_admission.py",
                "tests/unit/scheduler/placement/test_placer.py",
                "tests/unit/test_approximation.py",
            ),
        ),
        Subject(
            path="scheduler/routing/stations.py",
            tests=(
                "tests/unit/scheduler/routing/test_stations.py",
                "tests/unit/scheduler/routing/test_holders.py",
                "tests/unit/scheduler/placement/test_overflow.py",
                "tests/unit/scheduler/placement/test_admission.py",
            ),
        ),
        Subject(
            path="scheduler/routing/holders.py",
            tests=(
                "tests/unit/scheduler/routing/test_holders.py",
                "tests/unit/scheduler/routing/test_stations.py",
            ),
        ),
        Subject(
            path="scheduler/routing/slo.py", tests=("tests/unit/scheduler/routing/test_slo.py",)
        ),
        Subject(
            path="scheduler/placement/overflow.py",
            tests=(
                "tests/unit/scheduler/placement/test_overflow.py",
                "tests/unit/scheduler/placement/test_admission.py",
            ),
        ),
    ),
    "allocation": (
        Subject(
            path="core/levels/approximation.py",
            tests=("tests/unit/core/test_levels.py", "tests/unit/test_approximation.py"),
        ),
        Subject(
            path="scheduler/allocation/pasm.py",
            tests=("tests/unit/scheduler/allocation/test_pasm.py",),
        ),
        Subject(
            path="scheduler/allocation/allocate.py",
            tests=("tests/unit/scheduler/allocation/test_allocate.py", *_POLICIES),
        ),
        Subject(
            path="scheduler/allocation/assign.py",
            tests=(
                "tests/unit/scheduler/allocation/test_assign.py",
                "tests/unit/scheduler/planning/test_decide.py",
            ),
        ),
        *(
            Subject(
                path=f"scheduler/planning/{name}.py",
                tests=(
                    "tests/unit/scheduler/planning/test_decide.py",
                    "tests/unit/scheduler/routing/test_model_turns.py",
                    "tests/unit/scheduler/allocation/test_level_limits.py",
                ),
            )
            for name in ("decide", "pose", "stranded")
        ),
    ),
    "masking": (
        Subject(path="catalog/masking/plan.py", tests=("tests/unit/catalog/masking/test_plan.py",)),
        Subject(path="worker/masking/reuse.py", tests=("tests/unit/worker/test_reuse.py",)),
        Subject(path="worker/masking/planner.py", tests=("tests/unit/worker/test_planner.py",)),
        Subject(
            path="worker/masking/blocks/rows.py",
            tests=(
                "tests/unit/worker/masking/blocks/test_rows.py",
                "tests/unit/worker/test_masking.py",
            ),
        ),
        Subject(
            path="worker/masking/quantised.py",
            tests=(
                "tests/unit/worker/masking/test_quantised.py",
                "tests/unit/worker/test_activations.py",
            ),
        ),
        Subject(
            path="worker/masking/recording.py",
            tests=(
                "tests/unit/worker/masking/test_recording.py",
                "tests/unit/worker/test_activations.py",
                "tests/unit/worker/masking/test_activation_prefetch.py",
            ),
        ),
    ),
}

_FREES = "it only frees memory: the store checks every report by its fence"
_ANY_TRUE = "it is read as yes or no"
_SLEEP = "it only says how long the engine sleeps between two looks"
_END = "it only matters to a process that ends without closing its engine"
_ORDER = "it is only looked up, and nobody reads its order"
_FLOATS = "two sums of measured seconds are never equal"
_PART = "a part in 2**32 of a slot"
_LAST_PLACE = "a slot is found just as well by who is looked at for the last place of its queue"
_ALONE = "a level that has no other beside it gets every job"
_GUESS = "of what leaves nothing out nobody reads how much it keeps"
_NEGATED = "all of a row are below zero then, and it is brought to a sum of one"
_ALIKE = "keys and values of a block are recorded together, and are as large"
_ONE_GROUP = "all who share a step are of one group"
_NO_CALL = "it is multiplied by how many calls there are"
_SAID = "the engine says it of every job"
_OPENED = "what is opened first makes it other than nothing, before anything is decoded"
_PAUSE = "it only says how long it is between two tries"
_FIRST = "what is there before is overwritten before anybody reads it"

#: Of a file: scope, and what was changed to what -> why no test can tell.
EQUIVALENT: Mapping[str, Mapping[tuple[str, str], str]] = {
    "storage/fakes/leases.py": {
        ("MemoryLeases._take", "job.fence + 1 -> job.fence + 2"): "any greater fence will do",
        (
            "MemoryLeases._take",
            "self.store.missing.pop(job.id, None) -> pass",
        ): "whatever ends a claim or takes it back forgets that as well",
        (
            "MemoryLeases._advance",
            "now - record.posted_at >= POST_PAUSE_S -> now - record.posted_at > POST_PAUSE_S",
        ): _FLOATS,
        ("MemoryLeases._renew", "self._drop(job_id, held[job_id]) -> pass"): _FREES,
        ("MemoryLeases.finish", "self._drop(job_id, fence) -> pass"): _FREES,
        ("MemoryLeases.release", "self._drop(job_id, fence) -> pass"): _FREES,
        ("MemoryLeases._drop", "del self._fences[job_id] -> pass"): _FREES,
    },
    "storage/redis/scripts/claim.lua": {
        (
            "swap",
            "local first = redis.call('ZRANGE', turns, 0, 1, 'WITHSCORES') -> "
            "local first = redis.call('ZRANGE', turns, 0, 2, 'WITHSCORES')",
        ): "nobody looks at the third",
        (
            "swap",
            "return id, record, first[1] == id and first[2] or nil, "
            "first[1] == id and not first[3] -> "
            "return id, record, first[1] == id and first[2] and nil, "
            "first[1] == id and not first[3]",
        ): "a turn that is not told is looked up",
        (
            "swap",
            "redis.call('LREM', list, -1, message_of(other.message, first, other.publication)) -> "
            "redis.call('LREM', list, 0, message_of(other.message, first, other.publication))",
        ): "a publication is on its list once",
        (
            "next_of",
            "local first = redis.call('ZRANGE', 'turns:' .. list, 0, 0)[1] -> "
            "local first = redis.call('ZRANGE', 'turns:' .. list, 0, 1)[1]",
        ): "nobody looks at the second",
        (
            "next_of",
            "first = redis.call('ZRANGE', 'turns:' .. list, 0, 0)[1] -> "
            "first = redis.call('ZRANGE', 'turns:' .. list, 0, 1)[1]",
        ): "nobody looks at the second",
    },
    "storage/redis/scripts/beat.lua": {
        (
            "script",
            "local KEEP_PREVIEW_S = 60 -> local KEEP_PREVIEW_S = 61",
        ): "a preview that is kept a second longer",
        (
            "is_until",
            "return time and tonumber(time) > now -> return time and tonumber(time) >= now",
        ): "whoever follows is told for a millisecond longer",
        ("script", "if #leases > 0 then -> if #leases > 1 then"): "there are two of each job",
        (
            "tell",
            "if is_posted(r) and told ~= r[6] and "
            "now - tonumber(r[10] or '0') >= tonumber(ARGV[3]) then -> "
            "if is_posted(r) and told ~= r[6] and "
            "now - tonumber(r[10] or '0') > tonumber(ARGV[3]) then",
        ): "a pause that is a millisecond longer",
    },
    "storage/redis/scripts/retry.lua": {("script", "'suspect', 1) -> 'suspect', 2)"): _ANY_TRUE},
    "storage/redis/scripts/reap.lua": {
        (
            "put_back",
            "redis.call('HSET', 'job:' .. id, 'suspect', 1) -> "
            "redis.call('HSET', 'job:' .. id, 'suspect', 2)",
        ): _ANY_TRUE,
    },
    "storage/redis/scripts/isolate.lua": {("script", "return 1 -> return 2"): _ANY_TRUE},
    "storage/redis/scripts/finish.lua": {("script", "return 1 -> return 2"): _ANY_TRUE},
    "worker/engine/faults.py": {
        ("_predicted_in_halves", "batch[0] -> batch[-1]"): _ONE_GROUP,
        ("_predict", "batch[0] -> batch[-1]"): _ONE_GROUP,
        ("_advance", "slots[0] -> slots[-1]"): _ONE_GROUP,
    },
    "worker/engine/prompts.py": {
        (
            "PromptEncoding.is_awaited",
            "unknown_s=0.0 -> unknown_s=-1.0",
        ): "either is waited for",
    },
    "worker/engine/aside.py": {
        ("SlicedDecoding.work", "slice_s <= opening_s -> slice_s < opening_s"): _FLOATS,
        ("SlicedDecoding.slice_s", "default=0.0 -> default=1.0"): _NO_CALL,
        ("SlicedDecoding.slice_s", "default=0.0 -> default=-1.0"): _NO_CALL,
        (
            "SlicedDecoding.slice_s",
            "usual.get(slot.ticket.runner.model.name, 0.0) -> "
            "usual.get(slot.ticket.runner.model.name, -1.0)",
        ): "no step takes less than no time",
    },
    "worker/engine/running_batch.py": {
        ("RunningBatch", "_opening_s: float = 0.0 -> _opening_s: float = 1.0"): _OPENED,
        ("RunningBatch", "_opening_s: float = 0.0 -> _opening_s: float = -1.0"): _OPENED,
        ("RunningBatch._step", "batch[0] -> batch[-1]"): _ONE_GROUP,
    },
    "scheduler/routing/route.py": {
        ("_alone", "{Level(model=model).name: 1.0} -> {Level(model=model).name: 0.0}"): _ALONE,
        ("_alone", "{Level(model=model).name: 1.0} -> {Level(model=model).name: 2.0}"): _ALONE,
        ("_Turns.take", "len(self._shares) == 1 -> len(self._shares) == 0"): _ALONE,
        ("_Turns.take", "self._placements[0] -> self._placements[-1]"): _ALONE,
        ("_Turns.take", "credit <= ROUNDING -> credit < ROUNDING"): _FLOATS,
    },
    "core/levels/approximation.py": {
        (
            "Approximation.steps_left",
            "round((steps - done) * self.share_of_steps, 6) -> "
            "round((steps - done) * self.share_of_steps, 7)",
        ): "either takes off what a product of floats is too large by",
        (
            "Approximation.steps_left",
            "round((steps - done) * self.share_of_steps, 6) -> "
            "round((steps - done) * self.share_of_steps, 5)",
        ): "either takes off what a product of floats is too large by",
        ("Exact", "kept_quality = 1.0 -> kept_quality = 2.0"): _GUESS,
        ("Exact", "kept_quality = 1.0 -> kept_quality = 0.0"): _GUESS,
    },
    "scheduler/allocation/pasm.py": {
        ("_sane", "{best.name: 1.0} -> {best.name: 2.0}"): "a row is brought to a sum of one",
        (
            "align",
            "sorted({level.model for level in instance.levels}) -> "
            "list({level.model for level in instance.levels})",
        ): _ORDER,
        (
            "_flows_by_demand",
            "levels.get(flow.level, 0.0) + flow.rate -> levels.get(flow.level, 0.0) - flow.rate",
        ): _NEGATED,
        ("_sane", "room[level.model] > ROOM -> room[level.model] >= ROOM"): _FLOATS,
        ("_able", "return () -> return None"): _ANY_TRUE,
        ("align", "rate=0.0 -> rate=1.0"): "the levels of a row do not depend on its rate",
        ("align", "rate=0.0 -> rate=-1.0"): "the levels of a row do not depend on its rate",
    },
    "scheduler/allocation/assign.py": {
        ("_match.can_place", "return False -> return None"): _ANY_TRUE,
        (
            "assign",
            "sorted({worker.device_type for worker in workers}) -> "
            "list({worker.device_type for worker in workers})",
        ): "no type takes workers of another",
    },
    "scheduler/planning/decide.py": {
        (
            "_affinity",
            "totals.get(demand.affinity, 0.0) + demand.rate -> "
            "totals.get(demand.affinity, 0.0) - demand.rate",
        ): _NEGATED,
        ("_by_type", "sorted(loads.items()) -> list(loads.items())"): _ORDER,
    },
    "scheduler/routing/stations.py": {
        (
            "Station.can_meet",
            "self.eta_s(work, ahead) <= self._promised_by(work, deadline_s) -> "
            "self.eta_s(work, ahead) < self._promised_by(work, deadline_s)",
        ): _FLOATS,
        (
            "Station._most_before",
            "self.slots // self.workers + 1 -> self.slots // self.workers + 2",
        ): "more than all slots are late, as was found just before",
        ("Station._most_before", "spare_s >= 0 -> spare_s > 0"): _FLOATS,
        ("Station._most_before", "most >= 0 -> most > 0"): _FLOATS,
        (
            "Station._most_before",
            "self._eta_s(work, each * self.workers) <= deadline_s -> "
            "self._eta_s(work, each * self.workers) < deadline_s",
        ): _FLOATS,
        (
            "Station._most_before",
            "self.slots // self.workers -> self.slots * self.workers",
        ): "more than all slots are late, as was found just before",
    },
    "scheduler/routing/holders.py": {
        ("Kind.__init__", "self.weight = 0 -> self.weight = 1"): _PART,
        ("Kind.__init__", "self.weight = 0 -> self.weight = -1"): _PART,
    },
    "scheduler/placement/backlog.py": {
        ("Before.has_slot", "self.left >= 0 -> self.left > 0"): _LAST_PLACE,
        ("Before.has_slot", "self.left >= 0 -> self.left >= 1"): _LAST_PLACE,
    },
    "scheduler/placement/overflow.py": {
        ("Overflow._best", "0.0 -> -1.0"): "no quality is below zero",
        (
            "Overflow._best",
            "(True, quality) -> (False, quality)",
        ): "a quality is above zero, and less than no delay is below",
    },
    "scheduler/placement/placer.py": {
        ("Placer._count", "asked.models[0] -> asked.models[-1]"): "there is one model",
        ("Placer._relieve", "late_s <= 0 -> late_s < 0"): _FLOATS,
    },
    "catalog/masking/plan.py": {
        (
            "split_ahead",
            "loaded >= computed -> loaded > computed",
        ): "where both are the same no part of a block is used",
    },
    "worker/masking/planner.py": {("Planner.times", "parts[0] -> parts[-1]"): _ALIKE},
    "worker/masking/quantised.py": {
        ("Quantised.to", "non_blocking=True -> non_blocking=False"): "the host waits, or does not",
        ("FlatStep.to", "non_blocking=True -> non_blocking=False"): "the host waits, or does not",
    },
    "worker/masking/recording.py": {
        ("StepFile.__init__", "buffering=0 -> buffering=-1"): "it reads as much, or more ahead",
        (
            "StepFile.__init__",
            "metadata.get(_SCHEMA, 1) -> metadata.get(_SCHEMA, 0)",
        ): "it is only asked whether it is too new",
    },
    "worker/masking/reuse.py": {
        ("Masking.open", "(0, 0) -> (-1, 0)"): "a mask is of one image and has one channel",
        ("Masking.open", "(0, 0) -> (0, -1)"): "a mask is of one image and has one channel",
    },
    "worker/jobs/suspects.py": {
        ("may_begin", "return False -> return None"): _ANY_TRUE,
        ("isolate", "return False -> return None"): _ANY_TRUE,
    },
    "worker/jobs/claimed.py": {
        ("Finisher.__init__", "daemon=True -> daemon=False"): _END,
        (
            "Finisher._write",
            "wait_random_exponential(0.05, max=1.0) -> wait_random_exponential(1.05, max=1.0)",
        ): _PAUSE,
        (
            "Finisher._write",
            "wait_random_exponential(0.05, max=1.0) -> wait_random_exponential(-0.95, max=1.0)",
        ): _PAUSE,
        ("Finisher._write", "max=1.0 -> max=2.0"): _PAUSE,
        ("Finisher._write", "max=1.0 -> max=0.0"): _PAUSE,
        ("Finisher._write", "return False -> return None"): _ANY_TRUE,
        ("ClaimedJob", "made_at: float = 0.0 -> made_at: float = 1.0"): _FIRST,
        ("ClaimedJob", "made_at: float = 0.0 -> made_at: float = -1.0"): _FIRST,
    },
    "worker/engine/batch.py": {
        ("NextBatch.choose", "len(fits) > 1 -> len(fits) > 0"): "one alone is chosen either way",
        ("NextBatch.choose", "len(fits) > 1 -> len(fits) >= 1"): "one alone is chosen either way",
        ("NextBatch.choose", "fits[0] -> fits[-1]"): _ONE_GROUP,
        ("NextBatch.note", "batch[0] -> batch[-1]"): _ONE_GROUP,
        ("denoising", "batch[0] -> batch[-1]"): _ONE_GROUP,
        ("NextBatch._rank", "alike[0] -> alike[-1]"): _ONE_GROUP,
        (
            "NextBatch.left_s",
            "left.get(job_id, 0.0) -> left.get(job_id, -1.0)",
        ): "no time is below zero",
        ("RowTimes.seconds", "error <= MAX_ERROR * middle -> error < MAX_ERROR * middle"): _FLOATS,
        ("Sharing._count", "0 -> -1"): "either is less than of any size that was taken",
        (
            "best_size",
            "cost <= least * (1 + MAX_ERROR) -> cost < least * (1 + MAX_ERROR)",
        ): _FLOATS,
        ("_rising", "(0.0, []) -> (-1.0, [])"): "no step takes less than no time",
    },
    "worker/engine/row_caps.py": {
        (
            "RowCaps.grow",
            "self.lowered[group] >= self.max_rows -> self.lowered[group] > self.max_rows",
        ): "a cap that equals the setting is none",
    },
    "worker/engine/slot.py": {
        ("Tickets.open", "return False -> return None"): _ANY_TRUE,
        (
            "Tickets.take_stopped",
            "self.stopping.clear() -> pass",
        ): "it only frees memory: a job ends once",
        ("JobImages", "device_s: float = 0.0 -> device_s: float = 1.0"): _SAID,
        ("JobImages", "device_s: float = 0.0 -> device_s: float = -1.0"): _SAID,
        ("Slot", "kept_step: int = 0 -> kept_step: int = 1"): _FIRST,
        ("Slot", "kept_step: int = 0 -> kept_step: int = -1"): _FIRST,
        ("Ticket", "denoised_at: float = 0.0 -> denoised_at: float = 1.0"): _FIRST,
        ("Ticket", "denoised_at: float = 0.0 -> denoised_at: float = -1.0"): _FIRST,
    },
    "worker/engine/engine.py": {
        ("Engine.stop", "self._notify() -> pass"): _SLEEP,
        ("Engine.start", "daemon=True -> daemon=False"): _END,
        (
            "Engine._pause",
            "not self._inbox and self._end is None -> not self._inbox or self._end is None",
        ): _SLEEP,
        (
            "Engine._pause",
            "not self._inbox and self._end is None -> not (not self._inbox and self._end is None)",
        ): _SLEEP,
        ("Engine._pause", "self._wake.wait(PAUSE_S) -> pass"): _SLEEP,
        ("Engine._pause", "not self._inbox -> self._inbox"): _SLEEP,
        ("Engine._pause", "self._end is None -> self._end is not None"): _SLEEP,
        (
            "Engine.step",
            "batch.running or batch.waiting -> batch.running and batch.waiting",
        ): _SLEEP,
        ("Engine.step", "self._pause() -> pass"): _SLEEP,
        ("Engine._notify", "self._wake.notify_all() -> pass"): _SLEEP,
    },
}
