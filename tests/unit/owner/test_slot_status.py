"""What an owner says of slots that it shall lead and does not serve."""

from __future__ import annotations

from broker.owner.slots.slot_role import RoleState
from broker.owner.slots.slot_status import SlotStatus


class Owner:
    def __init__(self):
        self.now, self.doing, self.lacks = 100.0, {}, {}

    def monotonic(self):
        return self.now

    def duties(self):
        return self.doing

    def waits_for(self, slot):
        return self.lacks.get(slot, "")


def test_why_and_since_when():
    owner = Owner()
    standing = SlotStatus(owner, owner, owner)
    owner.doing = {1: RoleState.LEADING, 2: RoleState.TAKING_OVER, 3: RoleState.LEADING}
    owner.lacks = {2: "b (silent)", 3: "2 in-sync replicas, has 1"}
    standing.look()
    assert standing.serves == 1
    owner.now += 5
    owner.doing = {1: RoleState.LEADING, 2: RoleState.SUSPENDED, 3: RoleState.LEADING}
    owner.lacks = {}
    told = standing.told()
    assert told["serves"] == 2 and list(told["not_served"]) == ["2"], "3 has what it needs"
    assert told["not_served"]["2"] == {
        "why": "was declared dead, and is not registered again yet",
        "since_s": 5.0,
    }, "it is another reason, but it has not been served in between"
    owner.doing = {2: RoleState.LEADING}
    assert standing.told() == {"serves": 1, "not_served": {}}
