"""traceparent as W3C has it: what counts, and where in a run it may stand."""

from __future__ import annotations

import pytest

from broker.core.message import NO_IDS, Run
from broker.core.traceparent import Context, contexts, header, said

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
LINE = header(TRACE, SPAN)
ONE = Context(TRACE, SPAN)


def run(lines: bytes, *records: bytes) -> Run:
    return Run(NO_IDS, lines, list(records), 0)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (LINE, ONE),
        (LINE.replace(b"-01\n", b"-03\n"), ONE),
        (LINE.replace(b":", b": "), ONE),
        (LINE.replace(b"-01\n", b"-00\n"), None),
        (LINE.replace(b"00-4b", b"ff-4b"), None),
        (LINE.replace(b"00-4b", b"cc-4b").replace(b"-01\n", b"-01-more\n"), ONE),
        (LINE.replace(b"-01\n", b"-01-more\n"), None),
        (LINE.replace(TRACE.encode(), b"0" * 32), None),
        (LINE.replace(SPAN.encode(), b"0" * 16), None),
        (LINE.upper().replace(b"TRACEPARENT", b"traceparent"), None),
        (b"traceparent:\n", None),
        (b"traceparent:00-12\n", None),
    ],
)
def test_what_counts(line: bytes, wanted: Context | None):
    for text in (line, b"a:1\n" + line, line + b"b:2\n"):
        assert said(text, len(text)) == (True, wanted)


def test_there_is_none():
    for text in (b"", b"a:1\n", b"xtraceparent:1\n", b"a:traceparent:1\n"):
        assert said(text, len(text)) == (False, None)


def test_a_block_that_all_messages_share_is_looked_at_once():
    assert contexts(run(b"a:1\n" + LINE + b"\n", b"x\0", b"y\0")) == [(0, ONE), (1, ONE)]
    assert contexts(run(LINE, b"n:1\n\nx\0", b"n:2\n\ny\0"), most=1) == [(0, ONE)]


def test_each_message_has_its_own():
    other = header("a" * 32, "b" * 16)
    found = contexts(run(b"", LINE + b"\nx\0", b"n:1\n\ny\0", b"n:1\n" + other + b"\nz\0"))
    assert found == [(0, ONE), (2, Context("a" * 32, "b" * 16))]


def test_a_body_is_no_header():
    assert contexts(run(b"a:1\n\n", LINE + b"\0", b"\n" + LINE)) == []
    assert contexts(run(b"a:1\n", b"\n" + LINE + b"\n\n\0", b"n:1\n\nx\n" + LINE + b"\n\n\0")) == []
    assert contexts(run(b"\n", LINE + b"\n\0")) == []


def test_the_first_of_two_counts():
    unwanted = LINE.replace(b"-01\n", b"-00\n")
    assert contexts(run(unwanted, LINE + b"\nx\0")) == []
