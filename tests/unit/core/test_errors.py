"""The catalogue of errors: a number is one code's for ever, and a text says what is the matter before the detail."""

from __future__ import annotations

import pytest

from broker.core import errors
from broker.core.errors import (
    CODES,
    BrokerError,
    Code,
    JournalError,
    NewerRelease,
    OffsetDiverged,
    OffsetExpired,
    ProtocolViolation,
    RefusedError,
)
from broker.core.reasons import Reason


def test_no_number_stands_for_two_codes_and_each_is_found_by_its_own():
    assert len(CODES) == len(Code)
    assert all(CODES[code.number] is code for code in Code)


def test_a_text_is_short_one_line_and_no_two_are_alike():
    texts = [code.text for code in Code]
    assert len(set(texts)) == len(texts)
    assert all(text[0].isupper() and not text.endswith(".") and "\n" not in text for text in texts)
    assert all(isinstance(code.reason, Reason) for code in Code)


@pytest.mark.parametrize("kind", [ProtocolViolation, RefusedError])
def test_what_is_the_matter_stands_before_the_detail(kind):
    error = kind(Code.BAD_SELECTOR, "line 1", about="selector")
    assert str(error) == "Invalid selector: line 1"
    assert (error.code, error.detail, error.about) == (Code.BAD_SELECTOR, "line 1", "selector")
    bare = kind(Code.BAD_SELECTOR)
    assert (str(bare), bare.detail, bare.about) == ("Invalid selector", "", "")


def test_a_violation_knows_the_receipt_that_was_asked_for():
    assert ProtocolViolation(Code.BAD_HEADER).receipt is None
    assert ProtocolViolation(Code.BAD_HEADER, "x", b"r-1").receipt == b"r-1"


def test_all_that_is_raised_on_purpose_has_one_root():
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert len(kinds) > 10 and all(issubclass(one, BrokerError) for one in kinds)


def test_the_journal_names_the_slot_and_what_there_is():
    expired, diverged, newer = OffsetExpired(7, 10, 20), OffsetDiverged(7, "they part at 3"), NewerRelease(7, "cord")
    assert (expired.slot, expired.earliest) == (7, 20) and "slot 7: offset 10" in str(expired) and "20" in str(expired)
    assert diverged.slot == 7 and str(diverged) == "slot 7: they part at 3"
    assert "slot 7" in str(newer) and "'cord'" in str(newer) and "upgrade" in str(newer)
    assert all(isinstance(one, JournalError) for one in (expired, diverged, newer))
