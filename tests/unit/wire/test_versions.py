"""The highest version that both sides speak (C23, C24)."""

from __future__ import annotations

import pytest

from broker.wire.versions import Version, negotiate


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        (None, Version.V10),
        ("1.2", Version.V12),
        ("1.0,1.1", Version.V11),
        (" 1.1 , 1.0 ", Version.V11),
        ("1.1,2.0", Version.V11),
        ("2.0", None),
        ("", None),
        ("1.2.3", None),
    ],
)
def test_the_highest_of_both(offered, agreed):
    assert negotiate(offered) is agreed


def test_versions_sort_as_they_are_spelt():
    assert sorted(Version, reverse=True) == [Version.V12, Version.V11, Version.V10]
