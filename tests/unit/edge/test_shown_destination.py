"""Another destination is shown than the sender wrote, in its place, and what does not stand there is left alone."""

from __future__ import annotations

import pytest

from broker.core.message import ESCAPED, Run
from broker.edge.destinations.shown_destination import Shown


@pytest.mark.parametrize("keep", [False, True])
def test_it_stands_where_the_senders_stood(keep):
    old = b"original-destination:/queue/a\n" if keep else b""
    shown = Shown("/queue/b", keep)
    new = b"destination:/queue/b\n" + old
    assert shown.text(b"destination:/queue/a\nx:y\n\nbody\0") == new + b"x:y\n\nbody\0"
    assert shown.text(b"x:y\ndestination:/queue/a\n\nbody\0") == b"x:y\n" + new + b"\nbody\0"


def test_a_body_that_looks_like_one_is_not_touched():
    shown = Shown("/queue/b", keep=False)
    for text in (b"x:y\n\na\ndestination:/queue/a\n\0", b"x-destination:/queue/a\n\n\0", b"\ndestination:no\n\0"):
        assert shown.text(text) == text


def test_lines_that_all_share_are_written_once_and_records_each():
    shown = Shown("/queue/b", keep=False)
    lines, records = shown.parts(b"destination:/queue/a\n", [b"\n1\0", b"\n2\0"])
    assert (lines, records) == (b"destination:/queue/b\n", [b"\n1\0", b"\n2\0"])
    lines, records = shown.parts(b"", [b"destination:/queue/a\n\n1\0", b"destination:/q\n\n2\0"])
    assert records == [b"destination:/queue/b\n\n1\0", b"destination:/queue/b\n\n2\0"]


def test_what_must_be_escaped_says_so():
    assert Shown("/queue/a:b", keep=False).flags == ESCAPED
    run = Run([7], b"destination:/queue/a\n", [b"\n\0"], 23, flags=1, attempts=2)
    other = Shown("/queue/a:b", keep=False).run(run)
    assert other.lines == b"destination:/queue/a\\cb\n"
    assert (list(other.ids), other.flags, other.attempts) == ([7], 1 | ESCAPED, 2)
    assert run.lines == b"destination:/queue/a\n", "others are shown the same run otherwise"
