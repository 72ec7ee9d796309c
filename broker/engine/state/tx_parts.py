"""What this slot keeps of a transaction over several slots: messages that are parked, deliveries that are claimed.

Rule: values, and how the log keeps them; when they are carried out is decided in prepared.py.
"""

from __future__ import annotations

from typing import Any

from broker.core.commands import Decide
from broker.core.creation import Creation
from broker.core.spans import Span

from ..consumers.consumer import Ledger


class Parked:
    """Messages to be published at the commit. first, last: their ids in the hidden queue. unique: some of them have
    duplicate ids. create: see core.creation.Creation; owners of before take a name for yes."""

    __slots__ = ("address", "create", "durable", "first", "last", "queue", "routing", "unique")

    def __init__(
        self,
        first: int,
        last: int,
        address: str,
        queue: str | None,
        routing: int,
        create: Creation,
        durable: bool,
        unique: bool = False,
    ) -> None:
        self.unique = unique
        self.first = first
        self.last = last
        self.address = address
        self.queue = queue
        self.routing = routing
        self.create = create
        self.durable = durable


class Claim:
    """Messages to be settled at the commit. spans: the durable ones; messages: all, once the slot is live."""

    __slots__ = ("delay", "messages", "outcome", "queue", "spans")

    def __init__(self, queue: int, spans: list[Span], outcome: int, delay: int, messages: Ledger) -> None:
        self.queue = queue
        self.spans = spans
        self.outcome = outcome
        self.delay = delay
        self.messages = messages

    def find(self, messages: Ledger) -> None:
        """The slot is live: the messages it claims are these."""
        self.messages = messages


class Prepared:
    """since   epoch ms of the Prepare, or of the restart after it.
    queue      id of the hidden queue, 0: nothing is parked.
    commit     the decision, while it waits for the parked messages to be read back; None: none yet.
    rest       it is carried out but for its dead letters (commit_letters.py).
    letters    claims of which they are on their way.
    calm       that it is forgotten is nobody's failure.
    waiting    who wants to hear that it is carried out."""

    __slots__ = (
        "calm", "claims", "commit", "coordinator", "letters", "publishes", "queue", "rest", "since", "tx", "waiting",
    )  # fmt: skip

    def __init__(self, tx: str, coordinator: int, since: int) -> None:
        self.tx = tx
        self.coordinator = coordinator
        self.since = since
        self.queue = 0
        self.publishes: list[Parked] = []
        self.claims: list[Claim] = []
        self.commit: bool | None = None
        self.calm = False
        self.rest = False
        self.letters = 0
        self.waiting: list[Decide] = []

    def decide(self, commit: bool, calm: bool) -> None:
        """The decision is known; it is carried out when what is parked has been read back."""
        self.commit, self.calm = commit, calm

    def leaves(self, claims: list[Claim]) -> None:
        """It is carried out, but for the dead letters that come of these."""
        self.queue, self.publishes, self.claims = 0, [], claims
        self.rest, self.letters = True, len(claims)

    def arrived(self) -> bool:
        """Those of one claim are where they go. Were they the last."""
        self.letters -= 1
        return not self.letters

    def rests_in(self, queue: int) -> None:
        """Its messages rest in that hidden queue."""
        self.queue = queue

    def revive(self, now: int) -> None:
        """The slot is live again: the coordinator is asked from here on."""
        self.since = now

    def data(self) -> dict[str, Any]:
        """As a MetaRecord keeps it."""
        data: dict[str, Any] = {
            "tx": self.tx, "coordinator": self.coordinator, "queue": self.queue,
            "publishes": [
                [p.first, p.last, p.address, p.queue, p.routing, p.create, p.durable, p.unique] for p in self.publishes
            ],
            # Spans alone: the messages are in the log, and found again by number (find).
            "settles": [[c.queue, c.spans, c.outcome, c.delay] for c in self.claims],
        }  # fmt: skip
        if self.rest:
            data["letters"] = True
        return data

    @classmethod
    def restored(cls, data: dict[str, Any]) -> Prepared:
        """The way back; the messages of claims are looked for when the slot is live."""
        prepared = cls(data["tx"], data["coordinator"], 0)
        prepared.queue = data["queue"]
        if data.get("letters"):
            prepared.rest = prepared.commit = True
        prepared.publishes = [Parked(*fields) for fields in data["publishes"]]
        prepared.claims = [
            Claim(queue, [(first, last) for first, last in spans], outcome, delay, {})
            for queue, spans, outcome, delay in data["settles"]
        ]
        return prepared
