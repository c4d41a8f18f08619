"""Read what a person says of a world: fleets, outages, stalls, profiles with their models."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from core.errors import ConfigurationError
from core.model import Model
from scheduler.approximate_cache.strategy import PROBED, Dependency
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import Measured, read_measured
from simulator.world import Outage, Stall

#: The profile and the prompts that ship, taken from papers.
EXAMPLE = Path(__file__).parent / "examples" / "sdxl.json"
EXAMPLE_PROMPTS = Path(__file__).parent / "examples" / "sdxl-prompts.jsonl"
#: Most workers of a fleet, and most bytes of a profile.
MAX_WORKERS, MAX_PROFILE = 100_000, 64 * 2**20
GUIDANCE = 5.0  #: of a model of which nothing else is said


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevices:
    """A profile with the models that it is of."""

    profile: Profile
    memory_gib: Mapping[str, float]  #: by device type; missing: nobody said

    @property
    def types(self) -> tuple[str, ...]:
        """The device types that something was measured on."""
        measured = self.profile.measured
        return tuple(sorted(measured.steps.keys() | measured.tau.keys()))


class _Described(msgspec.Struct):
    """What a profile file may hold beside what was measured: models that nobody has on disk."""

    models: dict[str, Model] = {}
    memory_gib: dict[str, float] = {}


def parse_fleet(text: str) -> dict[str, int]:
    """Read a fleet: `a100=8,l40s=4`.

    Raises:
        ConfigurationError: it is none; the message names the part.
    """
    fleet: dict[str, int] = {}
    for part in text.split(","):
        name, equals, count = (each.strip() for each in part.rpartition("="))
        if not (name and equals and count.isascii() and count.isdecimal()):
            raise ConfigurationError(f"fleet: {part[:80]!r} is not TYPE=COUNT, such as a100=8")
        if name in fleet:
            raise ConfigurationError(f"fleet: {name[:80]!r} is there twice")
        fleet[name] = int(count[:9])
        if not fleet[name] > 0 or sum(fleet.values()) > MAX_WORKERS or len(count) > 9:
            what = f"{name[:80]}: {count[:20]} workers"
            raise ConfigurationError(f"fleet: {what}; 1 to {MAX_WORKERS} in all can be simulated")
    return fleet


def parse_outage(text: str, workers: int) -> Outage:
    """Read an outage of a fleet of so many workers: `FROM:TO:COUNT`, seconds.

    Raises:
        ConfigurationError: it is none.
    """
    begin, end, count = _parts("fail", text, "FROM:TO:COUNT, such as 60:360:4")
    begin_s, end_s = _stretch("fail", text, begin, end)
    if not (count.isascii() and count.isdecimal() and 0 < int(count[:9]) <= workers):
        raise ConfigurationError(f"fail: {text[:80]!r}: COUNT must be 1 to {workers}, the fleet")
    return Outage(begin_s=begin_s, end_s=end_s, workers=int(count))


def parse_stall(text: str) -> Stall:
    """Read a stall: `index:FROM:TO` or `store:FROM:TO`, seconds.

    Raises:
        ConfigurationError: it is none.
    """
    whom, begin, end = _parts("stall", text, "WHOM:FROM:TO, such as index:60:120")
    if whom not in {each.value for each in PROBED}:
        raise ConfigurationError(f"stall: {whom[:80]!r} is neither 'index' nor 'store'")
    begin_s, end_s = _stretch("stall", text, begin, end)
    return Stall(begin_s=begin_s, end_s=end_s, whom=Dependency(whom))


def read_devices(path: Path, catalogue: Mapping[str, Model] | None = None) -> KnownDevices:
    """Read a profile, and describe its models: as it says, as a catalogue does, or by what it took.

    Raises:
        ConfigurationError: it is none, or says nothing of a model; the message names the field.
    """
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_PROFILE:
            raise ConfigurationError(f"profile: {path}: more than {MAX_PROFILE >> 20} MiB")
        described = msgspec.json.decode(raw, type=_Described)
    except OSError as error:
        raise ConfigurationError(f"profile: {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"profile: {path}: {error}") from error
    measured = read_measured(path)
    for name, model in described.models.items():
        _check_model(path, name, model)
    known = {**(catalogue or {}), **described.models}
    models = {name: known.get(name) or _guessed(path, name, measured) for name in _names(measured)}
    if not models:
        raise ConfigurationError(f"profile: {path}: it has neither steps nor tau of any model")
    if bad := sorted(t for t, gib in described.memory_gib.items() if not 0 < gib < math.inf):
        raise ConfigurationError(f"profile: {path}: memory_gib.{bad[0]} must be above 0")
    profile = Profile(models=models, measured=measured)
    return KnownDevices(profile=profile, memory_gib=described.memory_gib)


def check_types(types: Collection[str], known: KnownDevices, *, option: str = "fleet") -> None:
    """Refuse device types that a profile does not know.

    Raises:
        ConfigurationError: naming the type, and those that it knows.
    """
    if unknown := sorted(set(types) - set(known.types)):
        have = ", ".join(known.types)
        raise ConfigurationError(
            f"{option}: the profile knows no {unknown[0][:80]!r}; it has {have}"
        )


def _parts(option: str, text: str, form: str) -> tuple[str, str, str]:
    parts = text.split(":")
    if len(parts) != 3:
        raise ConfigurationError(f"{option}: {text[:80]!r} is not {form}")
    return (parts[0].strip(), parts[1].strip(), parts[2].strip())


def _stretch(option: str, text: str, begin: str, end: str) -> tuple[float, float]:
    try:
        begin_s, end_s = float(begin), float(end)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {text[:80]!r}: FROM and TO are seconds") from error
    if not 0 <= begin_s < end_s < math.inf:
        raise ConfigurationError(
            f"{option}: {text[:80]!r}: FROM must lie before TO, both from 0 on"
        )
    return begin_s, end_s


def _names(measured: Measured) -> list[str]:
    """List the models of which times were measured."""
    timed = {name for row in measured.steps.values() for name in row}
    levels = {level for row in measured.tau.values() for level in row}
    return sorted(timed | {level.rpartition("@")[0] for level in levels})


def _check_model(path: Path, name: str, model: Model) -> None:
    """Refuse a description that cannot be of a model."""
    if model.name != name:
        raise ConfigurationError(f"profile: {path}: models.{name}: its name is {model.name!r}")
    positive = {
        "default_steps": model.default_steps,
        "default_size": model.default_size,
        "size_gib": model.size_gib,
        "load_s": model.load_s,
        "step_s": model.step_s,
    }
    for field_name, value in positive.items():
        if not 0 < value < math.inf:
            raise ConfigurationError(f"profile: {path}: models.{name}.{field_name}: {value}")


def _guessed(path: Path, name: str, measured: Measured) -> Model:
    """Describe a model by what was measured of it: as many steps as its time has room for."""
    for kind, row in sorted(measured.steps.items()):
        guidance = measured.about.guidance.get(name, GUIDANCE)
        alone = [t for t in row.get(name, ()) if t.images == 1 and t.is_guided == (guidance > 1)]
        whole_s = measured.tau.get(kind, {}).get(f"{name}@0")
        if alone and whole_s is not None:
            fixed_s = measured.fixed.get(kind, {}).get(name, 0.0)
            steps = max(1, round((whole_s - fixed_s) / alone[0].seconds))
            return Model(
                name=name,
                family="sdxl",
                default_steps=steps,
                default_guidance=guidance,
                size_gib=measured.size.get(name, 0.1),
            )
    raise ConfigurationError(
        f"profile: {path}: nothing says how many steps {name!r} takes: models.{name} is missing"
    )
