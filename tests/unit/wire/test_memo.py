"""Each version has tables of its own, and its layouts share the families of what is read in full."""

from __future__ import annotations

from broker.wire.memo import Memo
from broker.wire.shortcuts.known_layouts import LEARN_AFTER
from broker.wire.versions import Version


def test_each_version_has_its_own():
    memo = Memo(4)
    said = ((b"destination", b"a\\cb"),)
    assert memo.families(Version.V12).family(said).headers == {"destination": "a:b"}
    assert memo.families(Version.V10).family(said).headers == {"destination": "a\\cb"}
    for _ in range(LEARN_AFTER):
        layout, _made = memo.layouts(Version.V12).layout((b"destination", b"n"))
    assert not memo.layouts(Version.V11).known
    layout.means(b"a\\cb")
    assert layout.family is memo.families(Version.V12).family(said)
