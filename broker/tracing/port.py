"""The way to the owners and back, looked at: SEND, delivery and ACK of messages whose traces are wanted.

Rule: stands between edge and owners only where traces are on, changes nothing and refuses nothing. Of other messages it
looks at flags, a batch at a time. Must not know sessions or sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from broker.core.address import AckMode, Outcome
from broker.core.commands import Command, Publish, Settle, Transact
from broker.core.effects import Deliver, Done, Effect, Refused
from broker.core.message import REDELIVERED, TRACED, Blob
from broker.core.traceparent import Context, contexts
from broker.link.owner_port import BodyReader, BodyWriter, EffectListener, OwnerPort

from .span_notes import Notes, SpanNote

MOST: Final = 4096
"""Requests without an answer, and messages that consumers hold, that are remembered; the oldest are forgotten."""
PIECE: Final = 64
"""Deliveries noted of those that come together."""
SAID: Final = {Outcome.ACK: "ack", Outcome.NACK: "nack", Outcome.REJECT: "reject", Outcome.RETURN: "release"}

Modes = Callable[[int], tuple[AckMode, str] | None]
"""Consumer → how it acknowledges, and its address; None: it is gone."""


class TracedPort:
    """An OwnerPort around another one. submit: where commands go, if not to `port` itself."""

    def __init__(self, port: OwnerPort, notes: Notes, submit: Callable[[list[Command]], bool] | None = None) -> None:
        self.shares_wildcards = port.shares_wildcards
        self.at_once: Callable[[Publish], bool] | None = None
        self._port = port
        self._submit = submit or port.submit
        self._notes = notes
        self._listener: EffectListener
        self._modes: Modes = lambda consumer: None
        self._open: dict[tuple[int, int], list[SpanNote]] = {}
        self._held: dict[int, dict[int, tuple[Context, float]]] = {}
        self._holding = 0

    def modes(self, modes: Modes) -> None:
        """Who knows consumers."""
        self._modes = modes

    # ── to the owners ──────────────────────────────────────────────────────────────────────────────

    def submit(self, commands: list[Command]) -> bool:
        for command in commands:
            kind = type(command)
            if kind is Publish:
                if command.run.flags & TRACED:  # type: ignore[union-attr]
                    self._sent(command, command.session, command.seq)  # type: ignore[arg-type,union-attr]
            elif kind is Settle:
                if command.consumer in self._held:  # type: ignore[union-attr]
                    self._settled(command, command.session, command.seq)  # type: ignore[arg-type,union-attr]
            elif kind is Transact:
                for part in command.parts:  # type: ignore[union-attr]
                    if type(part) is Settle:
                        if part.consumer in self._held:
                            self._settled(part, command.session, command.seq)  # type: ignore[union-attr]
                    elif part.run.flags & TRACED:  # type: ignore[union-attr]
                        self._sent(part, command.session, command.seq)  # type: ignore[arg-type,union-attr]
        return self._submit(commands)

    def _sent(self, command: Publish, session: int, seq: int) -> None:
        run = command.run
        found = contexts(run)
        admitted = self._notes.admit(len(found)) if found else 0
        if not admitted:
            # Nobody behind us looks for what is not there, or is too much.
            run.without(TRACED)
            return
        if self._notes.room():
            own = [context for _, context in found[:admitted]]
            now = self._notes.wall()
            nbytes = run.nbytes if len(run.records) == 1 else 0
            self._begun(SpanNote("send", command.address, command.slot, now, now, own, nbytes=nbytes), session, seq)

    def _settled(self, command: Settle, session: int, seq: int) -> None:
        held = self._held[command.consumer]
        known = self._modes(command.consumer)
        if known is not None and known[0] is AckMode.CLIENT and command.outcome in (Outcome.ACK, Outcome.NACK):
            last = max(command.ids, default=0)
            settled = [id for id in held if id <= last]
        else:
            settled = [id for id in command.ids if id in held]
        if not settled:
            return
        taken = [held.pop(id) for id in settled]
        self._holding -= len(taken)
        if not held:
            del self._held[command.consumer]
        if command.outcome in SAID and self._notes.room():
            now = self._notes.wall()
            waited = int((now - taken[0][1]) * 1000)
            address = "" if known is None else known[1]
            own = [context for context, _ in taken]
            self._begun(
                SpanNote(SAID[command.outcome], address, command.slot, now, now, own, settled[0], waited=waited),
                session, seq,
            )  # fmt: skip

    def _begun(self, note: SpanNote, session: int, seq: int) -> None:
        """It ends with the answer, if there is to be one."""
        if not seq:
            self._notes.add(note)
            return
        self._open.setdefault((session, seq), []).append(note)
        if len(self._open) > MOST:
            for oldest in self._open.pop(next(iter(self._open))):
                self._notes.add(oldest)

    # ── from the owners ────────────────────────────────────────────────────────────────────────────

    def attach(self, listener: EffectListener) -> None:
        self._listener = listener
        self._port.attach(self)

    def on_effects(self, effects: list[Effect]) -> None:
        self._listener.on_effects(effects)
        noted = 0
        for effect in effects:
            kind = type(effect)
            if kind is Deliver:
                if effect.run.flags & TRACED and noted < PIECE:  # type: ignore[union-attr]
                    noted += 1
                    self._delivered(effect)  # type: ignore[arg-type]
            elif self._open and (kind is Done or kind is Refused):
                for note in self._open.pop((effect.session, effect.seq), ()):  # type: ignore[union-attr]
                    error = effect.code.name if kind is Refused else ""  # type: ignore[union-attr]
                    self._notes.add(note._replace(ended=self._notes.wall(), error=error))

    def _delivered(self, effect: Deliver) -> None:
        run, known = effect.run, self._modes(effect.consumer)
        if known is None or not (found := contexts(run)) or not self._notes.room():
            return
        now = self._notes.wall()
        mode, address = known
        own = [context for _, context in found]
        waited = max(int(now * 1000) - run.time, 0) if run.time else -1
        again = bool(run.flags & REDELIVERED)
        nbytes = run.nbytes if len(run.records) == 1 else 0
        first = run.ids[found[0][0]]
        self._notes.add(SpanNote("deliver", address, -1, now, now, own, first, nbytes, waited, again))
        if mode is not AckMode.AUTO:
            held = self._held.setdefault(effect.consumer, {})
            before = len(held)
            held.update((run.ids[at], (context, now)) for at, context in found)
            self._holding += len(held) - before
            while self._holding > MOST:
                oldest = next(iter(self._held))
                self._holding -= len(self._held.pop(oldest))

    def on_relief(self, sessions: Collection[int] | None = None) -> None:
        self._listener.on_relief(sessions)

    def on_stopped(self, why: str) -> None:
        self._listener.on_stopped(why)

    # ── passed on ──────────────────────────────────────────────────────────────────────────────────

    def write_body(self, slot: int, on_drain: Callable[[], None]) -> BodyWriter:
        return self._port.write_body(slot, on_drain)

    def read_body(self, slot: int, blob: Blob, consumer: int = 0, message: int = 0) -> BodyReader:
        return self._port.read_body(slot, blob, consumer, message)

    def arrived(self, consumer: int, message: int, outcome: Outcome = Outcome.ACK) -> None:
        self._port.arrived(consumer, message, outcome)

    def held(self, slot: int, consumer: int) -> Sequence[int]:
        return self._port.held(slot, consumer)
