"""Commands on their way from an edge to an owner.

Rule: what is read is checked before anything is done with it, and gets the edge's name space: sessions and consumers
of an edge stand behind its token. Must not know streams nor what commands mean.
"""

# Example. Session 7 of the edge with token 0xabc sends "hi" to queue orders of slot 3, its 21st command there.
#     at the edge    Publish(slot=3, session=7, seq=21 << 8 | 3, dedup=(0xabc, 21), …): a command object
#     on the wire    43 bytes: slot 3, session 7, seq 5379, "orders", routing 1, the run, create, dedup: true. Not the
#                    token, which the owner knows by the stream, nor 21, which is in seq
#     at the owner   session 0xabc << 40 | 7, dedup (0xabc, 21). No edge can name what belongs to another one
# A Settle with outcome 99, of a newer edge: Unknown(slot 3, session, seq, "outcome 99"), which is refused by name, and
# the stream goes on. Slot 300, or a session of more than 40 bits: ProtocolViolation, which ends the stream, and none of
# the commands beside it happens.

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import (
    Act,
    Barrier,
    Command,
    Decide,
    Disconnect,
    Grant,
    Hold,
    Inquire,
    Manage,
    Prepare,
    Publish,
    Resume,
    Settle,
    Subscribe,
    Transact,
    Unsubscribe,
)
from broker.core.ids import SLOTS
from broker.rpc.v1 import link_pb2 as pb

from .codec import (
    NUMBER_BITS,
    NUMBER_MASK,
    SLOT_BITS,
    Open,
    Unknown,
    check_slot,
    malformed,
    put_run,
    read_run,
    sequence,
)

LinkCommand = Command | Open

ROUTINGS = tuple(Routing)
OUTCOMES = {outcome.value: outcome for outcome in Outcome}
ACK_MODES = tuple(AckMode)
ACTS = {act.value: act for act in Act}
CODES: dict[str, Container[object]] = {
    "routing": range(len(ROUTINGS)),
    "outcome": OUTCOMES,
    "ack": range(len(ACK_MODES)),
    "act": ACTS,
}
"""Field → what may stand in it. A newer edge may know more."""
# A COMMIT travels as one message: this bounds a transaction, with an error of its own (TRANSACTION_LIMIT).
MAX_MESSAGE_BYTES = 60 * 1024 * 1024
"""Of one command, and so of one message; transports take a little more."""


# ── out ────────────────────────────────────────────────────────────────────────────────────────────


def put_command(command: LinkCommand, up: pb.Up) -> None:
    """Adds the command to `up`."""
    PUT[type(command)](command, up.commands.add())


def _put_publish(command: Publish, out: pb.Command) -> None:
    fill_publish(command, out.publish)


def fill_publish(command: Publish, out: pb.Publish) -> None:
    """put_command() of the most frequent one."""
    out.MergeFrom(
        pb.Publish(
            slot=command.slot,
            session=command.session & NUMBER_MASK,
            seq=command.seq,
            address=command.address,
            routing=command.routing,
            queue=command.queue,
            create=command.create is not False,
            dedup=command.dedup is not None,
            ttl=command.ttl,
            delay=command.delay,
            maker=command.create if type(command.create) is str else "",
        )
    )
    put_run(command.run, out.run)


def _settle_message(command: Settle) -> pb.Settle:
    return pb.Settle(
        slot=command.slot,
        session=command.session & NUMBER_MASK,
        seq=command.seq,
        consumer=command.consumer & NUMBER_MASK,
        ids=command.ids,
        outcome=command.outcome,
        delay=command.delay,
    )


def _put_settle(command: Settle, out: pb.Command) -> None:
    out.settle.CopyFrom(_settle_message(command))


def _put_grant(command: Grant, out: pb.Command) -> None:
    out.grant.CopyFrom(pb.Grant(slot=command.slot, consumer=command.consumer, nbytes=command.nbytes))


def _named(command: object, *names: str) -> dict[str, Any]:
    """What the message has under the same names."""
    return {name: getattr(command, name) for name in names}


# Same names on both sides. The path of each message (Publish, Settle, Grant) is written out instead, for speed.
_SUBSCRIBE = (
    "slot", "session", "seq", "consumer", "address", "routing", "ack", "durable", "credit_messages", "credit_bytes",
    "room", "overhead", "browse", "priority", "create", "confirm", "bodies", "no_local", "queue", "selector",
    "maker",
)  # fmt: skip


def _put_subscribe(command: Subscribe, out: pb.Command) -> None:
    out.subscribe.CopyFrom(pb.Subscribe(**_named(command, *_SUBSCRIBE)))
    known = command.resume
    if known is not None:
        resume = out.subscribe.resume
        resume.SetInParent()
        for spans, target in ((known.held, resume.held), (known.taken, resume.taken), (known.firm, resume.firm)):
            for first, last in spans:
                target.add(first=first, last=last)
        resume.tried.extend(known.tries.keys())
        resume.attempts.extend(known.tries.values())


def _put_unsubscribe(command: Unsubscribe, out: pb.Command) -> None:
    names = ("slot", "session", "seq", "consumer", "address", "delete_queue")
    out.unsubscribe.CopyFrom(pb.Unsubscribe(**_named(command, *names)))


def _put_hold(command: Hold, out: pb.Command) -> None:
    out.hold.CopyFrom(pb.Hold(**_named(command, "slot", "session", "seq", "consumer", "ids")))


def _put_barrier(command: Barrier, out: pb.Command) -> None:
    out.barrier.CopyFrom(pb.Barrier(**_named(command, "slot", "session", "seq")))


def _put_disconnect(command: Disconnect, out: pb.Command) -> None:
    out.disconnect.CopyFrom(pb.Disconnect(slot=command.slot, session=command.session, calm=command.calm))


def _put_parts(parts: Sequence[Publish | Settle], out: Any) -> None:
    for part in parts:
        # A coordinator passes on parts of many edges: each says whose it is. From an edge itself it is 0, its own.
        target = out.add(edge=part.session >> NUMBER_BITS)
        if isinstance(part, Publish):
            fill_publish(part, target.publish)
        else:
            target.settle.CopyFrom(_settle_message(part))


def _put_transact(command: Transact, out: pb.Command) -> None:
    """Of its `dedup` the sequence's number travels; the owner knows the edge's token."""
    # The token is not on the wire: an edge cannot speak in another one's name.
    turn, number = command.dedup or (0, 0)
    out.transact.CopyFrom(pb.Transact(**_named(command, "slot", "session", "seq"), turn=turn, number=number))
    _put_parts(command.parts, out.transact.parts)


def _put_prepare(command: Prepare, out: pb.Command) -> None:
    names = ("slot", "session", "seq", "tx", "coordinator", "epoch")
    out.prepare.CopyFrom(pb.Prepare(**_named(command, *names)))
    _put_parts(command.parts, out.prepare.parts)


def _put_decide(command: Decide, out: pb.Command) -> None:
    out.decide.CopyFrom(pb.Decide(**_named(command, "slot", "session", "seq", "tx", "commit", "calm")))


def _put_inquire(command: Inquire, out: pb.Command) -> None:
    out.inquire.CopyFrom(pb.Inquire(**_named(command, "slot", "session", "seq", "tx")))


def _put_manage(command: Manage, out: pb.Command) -> None:
    names = ("slot", "session", "seq", "address", "queue", "routing", "force", "selector")
    out.manage.CopyFrom(pb.Manage(**_named(command, *names), act=command.act.value))


def _put_open(command: Open, out: pb.Command) -> None:
    out.open.CopyFrom(pb.Open(**_named(command, "slot", "epoch", "told", "opening")))


PUT: dict[type, Callable[[Any, pb.Command], None]] = {
    Publish: _put_publish,
    Settle: _put_settle,
    Grant: _put_grant,
    Subscribe: _put_subscribe,
    Unsubscribe: _put_unsubscribe,
    Hold: _put_hold,
    Barrier: _put_barrier,
    Disconnect: _put_disconnect,
    Transact: _put_transact,
    Prepare: _put_prepare,
    Decide: _put_decide,
    Inquire: _put_inquire,
    Manage: _put_manage,
    Open: _put_open,
}


# ── in ─────────────────────────────────────────────────────────────────────────────────────────────


def read_commands(up: pb.Up, token: int) -> list[LinkCommand | Unknown]:
    """All commands of the message, in order. Raises ProtocolViolation: then none of them may be used."""
    # All are read before any is used: a message that does not decode happens in no part.
    commands: list[LinkCommand | Unknown] = []
    for command in up.commands:
        kind = command.WhichOneof("kind")
        if kind is None:
            raise malformed("an unknown kind of command")
        message = getattr(command, kind)
        try:
            commands.append(READ[kind](message, token))
        except (IndexError, KeyError) as error:
            # Two kinds of wrong: a newer edge uses a word that this release lacks, which concerns one request; or
            # garbage, which ends the stream.
            what = next(_unknown(message), "")
            if not what:
                raise malformed(f"a {kind} with {error}") from error
            session = _number(message.session, token)
            commands.append(Unknown(check_slot(message.slot), session, message.seq, what, list(_bodies(message))))
    return commands


def _unknown(message: Any) -> Iterator[str]:
    """What a newer edge knows and this release does not, in words."""
    for part in getattr(message, "parts", ()):
        yield from _unknown(getattr(part, part.WhichOneof("kind") or "edge"))
    for name, known in CODES.items():
        code = getattr(message, name, None)
        if code is not None and code not in known:
            yield f"{name} {code!r}"


def _bodies(message: Any) -> Iterator[int]:
    """Ids of the large bodies that a request names."""
    for part in getattr(message, "parts", ()):
        yield from _bodies(getattr(part, part.WhichOneof("kind") or "edge"))
    if isinstance(message, pb.Publish) and message.run.HasField("blob"):
        yield message.run.blob.id


def _number(number: int, token: int) -> int:
    if number > NUMBER_MASK:
        raise malformed(f"number {number} of a session or consumer is too large")
    return token << NUMBER_BITS | number


def _publish(message: pb.Publish, token: int) -> Publish:
    seq, slot, session = message.seq, message.slot, message.session
    if slot >= SLOTS or session > NUMBER_MASK:  # check_slot() and _number(), in line where it is neither
        check_slot(slot)
        _number(session, token)
    publish = Publish(
        slot,
        # 0: of no session, but on its way from another address.
        token << NUMBER_BITS | session if session else 0,
        seq,
        message.address,
        ROUTINGS[message.routing],
        read_run(message.run),
        message.queue if message.HasField("queue") else None,
        message.create and (message.maker or True),
        (token, seq >> SLOT_BITS) if message.dedup else None,
    )
    if message.ttl or message.delay:
        publish.lasts(message.ttl, message.delay)
    return publish


def _settle(message: pb.Settle, token: int) -> Settle:
    return Settle(
        check_slot(message.slot),
        _number(message.session, token),
        message.seq,
        _number(message.consumer, token),
        message.ids[:],
        OUTCOMES[message.outcome],
        message.delay,
    )


def _grant(message: pb.Grant, token: int) -> Grant:
    return Grant(check_slot(message.slot), _number(message.consumer, token), message.nbytes)


def _subscribe(message: pb.Subscribe, token: int) -> Subscribe:
    command = Subscribe(
        check_slot(message.slot),
        _number(message.session, token),
        message.seq,
        _number(message.consumer, token),
        message.address,
        ROUTINGS[message.routing],
        ACK_MODES[message.ack],
        queue=message.queue if message.HasField("queue") else None,
        durable=message.durable,
        selector=message.selector if message.HasField("selector") else None,
        credit_messages=message.credit_messages,
        credit_bytes=message.credit_bytes,
        room=message.room,
        overhead=message.overhead,
        browse=message.browse,
        priority=message.priority,
        create=message.create,
        no_local=message.no_local,
        maker=message.maker,
    )
    command.settle_by(message.confirm, message.bodies)
    if message.HasField("resume"):
        held = [(span.first, span.last) for span in message.resume.held]
        taken = [(span.first, span.last) for span in message.resume.taken]
        firm = [(span.first, span.last) for span in message.resume.firm]
        # Spans go into loops and arithmetic of the engine.
        if any(first > last for first, last in held + taken + firm):
            raise malformed("a span of ids that ends before it begins")
        if len(message.resume.tried) != len(message.resume.attempts):
            raise malformed("ids and attempts of a Resume differ in number")
        tries = dict(zip(message.resume.tried, message.resume.attempts, strict=True))
        command.resumes(Resume(held, taken, tries, firm))
    return command


def _unsubscribe(message: pb.Unsubscribe, token: int) -> Unsubscribe:
    return Unsubscribe(
        check_slot(message.slot),
        _number(message.session, token),
        message.seq,
        _number(message.consumer, token) if message.consumer else 0,
        message.address,
        message.delete_queue if message.HasField("delete_queue") else None,
    )


def _hold(message: pb.Hold, token: int) -> Hold:
    return Hold(
        check_slot(message.slot),
        _number(message.session, token),
        message.seq,
        _number(message.consumer, token),
        message.ids[:],
    )


def _barrier(message: pb.Barrier, token: int) -> Barrier:
    return Barrier(check_slot(message.slot), _number(message.session, token), message.seq)


def _disconnect(message: pb.Disconnect, token: int) -> Disconnect:
    return Disconnect(check_slot(message.slot), _number(message.session, token), message.calm)


def _parts(messages: Any, token: int) -> list[Publish | Settle]:
    parts: list[Publish | Settle] = []
    for part in messages:
        kind = part.WhichOneof("kind")
        # A coordinator's Prepare has parts of other edges, and says so; without that it is the sender's own.
        owner = part.edge or token
        if kind == "publish":
            parts.append(_publish(part.publish, owner))
        elif kind == "settle":
            parts.append(_settle(part.settle, owner))
        else:
            raise malformed("an unknown kind of part of a transaction")
    return parts


def _transact(message: pb.Transact, token: int) -> Transact:
    return Transact(
        check_slot(message.slot),
        _number(message.session, token),
        message.seq,
        _parts(message.parts, token),
        (sequence(token, message.turn), message.number),
    )


def _prepare(message: pb.Prepare, token: int) -> Prepare:
    return Prepare(
        check_slot(message.slot),
        _number(message.session, token),
        message.seq,
        message.tx,
        check_slot(message.coordinator),
        _parts(message.parts, token),
        message.epoch,
    )


def _decide(message: pb.Decide, token: int) -> Decide:
    session = _number(message.session, token)
    return Decide(check_slot(message.slot), session, message.seq, message.tx, message.commit, message.calm)


def _inquire(message: pb.Inquire, token: int) -> Inquire:
    return Inquire(check_slot(message.slot), _number(message.session, token), message.seq, message.tx)


def _manage(message: pb.Manage, token: int) -> Manage:
    return Manage(
        check_slot(message.slot),
        _number(message.session, token),
        message.seq,
        ACTS[message.act],
        message.address,
        message.queue,
        ROUTINGS[message.routing],
        message.selector if message.HasField("selector") else None,
        message.force,
    )


def _open(message: pb.Open, token: int) -> Open:
    return Open(check_slot(message.slot), message.epoch, message.told, message.opening)


READ: dict[str, Callable[[Any, int], LinkCommand]] = {
    "publish": _publish,
    "settle": _settle,
    "grant": _grant,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "hold": _hold,
    "barrier": _barrier,
    "disconnect": _disconnect,
    "transact": _transact,
    "prepare": _prepare,
    "decide": _decide,
    "inquire": _inquire,
    "manage": _manage,
    "open": _open,
}
