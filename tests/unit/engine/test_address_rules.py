"""Rules of an address: None for a plain one, and remembered, but never longer than the settings they were made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.addressing import AddressSettings, DivertSettings
from broker.engine.address import address_rules
from broker.engine.address.address_rules import Rulebook, Rules

PLAIN = AddressSettings(full_policy="FAIL")
SPECIAL = [
    {"max_size_bytes": 1},
    {"max_size_messages": 1},
    {"full_policy": "PAGE", "page_limit_bytes": 1},
    {"no_expiry": True},
    {"expiry_delay_ms": 0},
    {"min_expiry_delay_ms": 0},
    {"max_expiry_delay_ms": 0},
    {"retroactive_messages": 1},
    {"ingress_timestamp": True},
    {"purge_on_no_consumers": True},
    {"send_to_dla_on_no_route": True},
]


@pytest.mark.parametrize("changes", SPECIAL)
def test_whatever_asks_for_more_than_delivery_is_not_plain(changes):
    assert Rules(PLAIN).plain()
    assert not Rules(replace(PLAIN, **changes)).plain()
    assert Rules(AddressSettings(full_policy="PAGE", max_size_bytes=1)).plain(), "paging is what every address does"


def test_where_a_divert_begins_is_not_plain():
    assert not Rules(PLAIN, (("copy", DivertSettings(address="a", forward="b")),)).plain()


@pytest.mark.parametrize("name", ["expiry_delay_ms", "min_expiry_delay_ms", "max_expiry_delay_ms"])
def test_a_life_time_of_nothing_is_one(name):
    assert Rules(replace(PLAIN, **{name: 0})).aging
    assert not Rules(replace(PLAIN, **{name: -1})).aging


class Settings:
    """A rulebook over settings by name, and how often it asked for them."""

    def __init__(self, diverts=(), **settings: AddressSettings) -> None:
        self.asked: list[str] = []
        self.settings = settings
        self.rulebook = Rulebook(self.match, dict(diverts))

    def match(self, name: str) -> AddressSettings:
        self.asked.append(name)
        return self.settings.get(name, PLAIN)


def test_addresses_of_the_same_settings_share_their_rules_and_plain_ones_have_none():
    limited = replace(PLAIN, max_size_bytes=5)
    rulebook = Settings(a=limited, b=limited).rulebook
    assert rulebook("a") is rulebook("b") is not None and rulebook("a").settings is limited
    assert rulebook("plain") is None and rulebook("plain") is None


def test_equal_settings_of_another_address_do_not_get_its_diverts():
    divert = ("copy", DivertSettings(address="a", forward="b"))
    rulebook = Settings({"a": (divert,)}).rulebook
    assert rulebook("a").diverts == (divert,) and rulebook("a") is rulebook("a")
    assert rulebook("other") is None, "its settings are the same object"


def test_what_is_remembered_is_bounded_and_found_again(monkeypatch):
    monkeypatch.setattr(address_rules, "_REMEMBERED", 3)
    rulebook = Settings(**{f"a{n}": replace(PLAIN, max_size_bytes=n) for n in range(10)}).rulebook
    for _ in range(2):
        for n in range(10):
            assert rulebook(f"a{n}").settings.max_size_bytes == n
            assert len(rulebook._known) <= 3
