"""Escapes of headers: what they mean, and what it costs to read many."""

from __future__ import annotations

import itertools
import re
import sys

import pytest

from broker.core.errors import ProtocolViolation
from broker.wire.escapes import unescape
from broker.wire.versions import Version


def test_escapes_cost_a_few_looks_at_the_text_however_many_they_are():
    """60 KB of them took 5 ms when each was a call."""
    calls = []
    text = r"\c\\\n" * 5000 + r"\r"
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        plain = unescape(text, Version.V12)
    finally:
        sys.setprofile(None)
    assert plain == ":\\\n" * 5000 + "\r"
    assert len(calls) < 20


@pytest.mark.parametrize("version", [Version.V11, Version.V12])
def test_every_text_of_escapes_means_what_it_means_one_sequence_after_another(version):
    known = {"\\\\": "\\", "\\n": "\n", "\\c": ":", **({"\\r": "\r"} if version is Version.V12 else {})}
    for text in map("".join, itertools.product("\\ncrx", repeat=6)):
        found = re.findall(r"\\.?|[^\\]", text)
        if all((known.get(each, each) == each and each[0] != "\\") or each in known for each in found):
            assert unescape(text, version) == "".join(known.get(each, each) for each in found)
        else:
            wrong = next(each for each in found if each[0] == "\\" and each not in known)
            with pytest.raises(ProtocolViolation, match=re.escape(f"'{wrong}'")):
                unescape(text, version)
