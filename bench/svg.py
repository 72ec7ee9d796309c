"""A chart of lines as SVG: both axes logarithmic, a legend, readable on light and on dark ground.

Rule: text in, text out: nothing is measured here and no file touched. Series differ by their marks, and not by colour
alone; who does not see the picture is told by `<desc>` what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 880, 560
LEFT, RIGHT, TOP, BOTTOM = 76, 176, 64, 62
GAP = 24
"""Between the lines of the legend."""
COLOURS = (("#0b5fa5", "#6cb6ff"), ("#b34700", "#ff9d5c"), ("#00755a", "#4cd3ab"), ("#97347f", "#f29ad8"),
           ("#6b5900", "#e0c64a"), ("#4d4d4d", "#c0c0c0"))  # fmt: skip
"""On light and on dark ground."""
MARKS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0Z", "M-4,-4h8v8h-8Z", "M0,-5L5,4H-5Z", "M0,-5.5L5.5,0L0,5.5L-5.5,0Z",
    "M0,5L5,-4H-5Z", "M-4,-4L4,4M-4,4L4,-4",
)  # fmt: skip
STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #24292f } .title { font-size: 17px; font-weight: 600 }
    .ground { fill: #ffffff } .grid { stroke: #d8dee4; stroke-width: 1 } .axis { stroke: #57606a; fill: none }
    .faint { fill: #57606a } .line { fill: none; stroke-width: 2; stroke-linejoin: round }
    .axis.hollow, .hollow { fill: #ffffff; stroke-width: 2 }
    .dashed { stroke-dasharray: 6 4 }"""
DARK = """
      text { fill: #e6edf3 } .ground { fill: #0d1117 } .grid { stroke: #2b323b } .axis { stroke: #9aa4af }
      .faint { fill: #9aa4af }
      .axis.hollow, .hollow { fill: #0d1117 }"""


@dataclass(frozen=True)
class Series:
    """`points`: (x, y), both above 0, by x. `group`: those of one have one colour and mark. `cut`: the last mark is
    hollow, because the line would go on from there."""

    group: str
    points: list[tuple[float, float]]
    dashed: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Axis:
    """`said`: a value as text."""

    title: str
    least: float
    most: float
    said: Callable[[float], str]

    def at(self, value: float) -> float:
        """0 at the beginning, 1 at the end."""
        return math.log(value / self.least) / math.log(self.most / self.least)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """1, 2 and 5 of each power of ten; over more than two of these only the power itself has a text."""
        crowded = self.most / self.least > 100
        for power in range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1):
            for digit in (1, 2, 5):
                value = digit * 10.0**power
                if self.least * 0.9999 <= value <= self.most * 1.0001:
                    yield value, "" if crowded and digit > 1 else self.said(value)


def around(title: str, values: list[float], said: Callable[[float], str]) -> Axis:
    """An axis on which all of them are, from a round number to another one."""
    least, most = _round(min(values), down=True), _round(max(values), down=False)
    return Axis(title, least, most if most > least else 2 * least, said)


def _round(value: float, *, down: bool) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    steps = [digit * power for digit in (1, 2, 5, 10)]
    return max(s for s in steps if s <= value) if down else min(s for s in steps if s >= value)


def chart(title: str, about: str, x: Axis, y: Axis, series: list[Series], means: tuple[str, str, str]) -> str:
    """about: what it shows, in words. means: of a solid line, a dashed one, a hollow mark."""
    groups = list(dict.fromkeys(each.group for each in series))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(title)}</title><desc id="d">{escape(about)}</desc>',
        f"<style>{STYLE}{_colours(len(groups), 0)}",
        f"    @media (prefers-color-scheme: dark) {{{DARK}{_colours(len(groups), 1)}\n    }}\n</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="30">{escape(title)}</text>',
        *_axes(x, y), *_legend(groups, means),
    ]  # fmt: skip
    for each in series:
        parts += _line(each, groups.index(each.group), x, y)
    return "\n".join([*parts, "</svg>", ""])


def _colours(count: int, ground: int) -> str:
    of = ((n, COLOURS[n % len(COLOURS)][ground]) for n in range(count))
    return "".join(f"\n    .s{n} {{ stroke: {c} }} .m{n} {{ fill: {c}; stroke: {c} }}" for n, c in of)


def _across(axis: Axis, value: float) -> float:
    return LEFT + axis.at(value) * (WIDTH - LEFT - RIGHT)


def _down(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.at(value) * (HEIGHT - TOP - BOTTOM)


def _axes(x: Axis, y: Axis) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for tick, said in x.ticks():
        at = _across(x, tick)
        yield f'<path class="grid" d="M{at:.1f},{TOP}V{bottom}"/>'
        yield f'<text class="faint" x="{at:.1f}" y="{bottom + 20}" text-anchor="middle">{escape(said)}</text>'
    for tick, said in y.ticks():
        at = _down(y, tick)
        yield f'<path class="grid" d="M{LEFT},{at:.1f}H{right}"/>'
        yield f'<text class="faint" x="{LEFT - 8}" y="{at + 4.5:.1f}" text-anchor="end">{escape(said)}</text>'
    yield f'<path class="axis" d="M{LEFT},{TOP}V{bottom}H{right}"/>'
    yield f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 16}" text-anchor="middle">{escape(x.title)}</text>'
    yield f'<text x="{LEFT}" y="{TOP - 12}">{escape(y.title)}</text>'


def _legend(groups: list[str], means: tuple[str, str, str]) -> Iterator[str]:
    left, at = WIDTH - RIGHT + 24, TOP + 8
    for n, name in enumerate(groups):
        yield f'<path class="line s{n}" d="M{left},{at}h28"/>{_mark(f"m{n}", n, left + 14, at)}'
        yield _beside(left, at, name)
        at += GAP
    solid, dashed, hollow = means
    for kind, name in (("", solid), (" dashed", dashed)):
        at += GAP
        yield f'<path class="axis line{kind}" d="M{left},{at}h28"/>{_beside(left, at, name)}'
    yield f"{_mark('hollow axis', 0, left + 14, at + GAP)}{_beside(left, at + GAP, hollow)}"


def _beside(left: float, at: float, name: str) -> str:
    return f'<text x="{left + 38}" y="{at + 4.5}">{escape(name)}</text>'


def _line(series: Series, group: int, x: Axis, y: Axis) -> Iterator[str]:
    points = [(_across(x, a), _down(y, b)) for a, b in series.points]
    kind = " dashed" if series.dashed else ""
    yield f'<path class="line s{group}{kind}" d="M{" L".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>'
    for n, (a, b) in enumerate(points, 1):
        yield _mark(f"hollow s{group}" if series.cut and n == len(points) else f"m{group}", group, a, b)


def _mark(style: str, group: int, x: float, y: float) -> str:
    return f'<path class="{style}" transform="translate({x:.1f},{y:.1f})" d="{MARKS[group % len(MARKS)]}"/>'
