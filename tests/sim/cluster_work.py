"""What virtual clients work on: addresses, subscriptions, the messages they make, and the habits of a history.

Rule: what the clients of all edges share, and nothing of any one of them. Other draws than those of `traits` would make
every history another one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from broker.core.ids import SLOTS, slots_of
from broker.core.message import BLOB, DURABLE, GROUPED, Run
from tests.sim.cluster_checkers import DIVERTED, Copy, Group, Holder, Message, Model
from tests.sim.cluster_watchers import TOPICS, Watch

QUEUES = ("q.a", "q.b", "q.c", "q.d")
SUBS = {"c.one": "t.a", "c.two": "t.b", "c.three": "t.a"}
WILD = {"c.all": "t.*"}
"""A durable subscription to all topics, in histories with wildcards."""
SIZES = (1, 150, 700, 1500)
"""Of large bodies."""
GROUPS = (b"g1", b"g2", b"g3")
SPLIT = {"q.a": 2, "t.a": 3}
"""Addresses that lie in several slots, in histories with such."""


def head(group: bytes) -> bytes:
    return b"JMSXGroupID:%b\n" % group if group else b""


def flags_of(durable: bool, grouped: object) -> int:
    return (DURABLE if durable else 0) | (GROUPED if grouped else 0)


class Workload:
    """What the clients of all edges share: the model, numbers, habits of this history.

    subs       durable subscription → has it certainly been made.    taken   who is attached to it.
    on_done    told of every receipt for a durable message.
    scheduled  how much of what is sent is due later.    diverted  address → address of copies.
    kept       bytes of large bodies that an edge keeps for the case that their owner changes: all of them, or none.
    large      how much of what is sent has a body that travels on its own.
    split      address → over how many slots.    wild   durable subscriptions by a pattern.
    groups     how much of what is sent belongs to groups.    polite   nobody says NACK or goes without DISCONNECT.
    watched    are there subscribers to topics without a durable name.
    """

    def __init__(self, random: Random, traits: Random, wall_ms: Callable[[], int]) -> None:
        """`traits` decides what few histories have."""
        self.random = random
        self.model = Model(wall_ms)
        self.scheduled = traits.choice((0.0, 0.0, 0.0, 0.2))
        self.diverted = traits.choice(({}, {}, {}, DIVERTED))
        self.large = traits.choice((0.0, 0.0, 0.0, 0.25))
        self.split: dict[str, int] = traits.choice(({}, {}, {}, SPLIT))
        self.wild: dict[str, str] = traits.choice(({}, {}, {}, WILD))
        self.groups = traits.choice((0.0, 0.0, 0.0, 0.6))
        self.polite = traits.random() < 0.25
        self.manners = traits
        fork = Random()
        fork.setstate(traits.getstate())  # no draw of the others: these histories stay what they were
        self.watched = fork.random() < 0.33
        self.watch = Watch()
        self.kept = fork.choice((0, 1 << 20, 1 << 20, 1 << 20))
        self.bound = SUBS | self.wild
        """Durable subscription → its address or pattern."""
        self.subs = dict.fromkeys(self.bound, "no")
        self.taken: dict[str, Holder] = {}
        self.numbers = 0
        self.durable = random.choice((1.0, 1.0, 0.9, 0.5))
        self.tiny = random.random() < 0.5
        self.transactions = random.choice((0.0, 0.1, 0.25))
        self.queues = QUEUES[: random.choice((1, 2, 4))]
        self.taps = (*self.queues, *self.diverted.values())
        """Queues that consumers ask for, beside subscriptions."""
        self.receipts = 0
        self.on_done: Callable[[list[Copy]], None] = lambda copies: None

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def goes_in_order(self) -> bool:
        """Does a session that ends say so."""
        return self.polite or self.manners.random() < 0.5

    def slots(self, address: str) -> tuple[int, ...]:
        """All that have a part of it."""
        return tuple(range(SLOTS)) if "*" in address else slots_of(address, self.split.get(address, 1))

    # ── messages ───────────────────────────────────────────────────────────────────────────────────

    def compose(self, address: str, producer: object) -> tuple[Run, list[Message]]:
        random = self.random
        durable = random.random() < self.durable
        group = self._group()
        lines = random.choice((b"", b"a:b\n", b"a:b\n\n"))
        mixed = bool(group) and address not in self.split and random.random() < 0.5
        lines = b"" if mixed else head(group) + lines
        due = self._due()
        records, messages = [], []
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            number = self.number()
            size = random.choice((0, 10, 10, 40, 170)) if random.random() < 0.97 else 900
            record = (b"" if lines.endswith(b"\n\n") else b"\n") + b"#%d#" % number + b"x" * size + b"\0"
            if mixed:
                group = random.choice((b"", *GROUPS))
                record = head(group) + record
            records.append(record)
            messages.append(Message(number, lines + record, durable, producer, due, group=group))
        nbytes = sum(map(len, records)) + len(records) * len(lines)
        return Run(range(0), lines, records, nbytes, flags_of(durable, group or mixed), due=due), messages

    def _group(self) -> bytes:
        """What belongs to none: empty."""
        return self.random.choice(GROUPS) if self.groups and self.random.random() < self.groups else b""

    def _due(self) -> int:
        if self.scheduled and self.random.random() < self.scheduled:
            return self.model.wall_ms() + self.random.choice((10, 100, 400, 1500))
        return 0

    def compose_large(self, producer: object) -> tuple[Run, Message]:
        """A body that no other has; its blob comes when it is stored."""
        random, number = self.random, self.number()
        durable, lines, due = random.random() < self.durable, random.choice((b"", b"a:b\n")), self._due()
        group = self._group()
        lines = head(group) + lines
        text = b"%d," % number
        body = text * -(-random.choice(SIZES) // len(text))
        record = b"n:#%d#\ncontent-length:%d\n\n" % (number, len(body))
        run = Run(range(0), lines, [record], len(lines + record + body) + 1, flags_of(durable, group) | BLOB, due=due)
        return run, Message(number, lines + record, durable, producer, due, body, group)

    def sent(self, address: str, messages: list[Message], group: Group | None = None) -> list[Copy]:
        """Tells the model which queues get them."""
        subs = self.subs
        targets = [(address, True)] if address in QUEUES else []
        targets += [(name, subs[name] == "yes") for name, bound in self.bound.items()
                    if address in TOPICS and bound in (address, *WILD.values())]  # fmt: skip
        copies = [self.model.sent(m, queue, sure, group) for m in messages for queue, sure in targets]
        if (way := self.diverted.get(address)) is not None:
            copies += [self.model.sent(m, way, m.durable, group) for m in messages]
        return copies
