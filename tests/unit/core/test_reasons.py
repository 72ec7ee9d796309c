"""Every reason for which something is closed has a label of its own, and a line that says what it means."""

from __future__ import annotations

import re
from pathlib import Path

import broker.core.reasons
from broker.core.reasons import Reason


def test_labels_are_words_and_each_has_its_line():
    source = Path(broker.core.reasons.__file__).read_text()
    for reason in Reason:
        assert re.fullmatch(r"[a-z_]+", reason.value) and reason.value == reason.name.lower()
        assert re.search(rf'    {reason.name} = "{reason.value}"\n    """.+"""', source), reason
