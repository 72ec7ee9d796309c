"""Traces of one process: made where tracing.endpoint is set, and put between the parts of the broker.

Rule: where it is not set nothing of this exists, and nothing is asked whether it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from broker.config.tracing import TracingSettings
from broker.core.address import AckMode
from broker.core.commands import Command
from broker.core.metrics import Metric
from broker.edge.edge import Edge
from broker.link.owner_port import OwnerPort
from broker.owner.shard.shard import Shard
from broker.seams.clock import SystemClock

from .otlp import Export, Spans, exporter_to
from .port import TracedPort
from .span_notes import Notes
from .starts import StartingInbound, Starts
from .stored import Stored, look


class Tracing:
    """kind   serve, edge or owner.    Raises ConfigError."""

    def __init__(self, settings: TracingSettings, kind: str, id: str, clock: SystemClock) -> None:
        self._settings = settings
        self._notes = Notes(settings.most_per_s, clock.wall, clock.monotonic)
        self._export = Export(self._notes, Spans(kind, id), exporter_to(settings.endpoint), settings.endpoint)

    def owner(self, shard: Shard) -> Callable[[list[Command]], bool]:
        """Where commands for this shard go."""
        shard.reads.look(look)
        return Stored(shard, self._notes).submit

    def port(self, port: OwnerPort, submit: Callable[[list[Command]], bool] | None = None) -> TracedPort:
        """An edge's, around its own."""
        return TracedPort(port, self._notes, submit)

    def edge(self, edge: Edge, port: TracedPort) -> None:
        """The edge of that port."""
        consumers = edge.consumers

        def mode(consumer: int) -> tuple[AckMode, str] | None:
            sub = consumers.get(consumer)
            return None if sub is None else (sub.ack, sub.address)

        port.modes(mode)
        if self._settings.ratio:
            edge.reads_by(partial(StartingInbound, Starts(self._settings.ratio)))

    def metrics(self) -> Iterable[Metric]:
        return self._notes.metrics()

    def stop(self) -> None:
        """Waits for a moment, in whatever thread."""
        self._export.stop()
