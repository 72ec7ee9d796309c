"""Names of header blocks that come again are remembered, up to a bound; those that do not cost little."""

from __future__ import annotations

from broker.wire.heads import Families
from broker.wire.shortcuts.known_layouts import LAYOUTS, LEARN_AFTER, KnownLayouts
from broker.wire.versions import Version


def table() -> tuple[KnownLayouts, Families]:
    families = Families(4, Version.V12)
    return KnownLayouts(4, Version.V12, families), families


def names(n: int) -> tuple[bytes, ...]:
    return b"destination", b"n%d" % n


def test_names_are_worth_a_layout_when_they_have_come_several_times():
    layouts, _ = table()
    for _ in range(LEARN_AFTER - 1):
        assert layouts.layout(names(1)) == (None, False)
    layout, made = layouts.layout(names(1))
    assert layout is not None and made
    assert layouts.layout(names(1)) == (layout, False)


def test_it_never_holds_more_than_its_entries():
    layouts, families = table()
    for n in range(LAYOUTS + 20):
        for _ in range(LEARN_AFTER):
            layouts.layout(names(n))
            assert len(layouts._seen) <= 4
        assert 0 < len(layouts.known) <= LAYOUTS
        families.family(((b"destination", b"%d" % n),))
        assert len(families.known) <= 4


def test_blocks_that_say_the_same_have_one_family_whatever_their_layout():
    layouts, families = table()
    made = [layouts.layout(names(n))[0] for n in range(2) for _ in range(LEARN_AFTER)]
    found = [layout for layout in made if layout is not None]
    for layout in found:
        layout.means(b"/queue/a\\cb")
    assert found[0].family is found[1].family is families.family(((b"destination", b"/queue/a\\cb"),))
    assert found[0].family.headers == {"destination": "/queue/a:b"}
