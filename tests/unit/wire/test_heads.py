"""What a block says to a broker: some values, of others that they are there, and one head for all that say the same."""

from __future__ import annotations

from broker.core.message import GROUPED, TEXT
from broker.wire.heads import REMEMBERED, Families, HeadFamily, said_of
from broker.wire.versions import Version

V10, V12 = Version.V10, Version.V12


def test_what_is_said_is_in_order_of_names_and_of_a_message_id_that_it_is_there():
    said = said_of({b"persistent": b"true", b"own": b"1", b"message-id": b"7", b"destination": b"/queue/a"})
    assert said == ((b"destination", b"/queue/a"), (b"message-id", b""), (b"persistent", b"true"))


def test_headers_are_unescaped_as_the_version_has_it():
    said = ((b"destination", b"a\\cb"),)
    assert HeadFamily(said, V12).headers == {"destination": "a:b"}
    assert HeadFamily(said, V10).headers == {"destination": "a\\cb"}


def test_a_family_has_one_head_for_each_set_of_flags():
    family = HeadFamily(((b"destination", b"a"),), V12)
    assert family.head(TEXT) is family.head(TEXT) is not family.head(TEXT | GROUPED)
    assert family.head(TEXT | GROUPED).flags == TEXT | GROUPED and family.head(0).headers is family.headers


def test_families_are_remembered_up_to_a_number_and_never_what_is_long():
    families = Families(2, V12)
    long = ((b"destination", b"x" * (REMEMBERED + 1)),)
    assert families.family(long) is not families.family(long) and not families.known
    kept = families.family(((b"destination", b"x" * REMEMBERED),))
    assert families.family(((b"destination", b"x" * REMEMBERED),)) is kept
    for n in range(5):
        families.family(((b"destination", b"%d" % n),))
        assert len(families.known) <= 2
