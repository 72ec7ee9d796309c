"""May this session do that: what permissions.py says, as refusals, counts and ends of subscriptions.

Rule: asked at SEND (once per run), SUBSCRIBE and UNSUBSCRIBE, before anything has happened; not again at COMMIT.
A session without rights (`session.rights` is None) may do everything, and is asked for nothing but that.

A SUBSCRIBE is judged by the queue it would be attached to, not by the name it gives: `/queue/x` is the queue `x::x`, a
durable subscription is `address::client-id.name`. Where only the owner knows (a plain name may be either), both must
be allowed.
"""

from __future__ import annotations

from typing import Protocol

from broker.config.permissions import FQQN
from broker.core.address import TEMPORARY, Routing
from broker.core.creation import Creation
from broker.core.errors import Code, RefusedError
from broker.engine.address.address_settings import plain_routing

from .destinations.send_route import Route
from .rights.permissions import ADDRESS, DURABLE, OWN, Rights, full_name
from .session.session import Session
from .session.told import audit_trail
from .subscriptions.subscription import SlotSubscription


class ReadingAsked(Protocol):
    """What a SUBSCRIBE asks for."""

    @property
    def operation(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def routing(self) -> Routing: ...
    @property
    def queue(self) -> str | None: ...
    @property
    def queues(self) -> tuple[str | None, ...]: ...
    @property
    def durable(self) -> bool: ...
    @property
    def wildcard(self) -> bool: ...


def sending(session: Session, rights: Rights, route: Route) -> bool:
    """May a SEND that way create what is not there. Raises RefusedError(NOT_ALLOWED) if it may not be sent at all."""
    if route.address.startswith(TEMPORARY):
        return True  # who was told its name may
    allowed = rights.at(route.address, route.queue)
    if "send" not in allowed:
        raise refusal(session, rights, "send", route.address, route.queue)
    return ADDRESS in allowed and (DURABLE in allowed or _topic(session, route.address, route.routing, route.queue))


def creating(session: Session, route: Route) -> Creation:
    """The same with what edge.quotas leaves, and whose it is. Raises RefusedError(QUOTA) as well."""
    rights, usage = session.rights, session.usage
    allowed = (rights is None or sending(session, rights, route)) and route.create
    return allowed if usage is None else usage.sends(allowed)


def attached(address: str, routing: Routing, queue: str | None) -> tuple[str | None, ...]:
    """The queues that a SUBSCRIBE may be attached to, as permissions name them; None: one of its own."""
    if queue is not None:
        return (queue,)
    if routing is Routing.UNSET:
        return None, address
    return (address,) if routing is Routing.ANYCAST else (None,)


def _allowed(rights: Rights, address: str, queues: tuple[str | None, ...]) -> frozenset[str]:
    """What is theirs at all of these queues."""
    allowed = rights.at(address, queues[0])
    for queue in queues[1:]:
        allowed &= rights.at(address, queue)
    return allowed


def subscribing(session: Session, asked: ReadingAsked) -> bool:
    """May a SUBSCRIBE create what is not there. Raises RefusedError(NOT_ALLOWED)."""
    rights = session.rights
    if rights is None or not asked.address:
        return True
    allowed = _allowed(rights, asked.address, asked.queues)
    if asked.operation not in allowed:
        raise _reading(session, rights, asked.operation, asked.address, asked.queues)
    if _topic(session, asked.address, asked.routing, asked.queue):
        # Its queue is always a new one.
        if OWN not in allowed:
            raise refusal(session, rights, OWN, asked.address, None)
        return asked.wildcard or ADDRESS in allowed
    if asked.durable and asked.wildcard:
        return DURABLE in allowed
    # By the settings a plain name is a queue; the owner may know better, and then asks for nothing more.
    plain = asked.routing is Routing.UNSET and asked.queue is None
    return ADDRESS in allowed and DURABLE in allowed and (OWN in allowed or not plain)


def always_new(session: Session, asked: ReadingAsked) -> bool:
    """Is the queue of such a SUBSCRIBE one of its own, that is made for it."""
    topic = not asked.durable and _topic(session, asked.address, asked.routing, asked.queue)
    return topic or asked.address.startswith(TEMPORARY)


def deleting(session: Session, address: str, queue: str) -> None:
    """Raises RefusedError(NOT_ALLOWED) unless it may delete this durable subscription to the address."""
    rights = session.rights
    if rights is not None and "delete_durable_queue" not in rights.at(address, queue):
        raise refusal(session, rights, "delete_durable_queue", address, queue)


def _reading(
    session: Session, rights: Rights, operation: str, address: str, queues: tuple[str | None, ...]
) -> RefusedError:
    """The refusal of what is not allowed at one of these queues."""
    queue = next(queue for queue in queues if operation not in rights.at(address, queue))
    return refusal(session, rights, operation, address, queue)


def refusal(session: Session, rights: Rights, operation: str, address: str, queue: str | None) -> RefusedError:
    """Counted; to be raised."""
    session.edge.counters.deny(operation)
    match = rights.against(operation, address, queue)
    fix = "add an entry of edge.permissions for all of it"
    if match is not None:
        fix = f'add a group of the user to edge.permissions."{match}".{operation}'
    name = full_name(address, None if queue == address and FQQN not in (match or "") else queue)[:100]
    if session.edge.settings.edge.audit != "off":
        audit_trail.note(session, session.channel.peer, operation, "not-allowed", target=name)
    return RefusedError(Code.NOT_ALLOWED, f"user '{session.login}' lacks {operation} at '{name}': {fix}")


def keeps(session: Session, sub: SlotSubscription) -> bool:
    """The session's rights have changed: would it get this part of a subscription now. If not, its connection ends."""
    rights = session.rights
    if rights is None or sub.address.startswith(TEMPORARY):
        return True
    if sub.operation in _allowed(rights, sub.address, sub.queues):
        return True
    error = _reading(session, rights, sub.operation, sub.address, sub.queues)
    session.fail(error.code, f"{error.detail}; the subscription has ended")
    return False


def _topic(session: Session, address: str, routing: Routing, queue: str | None) -> bool:
    """Does a destination mean a topic, as far as settings tell."""
    if queue is not None:
        return False
    said = plain_routing(session.edge.match(address)) if routing is Routing.UNSET else routing
    return said is Routing.MULTICAST
