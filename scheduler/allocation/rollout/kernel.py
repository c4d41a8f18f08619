"""Compiled loop of the rollout: serve the jobs of one future, first come, first served. Pure.

Jobs come to a queue of each model; whichever worker of it is free first takes the next one. A job
that would be late where its row sends it goes to the best level in time, else to the one that is
done first, as `scheduler/placement/overflow` does it.
"""

import numpy as np

from scheduler.allocation.rollout.compiled import Floats, Ints, compiled, inlined
from scheduler.allocation.rollout.inputs import Changes, Levels, RolledFleet, RolledJobs, Served

NEVER = 1e18

#: Compiled code knows plain tuples alone: what it keeps on disk must be read by later versions.
#: By model: the worker that serves next, when, and how many share it then.
ModelQueues = tuple[Ints, Floats, Ints]
#: By model: who holds it, and how many do; by worker: the slot that is free first, and until when
#: it begins jobs of its model.
Holders = tuple[Ints, Ints, Ints, Floats]
#: Model of each level, seconds by level, device type and sharers, device type of each worker.
Times = tuple[Ints, Floats, Ints]
#: When a job comes, within how many seconds it was promised, and the caution.
Promise = tuple[float, float, float]


@inlined
def _first_free(free: Floats, worker: int) -> int:
    best = 0
    for slot in range(1, free.shape[1]):
        if free[worker, slot] < free[worker, best]:
            best = slot
    return best


@inlined
def _busy(free: Floats, worker: int, now: float) -> int:
    busy = 0
    for slot in range(free.shape[1]):
        busy += now < free[worker, slot] < NEVER
    return busy


@compiled
def _slots(free: Floats, models: Ints, model: int, but: int) -> int:
    """Count the slots of the workers that hold a model, but one."""
    slots = 0
    for worker in range(len(models)):
        if models[worker] == model and worker != but:
            slots += _busy(free, worker, -1.0)
    return slots


@compiled
def _delay(free: Floats, worker: int, now: float, seconds: float) -> None:
    for slot in range(free.shape[1]):
        if free[worker, slot] < NEVER:
            free[worker, slot] = max(free[worker, slot], now) + seconds


@compiled
def _cut(free: Floats, worker: int, until: float) -> float:
    """Take off a worker what it has not begun; say how many seconds that is."""
    left = 0.0
    for slot in range(free.shape[1]):
        if until < free[worker, slot] < NEVER:
            left += free[worker, slot] - until
            free[worker, slot] = until
    return left


@compiled
def _change(
    free: Floats, models: Ints, worker: int, successor: int, now: float, rest: float
) -> None:
    """Take a worker off its model: what waits there goes to the others that hold the model.

    If nobody does, it goes to those that hold what the worker does next, or waits for it.
    """
    old = models[worker]
    models[worker] = successor
    left = _cut(free, worker, now + rest) if old >= 0 else 0.0
    if left <= 0:
        return
    for model in (old, successor):
        slots = _slots(free, models, model, worker) if model >= 0 else 0
        if slots:
            for other in range(len(models)):
                if models[other] == model and other != worker:
                    _delay(free, other, now, left / slots)
            return
    _delay(free, worker, now, left / max(1, _busy(free, worker, -1.0)))


@compiled
def _join(free: Floats, models: Ints, worker: int, now: float, rest: float) -> None:
    """Let a worker that has come to a model take its part of what waits there.

    They are served in order, so whoever comes later waits for those who came before, at this worker
    as well.
    """
    model, left = models[worker], 0.0
    for other in range(len(models)):
        if models[other] == model and other != worker:
            left += _cut(free, other, now + rest)
    if left > 0:
        slots = _slots(free, models, model, -1)
        for other in range(len(models)):
            if models[other] == model:
                _delay(free, other, now, left / slots)


@compiled
def _longest_s(times: Times, model: int, worker: int) -> float:
    """Say how long a job takes a worker at most: what is beyond that it has not begun."""
    level_model, seconds, kinds = times
    longest = 0.0
    for level in range(len(level_model)):
        if level_model[level] == model:
            longest = max(longest, seconds[level, kinds[worker], -1])
    return longest


@compiled
def _hold(free: Floats, models: Ints, holders: Holders) -> None:
    """Note who holds what."""
    workers, counts, first, _ = holders
    counts[:] = 0
    for worker in range(len(models)):
        first[worker] = _first_free(free, worker)
        model = models[worker]
        if model >= 0:
            workers[model, counts[model]] = worker
            counts[model] += 1


@compiled
def _leave(
    leaves_s: Floats, claims_s: Floats, changes: tuple[Floats, Ints, Ints], done: int
) -> None:
    """Note until when each worker begins jobs of its model: those that it has claimed by then."""
    at_s, workers, _ = changes
    leaves_s[:] = NEVER
    for i in range(len(at_s) - 1, done - 1, -1):
        leaves_s[workers[i]] = at_s[i] + claims_s[workers[i]]


@inlined
def _look(model: int, free: Floats, now: float, holders: Holders, queues: ModelQueues) -> None:
    """Find the worker of a model that serves next; if several do, the one that fewest share.

    Who will have another model by then does not, unless all have.
    """
    workers, counts, first, leaves_s = holders
    serves, starts_s, beside = queues
    serves[model], least = -1, 2 * NEVER
    for i in range(counts[model]):
        worker = workers[model, i]
        start = max(now, free[worker, first[worker]])
        rank = start if start < leaves_s[worker] else start + NEVER
        if rank > least:
            continue
        busy = _busy(free, worker, start)
        if rank < least or busy < beside[model]:
            serves[model], starts_s[model], beside[model], least = worker, start, busy, rank
        if rank == now and busy == 0:
            return  # nobody is free sooner, or less shared


@inlined
def _turn(row: Floats, turn: float, level_model: Ints, counts: Ints) -> int:
    """Take the level of a row at which a turn in [0, 1) falls, of those that workers hold."""
    whole, chosen = 0.0, -1
    for level in range(len(row)):
        if counts[level_model[level]]:
            whole += row[level]
    left = turn * whole
    for level in range(len(row)):
        if row[level] > 0 and counts[level_model[level]]:
            chosen = level
            left -= row[level]
            if left < 0:
                break
    return chosen


@inlined
def _takes_s(times: Times, queues: ModelQueues, level: int) -> float:
    level_model, seconds, kinds = times
    serves, _, beside = queues
    model = level_model[level]
    return float(seconds[level, kinds[serves[model]], beside[model]])


@inlined
def _late_s(times: Times, queues: ModelQueues, level: int, promise: Promise) -> float:
    """Seconds by which a job would be too late, with room for what others may cost it."""
    now, within, caution = promise
    own = _takes_s(times, queues, level)
    by = (within + caution * own) / (1.0 + caution)
    return float(queues[1][times[0][level]] - now + own - by)


@inlined
def _relieved(
    times: Times,
    free: Floats,
    holders: Holders,
    queues: ModelQueues,
    quality: Floats,
    level: int,
    promise: Promise,
) -> int:
    """Keep a level in time; else find the best that is, else the one that is least late."""
    least, counts = NEVER, holders[1]
    if level >= 0:
        _look(times[0][level], free, promise[0], holders, queues)
        least = _late_s(times, queues, level, promise)
        if least <= 0:
            return level
    for model in range(len(counts)):
        if counts[model] and (level < 0 or model != times[0][level]):
            _look(model, free, promise[0], holders, queues)
    highest = -1.0
    for other in range(len(quality)):
        if not counts[times[0][other]] or quality[other] < 0:
            continue
        late = _late_s(times, queues, other, promise)
        if late <= 0 and quality[other] > highest:
            highest, level = quality[other], other
        elif highest < 0 and late < least:
            least, level = late, other
    return level


@compiled
def _behind_s(free: Floats, until_s: float) -> Floats:
    """Say for how long each worker has jobs after a moment."""
    left = np.zeros(len(free))
    for worker in range(len(free)):
        left[worker] = max(0.0, free[worker, _first_free(free, worker)] - until_s)
    return left


@compiled
def _pass_to(
    now: float,
    done: int,
    free: Floats,
    models: Ints,
    claims_s: Floats,
    changes: tuple[Floats, Ints, Ints],
    times: Times,
) -> int:
    """Make the changes that are due; count all that were made so far."""
    at_s, workers, successors = changes
    while done < len(at_s) and at_s[done] <= now:
        worker = workers[done]
        rest = claims_s[worker] + _longest_s(times, models[worker], worker)
        _change(free, models, worker, successors[done], at_s[done], rest)
        if successors[done] >= 0:
            rest = _longest_s(times, successors[done], worker)
            _join(free, models, worker, at_s[done], rest)
        done += 1
    return done


@compiled
def _nobody(models: int, workers: int) -> tuple[ModelQueues, Holders]:
    """Make room for who serves each model next, and for who holds it."""
    queues = (np.empty(models, np.int64), np.empty(models), np.empty(models, np.int64))
    counts, first = np.zeros(models, np.int64), np.empty(workers, np.int64)
    holders = (np.empty((models, workers), np.int64), counts, first, np.full(workers, NEVER))
    return queues, holders


@inlined
def _phase(now: float, settled_s: float, soon_s: float) -> int:
    """Say which rows are in force."""
    if now < settled_s:
        return 0
    return 1 if now < soon_s else 2


@compiled
def _roll(
    levels: tuple[Ints, Floats, Floats, float],
    fleet: tuple[Ints, Ints, Floats, Floats],
    changes: tuple[Floats, Ints, Ints],
    jobs: tuple[Floats, Floats, Floats, Floats, Floats, Floats, Ints, Ints, Ints],
    rows: Floats,
    settled_s: float,
    ends_s: tuple[float, float],
) -> tuple[float, Floats, float, float]:
    level_model, seconds, quality, caution = levels
    kinds, models_now, free_now, claims_s = fleet
    at_s, age_s, promised_s, bears_s, weight, turns, classes, given, cells = jobs
    free, models, done = free_now.copy(), models_now.copy(), 0
    earned, soon, soon_jobs = 0.0, 0.0, 0.0
    queues, holders = _nobody(level_model.max() + 1, len(models))
    _, counts, first, leaves_s = holders
    times = (level_model, seconds, kinds)
    _leave(leaves_s, claims_s, changes, 0)
    _hold(free, models, holders)
    for job in range(len(at_s)):
        now, c, level = at_s[job], classes[job], given[job]
        if done < len(changes[0]) and changes[0][done] <= now:
            done = _pass_to(now, done, free, models, claims_s, changes, times)
            _leave(leaves_s, claims_s, changes, done)
            _hold(free, models, holders)
        promise = (now, promised_s[job] - age_s[job], caution)
        if level >= 0 and counts[level_model[level]]:
            _look(level_model[level], free, now, holders, queues)
        else:  # not in a function of its own: that counts the arrays of each job once more
            row = rows[_phase(now, settled_s, ends_s[0]), cells[job], c]
            level = _turn(row, turns[job], level_model, counts) if level < 0 else -1
            level = _relieved(times, free, holders, queues, quality[c], level, promise)
        if level < 0:
            continue
        model = level_model[level]
        worker = queues[0][model]
        ends = queues[1][model] + _takes_s(times, queues, level)
        free[worker, first[worker]] = ends
        first[worker] = _first_free(free, worker)
        worth = weight[job] * max(0.0, quality[c, level])
        if ends - now <= bears_s[job] - age_s[job]:
            earned += worth
        if now < ends_s[0] and given[job] < 0:
            soon += worth
            soon_jobs += weight[job]
    return earned, _behind_s(free, ends_s[1]), soon, soon_jobs


def roll(
    levels: Levels,
    fleet: RolledFleet,
    changes: Changes,
    jobs: RolledJobs,
    rows: Floats,
    settled_s: float,
    ends_s: tuple[float, float],
) -> Served:
    """Serve one future.

    Args:
        rows: before `settled_s`, then while it is soon, and later; by forecast, class and level.
        ends_s: of what is soon, and of the future.
    Shapes: rows [3, B, C, L]
    """
    return Served(*_roll(levels[:], fleet[:], changes[:], jobs[:], rows, settled_s, ends_s))
