"""Who hears of what the shard did."""

from __future__ import annotations

from broker.core.commands import Barrier, Grant
from broker.core.effects import Refused
from broker.core.errors import Code
from broker.owner.shard.effect_listeners import tell_blamed


class Hears:
    def __init__(self) -> None:
        self.effects: list = []

    def on_effects(self, effects: list) -> None:
        self.effects += effects


def test_who_waits_for_the_command_that_has_thrown_is_told_so():
    hears, command = Hears(), Barrier(3, 5, 9)
    tell_blamed(hears, command, [command])
    [refused] = hears.effects
    assert isinstance(refused, Refused) and (refused.session, refused.seq, refused.code) == (5, 9, Code.INTERNAL)


def test_nobody_is_told_of_what_has_no_answer_and_nobody_need_be_there():
    hears, silent, asked = Hears(), Grant(3, 1, 10), Barrier(3, 5, 9)
    tell_blamed(hears, silent, [silent])
    tell_blamed(None, asked, [asked])
    assert not hears.effects
