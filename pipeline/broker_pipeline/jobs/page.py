"""The report as one HTML page: nothing is loaded from elsewhere, plots are SVG.

Rule: pure; everything that comes from messages is escaped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any, Final

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; color: #1d2733 }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem } p.note { color: #5b6775 }
table { border-collapse: collapse; width: 100% } th, td { padding: .3rem .6rem; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #c9d2dc; font-weight: 600 } td { border-bottom: 1px solid #e6ebf0 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
svg { display: block; width: 100%; height: auto } figure { margin: 1rem 0 } figcaption { font-weight: 600 }
svg line { stroke: #dde4ea } svg rect { fill: #2f6db5 } svg text { fill: #5b6775 }
:root { color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  body { background: #14191f; color: #dbe3ec } p.note { color: #9aa8b7 } svg text { fill: #9aa8b7 }
  th { border-color: #465364 } td { border-color: #2a333e } svg line { stroke: #2a333e } svg rect { fill: #6aa5ea }
}
"""
_NONE: Final = '<p class="note">None.</p>'
_HOUR: Final = "%Y-%m-%d %H:00"
MOST_BARS: Final = 24 * 14
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 180, 70, 24


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12">{escape(text)}</text>'


def _bars(points: Sequence[tuple[str, int]]) -> str:
    """Bars over hours."""
    most = max((value for _, value in points), default=1) or 1
    step = (_WIDTH - _LEFT) / max(len(points), 1)
    wide = min(step * 0.8, 60)
    high = _HEIGHT - _BOTTOM - 12
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for share in (0, 0.5, 1):
        y = 12 + high * (1 - share)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" font-size="12">{most * share:,.0f}</text>'
        )
    for n, (hour, value) in enumerate(points):
        tall = high * value / most
        x = _LEFT + n * step + (step - wide) / 2
        parts.append(
            f'<rect x="{x:.1f}" y="{12 + high - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}">'
            f"<title>{escape(hour)}: {value:,}</title></rect>"
        )
    for n in {0, len(points) - 1} if points else set():
        anchor = "start" if n == 0 else "end"
        x = _LEFT if n == 0 else _WIDTH
        if n == 0 or len(points) > 4:
            parts.append(
                f'<text x="{x}" y="{_HEIGHT - 6}" text-anchor="{anchor}" font-size="12">{escape(points[n][0])}</text>'
            )
    return "".join([*parts, "</svg>"])


def _table(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return _NONE
    names = list(rows[0])
    numeric = {name for name in names if any(isinstance(row[name], (int, float)) for row in rows)}

    def cell(name: str, value: Any) -> str:
        text = (
            f"{value:,}"
            if name in numeric and value is not None
            else ", ".join(map(str, value))
            if isinstance(value, list)
            else ""
            if value is None
            else str(value)
        )
        return f'<td class="n">{text}</td>' if name in numeric else f"<td>{escape(text)}</td>"

    head = "".join(
        f'<th class="n">{name.replace("_", " ")}</th>' if name in numeric else f"<th>{name.replace('_', ' ')}</th>"
        for name in names
    )
    body = "".join("<tr>" + "".join(cell(name, row[name]) for name in names) + "</tr>" for row in rows[:200])
    more = f'<p class="note">and {len(rows) - 200} more, in the JSON</p>' if len(rows) > 200 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _span(hours: Sequence[str]) -> list[str]:
    """Every hour from the first to the last, so that plots compare; only those named when they are too many."""
    if not hours:
        return []
    first, last = (datetime.strptime(hour, _HOUR) for hour in (min(hours), max(hours)))
    count = int((last - first).total_seconds() // 3600) + 1
    if count > MOST_BARS:
        return sorted(set(hours))[-MOST_BARS:]
    return [(first + timedelta(hours=n)).strftime(_HOUR) for n in range(count)]


def _level(span: Sequence[str], known: dict[str, int]) -> list[tuple[str, int]]:
    """What waits stays as it was while nothing happens."""
    found, value = [], 0
    for hour in span:
        value = max(known.get(hour, value), 0)
        found.append((hour, value))
    return found


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def page(report: dict[str, Any]) -> str:
    """`report`: of report.report."""
    by_address: dict[str, dict[str, int]] = defaultdict(dict)
    for row in report["hours"]:
        by_address[row["address"]][row["hour"]] = row["messages"]
    span = _span([row["hour"] for row in report["hours"]])
    busiest = sorted(by_address, key=lambda address: -sum(by_address[address].values()))[:20]
    latencies = [
        {"address": r["address"], "hour": r["hour"], "until": r["event"].lower(), "count": r["count"],
         "p50 ms": r["ms"][0], "p95 ms": r["ms"][1], "p99 ms": r["ms"][2]}
        for r in report["latencies"] if r["ms"]
    ]  # fmt: skip
    late: dict[str, dict[str, int]] = defaultdict(dict)
    for row in latencies:
        if row["until"] == "acked":
            late[row["address"]][row["hour"]] = row["p99 ms"]
    slow = "".join(
        f"<figure><figcaption>{escape(address)}</figcaption>"
        f"{_bars([(hour, late[address].get(hour, 0)) for hour in span])}</figure>"
        for address in busiest
        if late[address]
    )
    backlog: dict[str, dict[str, int]] = defaultdict(dict)
    for row in report["backlog"]:
        backlog[row["address"]][row["hour"]] = row["waiting"]
    levels = {address: _level(span, backlog[address]) for address in busiest}
    waited = "".join(
        f"<figure><figcaption>{escape(address)}</figcaption>{_bars(points)}</figure>"
        for address, points in levels.items()
        if any(value for _, value in points)
    )
    if waited:
        waited += (
            "<details><summary>The same as a table, with the time until it is gone at the pace of that hour</summary>"
            f"{_table(report['backlog'])}</details>"
        )
    timed = (
        '<p class="note">The plots: 99 of 100 were acknowledged within so many ms. In the table is also the time until '
        "they were handed out, of addresses that record it (record_deliveries).</p>"
        f"{slow}<details><summary>Percentiles as a table</summary>{_table(latencies)}</details>"
        if latencies
        else _NONE
    )
    total = sum(row["messages"] for row in report["hours"])
    plots = "".join(
        f"<figure><figcaption>{escape(address)}</figcaption>"
        f"{_bars([(hour, by_address[address].get(hour, 0)) for hour in span])}</figure>"
        for address in busiest
    )
    counted = ", ".join((
        f"{_count(total, 'message')} of {_count(len(by_address), 'address', 'es')}",
        f"{_count(report['manifests'], 'run')} of the archive",
    ))  # fmt: skip
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>Stampede report</title><style>{_STYLE}</style></head><body>'
        f'<h1>Report of {escape(report["folder"])}</h1><p class="note">{counted}. Hours are UTC.</p>'
        f"<h2>Messages per hour</h2>{plots}"
        f"<details><summary>The same as a table</summary>{_table(report['hours'])}</details>"
        f"<h2>Waiting at the end of each hour</h2>{waited or _NONE}"
        f"<h2>What became of them</h2>{_table(report['fates'])}"
        f"<h2>Time from ENQUEUED</h2>{timed}"
        f"<h2>Dead letters</h2>{_table(report['dead_letters'])}"
        f"<h2>Slots: is one busier than others?</h2>{_table(report['slots'])}"
        f"<h2>Largest groups</h2>{_table(report['groups'])}"
        f"<h2>The archive and its disk</h2>{_table(report['growth'])}"
        f"<h2>Unlike the same hour of other days</h2>{_table(report['unusual'])}</body></html>"
    )
