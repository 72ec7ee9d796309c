"""Connections as operators see them: rows of a list, one in detail, totals.

Rule: answers are JSON, worked out in pieces; reads sessions and changes nothing, but for disconnect(),
which ends one as any other error would. Must not know who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from broker.core.errors import Code
from broker.core.pages import PIECE, ROWS, Ask, PageKey, choose

if TYPE_CHECKING:
    from .edge import Edge
    from .session.session import Session

Answer = dict[str, Any]
Work = Generator[None, None, Answer]

VALUES: dict[str, Callable[[Session], Any]] = {
    "id": lambda session: session.id,
    "peer": lambda session: session.channel.peer,
    "user": lambda session: session.principal,
    "client_id": lambda session: session.client_id,
    "subscriptions": lambda session: len(session.subscriptions),
    "bytes_in": lambda session: session.bytes_in,
    "bytes_out": lambda session: session.outbound.nbytes,
}


ENDED = 10
"""Connections that are ended in one step."""
PAUSED = {
    "owner": "the owner has much to do",
    "busy": "the owner has much to do for one of its addresses",
    "blocked": "as much as may wait for full addresses does",
    "rate": "it has used up the rate of its user",
    "memory": "the process is short of memory",
    "body": "the disk takes a large body as fast as it can",
}
"""Why a socket is not read for longer than its turn takes (Inbound.pause_reading)."""


class Clients:
    """Of one edge (admin/api/ports.py)."""

    def __init__(self, edge: Edge, acceptors: Callable[[], list[Answer]] = list, name: str = "") -> None:
        """acceptors: where clients come in (listener.py).    name: of the edge, where there are several."""
        self._edge = edge
        self._acceptors = acceptors
        self._name = name

    def answer(self, question: Mapping[str, Any]) -> Work:
        """Kinds: connections, connection, clients, acceptors; disconnect (`id`, `why`) and disconnect_some (`user` or
        `peer`, `limit`, `why`)."""
        kinds = {
            "connections": self._connections, "connection": self._connection, "clients": self._totals,
            "acceptors": self._ports, "disconnect": self._disconnect, "disconnect_some": self._disconnect_some,
        }  # fmt: skip
        return kinds[question["kind"]](question)

    def disconnect(self, id: int, why: str) -> bool:
        """Ends one with an ERROR that says why; False: it is not there (any more)."""
        session = self._edge.sessions.get(id)
        if session is None or session.closed:
            return False
        session.fail(Code.DISCONNECTED, why, at_once=session.leaving)
        return True

    def _pieces(self) -> Iterator[list[Session]]:
        sessions = list(self._edge.sessions.values())
        for at in range(0, len(sessions), PIECE):
            yield sessions[at : at + PIECE]

    def _connections(self, question: Mapping[str, Any]) -> Work:
        part, user, peer, blocked = question.get("q", ""), *map(question.get, ("user", "peer", "blocked"))

        def keep(session: Session) -> bool:
            if not _is_of(session, user, peer):
                return False
            if blocked is not None and bool(_blocked_by(session)) is not blocked:
                return False
            return part in session.channel.peer or part in session.principal or part in session.client_id

        after = question.get("after")
        place = PageKey(after[0], tuple(after[1])) if after else None
        page = yield from choose(
            self._pieces(),
            Ask(question["limit"], question["sort"], question["descending"], place),
            VALUES[question["sort"]],
            lambda session: (session.id, self._name),
            keep if part or (user, peer, blocked) != (None, None, None) else None,
        )
        rows = []
        for number, (place, session) in enumerate(page.entries, 1):
            rows.append({**self._row(session), "at": [place.value, list(place.name)]})
            if not number % ROWS:
                yield
        return {"rows": rows, "total": page.total, "more": page.more}

    def _connection(self, question: Mapping[str, Any]) -> Work:
        session = self._edge.sessions.get(question["id"]) if self._is_asked(question) else None
        yield
        if session is None:
            return {}
        return {**self._row(session), "heart_beat": session.watch.told, "transacted": session.transacted}

    def _disconnect(self, question: Mapping[str, Any]) -> Work:
        yield
        return {"ended": self._is_asked(question) and self.disconnect(question["id"], question["why"])}

    def _disconnect_some(self, question: Mapping[str, Any]) -> Work:
        user, peer, why = question.get("user"), question.get("peer"), question["why"]
        ended = 0
        for piece in self._pieces():
            for session in piece:
                if session.closed or session.leaving or not _is_of(session, user, peer):
                    continue
                if ended >= question["limit"]:
                    return {"ended": ended, "more": True}
                session.fail(Code.DISCONNECTED, why)
                ended += 1
                if not ended % ENDED:
                    yield
            yield
        return {"ended": ended, "more": False}

    def _is_asked(self, question: Mapping[str, Any]) -> bool:
        """A question about one connection goes to all other edges (link/edge_relay.py), each of which has its own of
        that number."""
        return question.get("edge", "") in ("", self._name)

    def _ports(self, _: Mapping[str, Any]) -> Work:
        counts = self._edge.counters.connections
        yield
        return {"rows": [{**row, "connections": counts.get(row["name"], 0)} for row in self._acceptors()]}

    def _totals(self, _: Mapping[str, Any]) -> Work:
        counters = self._edge.counters
        yield
        return {
            "connections": len(self._edge.sessions),
            "subscriptions": len(self._edge.consumers),
            "bytes_in": counters.bytes_in,
            "by_acceptor": {name: count for name, count in counters.connections.items() if count},
        }

    def _row(self, session: Session) -> Answer:
        state = "closing" if session.leaving or session.closed else "open" if session.connected else "connecting"
        return {
            "id": session.id,
            "peer": session.channel.peer,
            "user": session.principal,
            "host": session.host.name,
            "client_id": session.client_id,
            "version": session.version.value if session.connected else "",
            "acceptor": session.channel.transport_name,
            "state": state,
            "subscriptions": len(session.subscriptions),
            "bytes_in": session.bytes_in,
            "bytes_out": session.outbound.nbytes,
            "tls_subject": session.channel.tls_subject,
            "edge": self._name,
            "blocked_bytes": session.blocked.nbytes if session.blocked is not None else 0,
            "blocked_by": _blocked_by(session),
        }


def _blocked_by(session: Session) -> list[str]:
    """What keeps it from sending on, in words; empty: nothing does."""
    full = session.blocked.awaited() if session.blocked is not None else []
    told = [f"address {address} is full" for address in full]
    return told + [PAUSED[why] for why in sorted(session.inbound.held_by) if why in PAUSED]


def _is_of(session: Session, user: str | None, peer: str | None) -> bool:
    """None: of any."""
    return (user is None or session.principal == user) and (peer is None or _comes_from(session, peer))


def _comes_from(session: Session, peer: str) -> bool:
    """peer: an address, with or without its port."""
    told = session.channel.peer
    return peer in (told, told.rpartition(":")[0], told.rpartition(":")[0].strip("[]"))
