"""Map allocation counts to named workers with the fewest model loads. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from core.boards.fleet import Worker


def assign(
    counts: Mapping[tuple[str, str], int],
    workers: Sequence[Worker],
    *,
    previous: Mapping[str, str],
    settling: Mapping[str, str],
) -> dict[str, str]:
    """Name a model for each worker with the fewest loads that the counts allow.

    Args:
        counts: (device type, model) -> workers that shall hold it.
        previous: worker -> model of the last plan, which it holds or is loading.
        settling: worker -> model that it must be left with.
    """
    assignments: dict[str, str] = {}
    for device_type in sorted({worker.device_type for worker in workers}):
        group = sorted((w for w in workers if w.device_type == device_type), key=lambda w: w.name)
        wanted = {m: count for (t, m), count in sorted(counts.items()) if t == device_type}
        assignments |= _assign_type(wanted, group, previous, settling)
    return assignments


def holdings(worker: Worker, previous: Mapping[str, str]) -> tuple[str, ...]:
    """List what a worker holds or is about to: the model of the last plan first."""
    model = planned(worker, previous)
    first = () if model is None else (model,)
    return (*first, *(name for name in worker.models if name != model))


def planned(worker: Worker, previous: Mapping[str, str]) -> str | None:
    """Name the model of the last plan, if a worker serves it or can load it."""
    model = previous.get(worker.name)
    return model if model is not None and can_hold(worker, model) else None


def can_hold(worker: Worker, model: str) -> bool:
    """Tell whether a worker serves a model, or can load it."""
    return model in worker.models or can_load(worker, model)


def can_load(worker: Worker, model: str) -> bool:
    """Tell whether a worker has a model and room for it, and has not failed to load it lately."""
    has_room = worker.needs_gib.get(model, 0.0) <= worker.memory_gib
    has_files = not worker.catalogue or model in worker.catalogue
    return has_room and has_files and model not in worker.refused


def _assign_type(
    wanted: dict[str, int],
    workers: Sequence[Worker],
    previous: Mapping[str, str],
    settling: Mapping[str, str],
) -> dict[str, str]:
    left = dict(wanted)
    fixed: dict[str, str] = {}
    for name in (worker.name for worker in workers):
        if left.get(model := settling.get(name, "")):
            left[model] -= 1
            fixed[name] = model
    free = [worker for worker in workers if worker.name not in fixed]
    kept = _match(left, {worker.name: holdings(worker, previous) for worker in free})
    for model in kept.values():
        left[model] -= 1
    loads = [model for model, count in left.items() for _ in range(count)]
    loaded = _loaded(loads, [worker for worker in free if worker.name not in kept])
    given = _exchanged(kept | loaded, free, wanted, previous)
    return dict(sorted((fixed | given).items()))


def _loaded(models: Sequence[str], workers: Sequence[Worker]) -> dict[str, str]:
    """Give each model to the first worker that can load it, or to any if none can."""
    given, left = {}, list(workers)
    for model in models[: len(left)]:
        worker = next((w for w in left if can_load(w, model)), left[0])
        left.remove(worker)
        given[worker.name] = model
    return given


def _exchanged(
    given: dict[str, str],
    workers: Sequence[Worker],
    wanted: Mapping[str, int],
    previous: Mapping[str, str],
) -> dict[str, str]:
    """Let workers change places where one is given what it can neither serve nor load.

    Who finds no place has a model beyond the counts; one that can have none stays as it is.
    """
    if all(can_hold(w, given[w.name]) for w in workers if w.name in given):
        return given
    most = sorted(wanted, key=lambda model: (-wanted[model], model))
    able: dict[str, tuple[str, ...]] = {}  # what each is given first, then what it has
    for worker in workers:
        own = [given[worker.name]] if worker.name in given else []
        near = (*own, *holdings(worker, previous), *most)
        able[worker.name] = tuple(model for model in near if can_hold(worker, model))
    # Who may stay comes first, so that it goes only where that makes room for somebody.
    order = sorted(able, key=lambda name: given.get(name) not in able[name])
    placed = _match(Counter(given.values()), {name: able[name] for name in order})
    return {name: (*able[name], model)[0] for name, model in given.items()} | placed


def _match(room: Mapping[str, int], held: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Match workers to models they hold, or can, as many as can be (augmenting paths)."""
    holders: dict[str, list[str]] = {model: [] for model, count in room.items() if count}

    def can_place(worker: str, tried: set[str]) -> bool:
        for model in held[worker]:
            if model in tried or model not in holders:
                continue
            tried.add(model)
            seats = holders[model]
            if len(seats) < room[model]:
                seats.append(worker)
                return True
            for i, other in enumerate(seats):
                if can_place(other, tried):
                    seats[i] = worker
                    return True
        return False

    for worker in held:
        can_place(worker, set())
    return {worker: model for model, seats in holders.items() for worker in seats}
