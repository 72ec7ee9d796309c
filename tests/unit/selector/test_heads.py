"""Heads: a header is found wherever the message is cut, nothing of a body is, and texts mean what STOMP says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.message import Blob, Run
from broker.selector.heads import body_of, escaped, head_of, key, plain, raw, shared, text

from .messages import holds


@pytest.mark.parametrize("cut", range(19))
def test_headers_are_found_wherever_the_cut_between_lines_and_records_lies(cut):
    whole = b"a:first\nb:2\na:no\n\na:body\nb:7\n\nx\0"
    run = Run(range(1), whole[:cut], [whole[cut:]], len(whole))
    assert holds("a = 'first' AND b = 2", run)
    assert not holds("a = 'no' OR a = 'body' OR b = 7", run)
    assert holds("x IS NULL", run)
    assert holds("XPATH 'a'", Run(range(1), whole[:cut], [whole[cut:18] + b"<a/>\0"], 9))


def test_a_message_without_headers():
    for run in (Run(range(1), b"", [b"\nbody\0"], 6), Run(range(1), b"\n", [b"body\0"], 6)):
        assert holds("body IS NULL", run)


WHOLE = b"a:first\nb:2\n\na:body\n\nx\0"
BLANK = WHOLE.index(b"\n\n") + 2


@pytest.mark.parametrize("cut", range(BLANK + 1))
def test_head_and_body_are_the_same_wherever_the_cut_is(cut):
    run = Run(range(1), WHOLE[:cut], [WHOLE[cut:]], len(WHOLE))
    assert head_of(run, 0).rstrip(b"\n") == b"\na:first\nb:2", "the empty line may come with it"
    assert body_of(run, 0) == b"a:body\n\nx"
    assert shared(run) is (cut == BLANK)


@pytest.mark.parametrize("cut", [0, 1])
def test_no_header_at_all(cut):
    run = Run(range(1), b"\n"[:cut], [b"\n"[cut:] + b"a:1\n\0"], 6)
    assert not head_of(run, 0).strip(b"\n") and body_of(run, 0) == b"a:1\n" and shared(run) is bool(cut)


def test_a_body_in_a_file_is_not_read():
    assert body_of(Run(range(1), b"", [b"a:x\n\n"], 5, blob=Blob(1, 1000)), 0) is None


def test_the_first_of_repeated_names_counts_and_a_name_is_whole():
    head = b"\nab:1\na:2\na:3\nb:a:4\ne:\n"
    assert raw(head, key("a")) == b"2" and raw(head, key("b")) == b"a:4" and raw(head, key("e")) == b""
    assert raw(head, key("c")) is None and raw(head, key("A")) is None
    assert key("a:b") == b"\na\\cb:"


@given(st.text("ab\\\n\r:cn", max_size=12))
def test_what_is_escaped_means_the_same_again(value):
    line = escaped(value)
    assert not {b"\n", b"\r", b":"} & {line[at : at + 1] for at in range(len(line))}
    assert text(line) == value
    exact = plain(value)
    assert exact is None if set(value) & set("\\\n\r:") else exact == line


def test_what_is_not_utf_8_is_read_all_the_same():
    assert text(b"\xff\\c") == "\ufffd:"
    assert plain("\ud800") is not None, "a lone surrogate finds nothing, and raises nothing"
