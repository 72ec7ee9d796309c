"""Messages that selectors are asked about, and what one of them says."""

from __future__ import annotations

from broker.core.message import Run
from broker.selector import compile

STRICT, CONVERT = "no_convert_string_expressions:", "convert_string_expressions:"


def message(body: bytes = b"hi", lines: bytes = b"", flags: int = 0, **headers: object) -> Run:
    head = "".join(f"{name.replace('__', '-')}:{value}\n" for name, value in headers.items())
    record = head.encode() + b"\n" + body + b"\0"
    return Run(range(1), lines, [record], len(lines) + len(record), flags, 7, 99_000, 55_000)


PERSON = message(
    name="James", location="London", rank=123, version=2, quote="'In God We Trust'", foo="_foo", yes="true", no="false",
    punctuation="!#$&()*+,-./;<=>?@[]^`{|}~", under="XD7xlJIQn_", half="21.5", empty="", type="order",
    correlation__id="c1", reply__to="/queue/r", JMSXGroupID="g1", foo__bar="zzz", odd=r"a\cb\\n\nz", blank=" 21 ",
)  # fmt: skip


def holds(text: str, run: Run = PERSON, address: str = "shop") -> bool:
    return compile(text)(run, 0, address)


XML = b"<root><a key='first' num='1'/><b key='second' num='2'>b</b></root>"
