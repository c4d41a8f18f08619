"""Render a report as one HTML page that needs nothing but itself.

Charts are drawn in the browser by uPlot (MIT; `vendor/`), which is a fiftieth of what larger
libraries weigh; shares and tables are HTML, read by machines and people alike.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template

import msgspec

from reporting.chart import Chart, Shares, is_empty
from reporting.document import Block, Chapter, Document, KeyFigure
from reporting.palette import style
from reporting.table import Cell, Column, Interval, Row, Table, best_of, reach
from reporting.unit import NOTHING, SHARE, Unit

SMALLEST_LABEL = 0.09  #: of a bar, that its text fits into


def render(document: Document) -> str:
    """Write the page."""
    charts = document.charts
    bodies = "\n".join(_chapter(each, charts) for each in document.chapters)
    return Template(_part("page.html")).substitute(
        title=escape(document.title),
        answer=escape(document.answer),
        tone=document.tone,
        warnings="\n".join(f'<p class="warning">{escape(each)}</p>' for each in document.warnings),
        keys=_keys(document.keys),
        chapters=bodies,
        run=_run(document.run),
        notes=_notes(document.notes),
        style=style() + _part("vendor/uPlot.min.css") + _part("page.css"),
        library=_part("vendor/uPlot.iife.min.js"),
        script=_part("page.js"),
        data=_embedded([_drawn(chart) for chart in charts]),
    )


def _part(name: str) -> str:
    return files("reporting").joinpath(name).read_text(encoding="utf-8")


def _embedded(data: object) -> str:
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def _keys(keys: Sequence[KeyFigure]) -> str:
    cells = (
        f'<div class="{each.tone}"><dt>{escape(each.title)}</dt><dd>{escape(each.figure)}'
        f"<small>{escape(each.about)}</small></dd></div>"
        for each in keys
    )
    return f'<dl class="keys">{"".join(cells)}</dl>' if keys else ""


def _run(run: Mapping[str, object]) -> str:
    said = {name: _said(value) for name, value in run.items()}
    cells = (
        f"<div><dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(text)}</dd></div>"
        for name, text in said.items()
        if text
    )
    return f'<h2>What was run</h2><dl class="run">{"".join(cells)}</dl>' if run else ""


def _said(value: object) -> str:
    """Write a value for people; nothing for what was left open."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else str(value)


def _notes(notes: Mapping[str, str]) -> str:
    cells = (f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in notes.items())
    return f'<h2>Words</h2><dl class="notes">{"".join(cells)}</dl>' if notes else ""


def _chapter(chapter: Chapter, charts: Sequence[Chart]) -> str:
    parts = []
    for is_chart, blocks in groupby(chapter.blocks, key=lambda block: isinstance(block, Chart)):
        made = "".join(_block(block, charts) for block in blocks)
        parts.append(f'<div class="charts">{made}</div>' if is_chart else made)
    about = _about(chapter.about)
    return f"<section><h2>{escape(chapter.title)}</h2>{about}{''.join(parts)}</section>"


def _about(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def _block(block: Block, charts: Sequence[Chart]) -> str:
    if isinstance(block, Chart):
        return _chart(block, charts.index(block))
    return _shares(block) if isinstance(block, Shares) else _table(block)


def _chart(chart: Chart, index: int) -> str:
    body = f'<div class="plot" data-chart="{index}"></div>'
    if is_empty(chart):
        body = '<p class="nothing">nothing to show</p>'
    return (
        f"<figure><figcaption><h3>{escape(chart.title)}</h3>{_about(chart.about)}</figcaption>"
        f"{body}</figure>"
    )


def _drawn(chart: Chart) -> Mapping[str, object]:
    """Say a chart in the words of the page's script."""
    return {
        "title": chart.title,
        "x": [_short(value) for value in chart.x],
        "xUnit": chart.x_unit and _unit(chart.x_unit),
        "unit": _unit(chart.unit),
        "stacked": chart.is_stacked,
        "low": chart.low,
        "high": chart.high,
        "marks": [{"at": m.at, "text": m.text, "upright": m.is_upright} for m in chart.marks],
        "curves": [
            {
                "name": each.name,
                "paint": each.paint,
                "shape": each.shape.value,
                "values": [None if v is None else _short(v) for v in each.values],
            }
            for each in chart.curves
        ],
    }


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if value == value else None


def _unit(unit: Unit) -> Mapping[str, object]:
    return {
        "name": unit.name,
        "scale": unit.scale,
        "digits": unit.digits,
        "prefix": unit.prefix,
        "suffix": unit.suffix,
    }


def _shares(shares: Shares) -> str:
    legend = "".join(
        f"<li><i style='background:var(--{paint})'></i>{escape(part)}</li>"
        for part, paint in shares.parts.items()
    )
    rows = "".join(_share_row(name, parts, shares.parts) for name, parts in shares.rows.items())
    return (
        f'<figure class="shares"><figcaption><h3>{escape(shares.title)}</h3>'
        f"{_about(shares.about)}</figcaption><ul class='legend'>{legend}</ul>"
        f'<div class="bars">{rows}</div></figure>'
    )


def _share_row(name: str, parts: Mapping[str, float], paints: Mapping[str, str]) -> str:
    present = [(part, parts.get(part, 0.0)) for part in paints if parts.get(part, 0.0) > 0]
    spoken = ", ".join(f"{part} {SHARE.write(share)}" for part, share in present)
    bars = "".join(
        f"<span style='flex:{share:.5f};--paint:var(--{paints[part]})' "
        f"data-tip='{escape(part)}: {SHARE.write(share)}'>"
        f"{_inside(share)}</span>"
        for part, share in present
    )
    return (
        f'<div class="row"><span>{escape(name)}</span>'
        f'<div class="bar" role="img" tabindex="0" aria-label="{escape(name)}: {escape(spoken)}">'
        f"{bars}</div></div>"
    )


def _inside(share: float) -> str:
    return f"<b>{share:.0%}</b>" if share >= SMALLEST_LABEL else ""


def _table(table: Table) -> str:
    heads = "".join(_head(column) for column in table.columns)
    rows = "".join(_row(row, table) for row in table.rows)
    return (
        f'<figure class="table"><figcaption><h3>{escape(table.title)}</h3>{_about(table.about)}'
        f'</figcaption><div class="wide" role="region" tabindex="0" '
        f'aria-label="{escape(table.title)}"><table><thead><tr>'
        f'<th scope="col">{escape(table.head)}</th>{heads}</tr></thead><tbody>{rows}</tbody>'
        "</table></div></figure>"
    )


def _head(column: Column) -> str:
    about = f"<small>{escape(column.about)}</small>" if column.about else ""
    return f'<th scope="col"{_kind(column)}>{escape(column.title)}{about}</th>'


def _kind(column: Column) -> str:
    if column.unit is None:
        return ' class="text"'
    return ' class="drawn"' if column.has_bar or column.bound is not None else ""


def _row(row: Row, table: Table) -> str:
    swatch = f"<i style='background:var(--{row.paint})'></i>" if row.paint else ""
    cells = "".join(map(partial(_cell, table=table), row.cells, range(len(row.cells))))
    return f'<tr class="{row.tone}"><th scope="row">{swatch}{escape(row.name)}</th>{cells}</tr>'


def _cell(cell: Cell, index: int, table: Table) -> str:
    column = table.columns[index]
    if isinstance(cell, str) or column.unit is None:
        return f"<td{_kind(column)}>{escape(str(cell) if cell is not None else NOTHING)}</td>"
    ends = reach(table, index)
    if isinstance(cell, Interval):
        return f'<td class="drawn">{_interval(cell, column, column.unit, ends)}</td>'
    text = column.unit.write(cell)
    if cell is not None and cell == best_of(table, index):
        text = f"<b>{text}</b>"
    if not column.has_bar or cell is None:
        return f"<td{_kind(column)}>{text}</td>"
    bar = f'<i style="width:{_part_of(cell, ends):.1%}"></i>'
    return f'<td class="bar drawn">{bar}<span>{text}</span></td>'


def _interval(cell: Interval, column: Column, unit: Unit, ends: tuple[float, float]) -> str:
    places: dict[str, float] = {
        "low": _part_of(cell.low, ends),
        "middle": _part_of(cell.middle, ends),
        "high": _part_of(cell.high, ends),
    }
    if column.bound is not None:
        places["bound"] = _part_of(column.bound, ends)
    marked = "".join(f"--{name}:{place:.4f};" for name, place in places.items())
    ends_text = f"<small>{unit.write(cell.low)} to {unit.write(cell.high)}</small>"
    return (
        f'<span class="interval" style="{marked}"><i></i></span><span>{unit.write(cell.middle)}'
        f"{ends_text if cell.low < cell.high else ''}</span>"
    )


def _part_of(figure: float, ends: tuple[float, float]) -> float:
    low, high = ends
    return min(1.0, max(0.0, (figure - low) / (high - low))) if high > low else 0.0
