"""LocalOwner: edge and owner in one process. Rule: passes things on; not one decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.core.address import Outcome
from broker.core.commands import Command, Hold, Publish, Settle
from broker.core.message import Blob
from broker.owner.bodies.bodies import FileBodyReader, FileBodyWriter
from broker.owner.commit.io_thread import Io
from broker.owner.shard.shard import Shard

from .owner_port import BodyReader, BodyWriter, EffectListener, Rotten, broken_disk


class LocalOwner:
    """OwnerPort onto a Shard of this process."""

    shares_wildcards = True

    def __init__(self, shard: Shard, body_io: Io) -> None:
        self._shard = shard
        self._body_io = body_io
        self._turns = -1
        self._looked = 0
        """Of the commands that wait since that turn."""
        self._settles: dict[int, list[Command]] = {}
        # The shard's own method: in one process there is no layer in between.
        self.submit: Callable[[list[Command]], bool] = shard.submit
        self.at_once: Callable[[Publish], bool] | None = shard.at_once

    def attach(self, listener: EffectListener) -> None:
        self._shard.listen(listener)

    def write_body(self, slot: int, on_drain: Callable[[], None]) -> BodyWriter:
        return FileBodyWriter(self._shard.journal.blobs, self._body_io, on_drain, broken_disk)

    def read_body(self, slot: int, blob: Blob, consumer: int = 0, message: int = 0) -> BodyReader:
        return FileBodyReader(self._shard.journal.blobs, self._body_io, blob, Rotten)

    def arrived(self, consumer: int, message: int, outcome: Outcome = Outcome.ACK) -> None:
        """It was consumed when it was handed out: here edge and owner die together."""

    def held(self, slot: int, consumer: int) -> Sequence[int]:
        engine = self._shard.engines.get(slot)
        return () if engine is None else engine.held(consumer, self._coming(consumer))

    def _coming(self, consumer: int) -> Sequence[Command]:
        """What waits and settles messages of that consumer. Looked for once for all consumers: a subscription that
        grows asks for each of its parts, and 1,500 commands may wait. Until the next turn others come at their end."""
        turns = self._shard.stats.turns
        if turns != self._turns:
            self._turns, self._looked = turns, 0
            self._settles.clear()
        for command in self._shard.waiting(self._looked):
            self._looked += 1
            if isinstance(command, Settle | Hold):
                self._settles.setdefault(command.consumer, []).append(command)
        return self._settles.get(consumer, ())
