"""Names and meanings of header blocks that come again are remembered, up to a bound; those that do not cost little."""

from __future__ import annotations

from broker.wire.memo import LAYOUTS, LEARN_AFTER, Memo, Table
from broker.wire.versions import Version


def names(n: int) -> tuple[bytes, ...]:
    return b"destination", b"n%d" % n


def test_names_are_worth_a_layout_when_they_have_come_several_times():
    table = Table(4, Version.V12)
    for _ in range(LEARN_AFTER - 1):
        assert table.layout(names(1)) == (None, False)
    layout, made = table.layout(names(1))
    assert layout is not None and made
    assert table.layout(names(1)) == (layout, False)


def test_it_never_holds_more_than_its_entries():
    table = Table(4, Version.V12)
    for n in range(LAYOUTS + 20):
        for _ in range(LEARN_AFTER):
            table.layout(names(n))
            assert len(table._seen) <= 4
        assert 0 < len(table.layouts) <= LAYOUTS
        table.family(((b"destination", b"%d" % n),))
        assert len(table.families) <= 4


def test_blocks_that_say_the_same_have_one_family_whatever_their_layout():
    table = Table(4, Version.V12)
    layouts = [table.layout(names(n))[0] for n in range(2) for _ in range(LEARN_AFTER)]
    found = [layout for layout in layouts if layout is not None]
    for layout in found:
        layout.means(b"/queue/a\\cb")
    assert found[0].family is found[1].family is table.family(((b"destination", b"/queue/a\\cb"),))
    assert found[0].family.headers == {"destination": "/queue/a:b"}


def test_each_version_has_its_own():
    memo = Memo(4)
    said = ((b"destination", b"a\\cb"),)
    assert memo.table(Version.V12).family(said).headers == {"destination": "a:b"}
    assert memo.table(Version.V10).family(said).headers == {"destination": "a\\cb"}
    for _ in range(LEARN_AFTER):
        memo.table(Version.V12).layout(names(1))
    assert not memo.table(Version.V11).layouts
