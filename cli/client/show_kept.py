"""Format what a tenant keeps for the terminal; ids are to be copied, so never cut."""

from collections.abc import Iterable

from atelier_client.types.kept import (
    Application,
    ControlNet,
    Embedding,
    IpAdapter,
    Lora,
    Upload,
)
from cli.client.show import moment, one_line
from cli.client.tables import TableColumn, print_table


def show_pictures(pictures: Iterable[Upload]) -> None:
    """Print a table of pictures."""
    rows = [(p.id, f"{p.width} x {p.height}", moment(p.created_at)) for p in pictures]
    print_table(("id", "pixels", "created"), rows)


def show_controlnets(controlnets: Iterable[ControlNet]) -> None:
    """Print a table of ControlNets."""
    rows = [
        (each.id, ", ".join(each.models), one_line(each.condition), _mebibytes(each.bytes))
        for each in controlnets
    ]
    print_table(("id", "models", TableColumn(name="its pictures show", is_cut=True), "MiB"), rows)


def show_ip_adapters(adapters: Iterable[IpAdapter]) -> None:
    """Print a table of IP-Adapters."""
    print_table(("id", "models"), [(each.id, ", ".join(each.models)) for each in adapters])


def show_loras(loras: Iterable[Lora]) -> None:
    """Print a table of LoRAs."""
    rows = [
        (
            lora.id,
            " ".join(lora.models),
            "" if lora.bound is None else str(lora.bound),
            _mebibytes(lora.bytes),
            moment(lora.created_at),
        )
        for lora in loras
    ]
    print_table(("id", "models", "bound", "MiB", "created"), rows)


def show_embeddings(embeddings: Iterable[Embedding]) -> None:
    """Print a table of learned embeddings."""
    rows = [
        (e.id, one_line(e.token), str(e.vectors), " ".join(e.models), moment(e.created_at))
        for e in embeddings
    ]
    print_table(("id", "word", "vectors", "models", "created"), rows)


def show_applications(applications: Iterable[Application]) -> None:
    """Print a table of applications."""
    rows = [
        (
            each.name,
            "3 x best" if each.slo_s is None else f"{each.slo_s:g}",
            f"{each.quality_floor:g}",
            " ".join(each.models),
        )
        for each in applications
    ]
    print_table(("name", "seconds", "quality", "models"), rows)


def _mebibytes(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:.1f}"
