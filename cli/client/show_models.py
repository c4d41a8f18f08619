"""Format models for the terminal: a table of all, or all of one."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from atelier_client.types.service import Model, Sizes
from catalog.models import ReadModel
from cli.client.show import out
from cli.client.tables import print_table

UNKNOWN = "unknown: it makes images for who names it"
#: What a service says of a model that no folder does.
OF_WORKERS = {"is_resident", "is_loadable", "untried_on"}


def show_models(models: Sequence[Model]) -> None:
    """Print a table of models and their limits."""
    rows = [
        (
            model.id,
            model.family,
            "yes" if model.is_resident else "no",
            _pixels(model.sizes),
            f"{model.steps.default} (up to {model.steps.max})",
            "unknown" if model.quality is None else f"{model.quality:g}",
            " ".join(model.levels),
        )
        for model in models
    ]
    print_table(("model", "family", "resident", "pixels", "steps", "quality", "levels"), rows)


def _pixels(sizes: Sizes) -> str:
    return f"{sizes.default} ({sizes.min} to {sizes.max} by {sizes.multiple})"


def show_model(model: Model) -> None:
    """Print all that the service says of one model."""
    sizes, steps, weights = model.sizes, model.steps, model.weights
    rows = [
        ("model", model.id),
        ("family", model.family),
        ("pixels", f"{sizes.default}, from {sizes.min} to {sizes.max} by {sizes.multiple}"),
        ("steps", f"{steps.default}, up to {steps.max}"),
        ("guidance", f"{model.default_guidance:g}"),
        ("prompt", f"up to {model.max_prompt_tokens} tokens"),
        ("quality", UNKNOWN if model.quality is None else f"{model.quality:g}"),
        ("memory", f"{model.size_gib:.2f} GiB"),
        ("worker", _worker(model)),
    ]
    if weights is not None:
        stored = ", ".join(weights.dtypes)
        variant = f", variant {weights.variant}" if weights.variant else ""
        rows += [
            ("pipeline", weights.pipeline),
            (
                "weights",
                f"{weights.parameters:,} numbers, {stored}, {weights.files} files{variant}",
            ),
            ("sampler", weights.scheduler),
            ("distilled", weights.distilled or "no"),
        ]
    _print(rows)


def show_read(found: ReadModel, *, is_planned: bool, folder: Path) -> None:
    """Print what a folder is, or would be, served as from this machine's models folder."""
    model, described = found.model, found.description
    rows = [
        ("model", model.name),
        ("family", model.family),
        ("pixels", f"{model.default_size}, from {model.min_size} to {model.max_size}"),
        ("steps", f"{model.default_steps}, up to {model.max_steps}"),
        ("guidance", f"{model.default_guidance:g}"),
        ("memory", f"{model.size_gib:.2f} GiB"),
        ("distilled", (described and described.distilled) or "no"),
        ("served", "no, this was a dry run" if is_planned else f"from {folder}"),
    ]
    _print(rows)


def json_of(found: ReadModel) -> str:
    """Encode what a folder is served as, as a service does, but for what its workers know."""
    from api.views.model_view import model_view  # other commands would wait for it

    view = model_view(found.model, found.description, resident=set(), planned=set(), untried_on=[])
    return view.model_dump_json(exclude=OF_WORKERS)


def json_of_removed(name: str) -> str:
    """Encode that a model is served no more, as a service does."""
    from api.views.model_view import ModelGone

    return ModelGone(id=name).model_dump_json()


def _worker(model: Model) -> str:
    if model.is_resident:
        return "holds it"
    return "can load it" if model.is_loadable else "none has noticed it, or has room for it, yet"


def _print(rows: Iterable[tuple[str, str]]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in rows:
        table.add_row(name, Text(value))
    out().print(table, highlight=False)
