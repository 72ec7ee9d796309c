"""What there is to see: overview, queues, addresses, consumers, connections, subscriptions, settings.

Rule: changes nothing. A list is merged of what the owners say, a page of each; who has said nothing is named in
`missing`, and the rest is told all the same.
"""

from __future__ import annotations

from heapq import merge
from operator import itemgetter
from typing import Any

from broker.core.strict_numbers import natural
from broker.engine.address.address_settings import first_said
from broker.owner.shard.views import SORTS
from broker.seams.read_turns import UNHURRIED

from .access import Who
from .calls import ApiOp, Call, Caller, named
from .params import Param, listing, question, token
from .ports import Answer, ClientsPort, ElsewherePort, Missing, Owners, ProcessPort
from .problems import Problem, unknown

FQQN = "::"
CONNECTIONS = ("id", "peer", "user", "client_id", "subscriptions", "bytes_in", "bytes_out")
"""What connections can be sorted by."""
EDGE = Param("edge", "only of this edge of the cluster; of a single connection: without it, of the one that is asked")
ADDRESSES = 100
"""Dead letter addresses that are looked at: settings may name thousands."""

_Q = Param("q", "only names that hold this text")
_ADDRESS = Param("address", "only of this address")
_QUEUE_FILTERS = (
    _Q,
    _ADDRESS,
    Param("routing", "only of this type", choices=("ANYCAST", "MULTICAST")),
    Param(
        "type", "only these: `subscription` is a durable one, `subscriber` dies with its client",
        choices=("queue", "subscription", "subscriber"),
    ),
    Param("consumed", "only with (without) consumers", "flag"),
    Param("filled", "only with (without) messages", "flag"),
    Param("paused", "only paused (running) ones", "flag"),
)  # fmt: skip


class Reading:
    """The handlers."""

    def __init__(
        self,
        owners: Owners,
        clients: ClientsPort,
        node: ProcessPort,
        caller: Caller,
        delimiter: str,
        elsewhere: ElsewherePort | None = None,
    ) -> None:
        """elsewhere: None: this process has all connections that it can tell of."""
        self._elsewhere = elsewhere
        self._owners = owners
        self._clients = clients
        self._node = node
        self._caller = caller
        self._delimiter = delimiter

    def routes(self) -> list[ApiOp]:
        """All of them."""
        subscriptions = tuple(param for param in _QUEUE_FILTERS if param.name not in ("routing", "type"))
        return [
            ApiOp("GET", "/overview", "overview", "What this broker is and does.", self.overview, "Overview",
                  administrators=True),
            ApiOp("GET", "/queues", "queues", "Queues, a page at a time.", self.queues, "Queue",
                  (*listing(SORTS["queues"]), *_QUEUE_FILTERS), listed=True),
            ApiOp("GET", "/queues/{queue}", "queue", "One queue (NAME, or ADDRESS::NAME) in detail, with the reasons "
                  "why nothing is delivered.", self.queue, "QueueDetail"),
            ApiOp("GET", "/queues/{queue}/consumers", "queue-consumers", "Who consumes it.", self.queue_consumers,
                  "Consumer", listing(SORTS["consumers"]), listed=True),
            ApiOp("GET", "/addresses", "addresses", "Addresses.", self.addresses, "Address",
                  (*listing(SORTS["addresses"]), _Q), listed=True),
            ApiOp("GET", "/consumers", "consumers", "All consumers.", self.consumers, "Consumer",
                  (*listing(SORTS["consumers"]), Param("session", "only of this connection", "number")), listed=True),
            ApiOp("GET", "/subscriptions", "subscriptions", "Durable subscriptions.", self.subscriptions, "Queue",
                  (*listing(SORTS["queues"]), *subscriptions), listed=True),
            ApiOp("GET", "/connections", "connections", "Who is connected.", self.connections,
                  "Connection", (*listing(CONNECTIONS), Param("q", "only where this text is part of the peer, the user "
                  "or the client-id"), Param("user", "only of this user"), Param("peer", "only from this address, with "
                  "or without its port"), Param("blocked", "only those that cannot (can) send on: a full address, a "
                  "rate, an owner that has much to do", "flag"), EDGE), listed=True, administrators=True),
            ApiOp("GET", "/connections/{id}", "connection", "One connection with its subscriptions.", self.connection,
                  "ConnectionDetail", (EDGE,), administrators=True),
            ApiOp("GET", "/acceptors", "acceptors", "Ports for clients, of all edges.", self.acceptors, "Acceptor",
                  listed=True),
            ApiOp("GET", "/transactions", "transactions", "Prepared transactions: COMMITs over several slots that are "
                  "not carried out yet, a line for each slot.", self.transactions, "Transaction",
                  listing(SORTS["transactions"]), listed=True, administrators=True),
            ApiOp("GET", "/settings", "settings", "All settings with their reasons.", self.settings, "Setting",
                  (_Q, Param("changed", "only those that are not at their default", "flag")), listed=True,
                  administrators=True),
        ]  # fmt: skip

    # ── handlers ───────────────────────────────────────────────────────────────────────────────────

    async def overview(self, call: Call) -> Any:
        answers, missing = await self._owners.ask(call.asks({"kind": "totals"}))
        clients, silent = await self.of_clients(call.asks({"kind": "clients"}))
        return {
            **self._node.about(), "messaging": summed(answers), "clients": summed(clients),
            "missing": named([*missing, *silent]),
        }  # fmt: skip

    async def queues(self, call: Call) -> Any:
        return await self._list("queues", call, call.query)

    async def subscriptions(self, call: Call) -> Any:
        return await self._list("queues", call, {**call.query, "type": "subscription"})

    async def addresses(self, call: Call) -> Any:
        return await self._list("addresses", call, call.query)

    async def consumers(self, call: Call) -> Any:
        return await self._list("consumers", call, call.query)

    async def queue(self, call: Call) -> Any:
        rows, missing = await self.find(call.who, call.path["queue"])
        return {"parts": rows, "name": rows[0]["name"], "address": rows[0]["address"], "missing": named(missing)}

    async def queue_consumers(self, call: Call) -> Any:
        rows, _ = await self.find(call.who, call.path["queue"])
        where = {"queue": rows[0]["name"], "address": rows[0]["address"]}
        return await self._list("consumers", call, {**call.query, **where})

    async def connections(self, call: Call) -> Any:
        asked = call.asks(question("connections", call.query))
        return listed(asked, *await self.of_clients(asked))

    async def connection(self, call: Call) -> Any:
        id = call.path["id"]
        if (number := natural(id)) is None:
            raise unknown("connection", id, "its id is a number; GET connections lists them")
        answers, missing = await self.of_clients(self.one_client("connection", number, call.query.get("edge")))
        answer = next(filter(None, answers), None)
        if answer is None and missing:
            raise absent(missing, "ask again when it is back")
        if answer is None:
            raise unknown("connection", id, "it has ended; GET connections lists those of now")
        asked = {"limit": 500, "sort": "consumer", "session": number, "edge": answer["edge"]}
        found = await self._list("consumers", call, asked)
        return {**answer, "consumers": found["items"]}

    async def acceptors(self, call: Call) -> Any:
        answers, missing = await self.of_clients(call.asks({"kind": "acceptors"}))
        rows: dict[str, Answer] = {}
        for row in [row for answer in answers for row in answer["rows"]]:
            known = rows.setdefault(row["name"], {**row, "connections": 0})
            known["connections"] += row["connections"]
        return {"items": list(rows.values()), "total": len(rows), "next": None, "missing": named(missing)}

    async def settings(self, call: Call) -> Any:
        part, changed = call.query.get("q", ""), call.query.get("changed")
        rows = [
            row
            for row in self._node.settings()
            if part in row["name"] and (changed is None or (row["source"] != "default") is changed)
        ]
        return {"items": rows, "total": len(rows), "next": None, "missing": []}

    async def transactions(self, call: Call) -> Any:
        return await self._list("transactions", call, call.query)

    def one_client(self, kind: str, id: int, edge: str | None, **more: Any) -> dict[str, Any]:
        """The question about one connection; without `edge` it is one of this process."""
        own = self._elsewhere.own_name if self._elsewhere is not None else ""
        return {"kind": kind, "id": id, "edge": edge or own, **more}

    async def of_clients(self, asked: dict[str, Any]) -> tuple[list[Answer], list[Missing]]:
        """Of all processes that have connections of this broker, or of the one that `edge` says."""
        elsewhere, edge = self._elsewhere, asked.get("edge")
        if edge and (elsewhere is None or not elsewhere.own_name):
            raise unknown("edge", edge, "this broker has no edges with names: leave it out")
        mine = elsewhere is None or not edge or edge == elsewhere.own_name
        own = [await self._work(asked)] if mine else []
        if elsewhere is None or (edge and mine):
            return own, []
        others, missing = await elsewhere.ask(asked)
        return own + others, missing

    async def of_edges(self, asked: dict[str, Any]) -> tuple[list[Answer], list[Missing]]:
        """Of all that have an API of their own: the processes of `serve --edges` have none."""
        if asked.get("edge") or self._elsewhere is None or self._elsewhere.own_name:
            return await self.of_clients(asked)
        return [await self._work(asked)], []

    async def _work(self, asked: dict[str, Any]) -> Answer:
        return await self._caller.work(self._clients.answer(asked), UNHURRIED in asked)

    # ── what others need as well ───────────────────────────────────────────────────────────────────

    async def find(self, who: Who, name: str) -> tuple[list[Answer], list[Missing]]:
        """All parts of a queue. Raises Problem if there is none, or not for him."""
        address, mark, queue = name.partition(FQQN)
        asked = {"kind": "queue", "name": queue, "address": address} if mark else {"kind": "queue", "name": name}
        answers, missing = await self._owners.ask(asked)
        rows = [row for answer in answers for row in answer["rows"] if self.allowed(who, row["address"])]
        if not rows and missing:
            raise absent(missing, "ask again when it is back")
        if not rows:
            raise unknown("queue", name, "GET queues?q=… finds names; a queue of another name than its address is "
                          "ADDRESS::NAME")  # fmt: skip
        return rows, missing

    async def dead_letter_queues(self, who: Who, most: int) -> tuple[list[Answer], list[Missing]]:
        """Queues with messages at the dead letter and expiry addresses of the settings, the longest first."""
        addresses = self._node.dead_letter_addresses()[:ADDRESSES]
        wanted = {"limit": most, "sort": "-messages", "addresses": addresses, "filled": True}
        # One question to each owner, however many addresses there are: a hundred of them one after the other were as
        # many walks over all queues, and 500 s beside an owner that hangs.
        asked = question("queues", wanted)
        answers, missing = await self._owners.ask(self._for(who, asked))
        # An owner of the release before ours doesn't know the word, and tells its longest queues of any address: taken
        # out before the longest of all are chosen.
        for answer in answers:
            answer["rows"] = [row for row in answer["rows"] if row["address"] in addresses]
        rows = listed(asked, answers, missing)["items"]
        return sorted(rows, key=lambda row: (-row["messages"], row["name"])), missing

    async def complete(self, asked: dict[str, Any]) -> list[Answer]:
        """The answers of all owners. Raises Problem if one is missing, or of a release that does not know questions:
        then it does not know what operators do either."""
        answers, missing = await self._owners.ask(asked)
        if missing:
            raise absent(missing, "ask again when it is back")
        return answers

    def allowed(self, who: Who, address: str) -> bool:
        """May he manage it."""
        return who.may is None or first_said(who.may, self._delimiter)(address)

    async def _list(self, kind: str, call: Call, values: dict[str, Any]) -> dict[str, Any]:
        asked = call.asks(self._for(call.who, question(kind, values)))
        answers, missing = await self._owners.ask(asked)
        return listed(asked, answers, missing)

    def _for(self, who: Who, asked: dict[str, Any]) -> dict[str, Any]:
        """What he may be told of it."""
        if who.may is None:
            return asked
        return asked | {"may": [list(entry) for entry in who.may], "delimiter": self._delimiter}


def absent(missing: list[Missing], fix: str) -> Problem:
    """Not without all owners."""
    return Problem(
        503, "owner-missing", "An owner is missing", f"{missing[0].owner}: {missing[0].why}", fix,
        missing=named(missing),
    )  # fmt: skip


def listed(asked: dict[str, Any], answers: list[Answer], missing: list[Missing]) -> dict[str, Any]:
    """One page of several."""
    limit = asked["limit"]
    rows = list(merge(*[answer["rows"] for answer in answers], key=itemgetter("at"), reverse=asked["descending"]))
    more = len(rows) > limit or any(answer["more"] for answer in answers)
    rows = rows[:limit]
    next = token(asked, rows[-1]["at"]) if more and rows else None
    items = [{name: value for name, value in row.items() if name != "at"} for row in rows]
    return {
        "items": items,
        "total": sum([answer["total"] for answer in answers]),
        "next": next,
        "missing": named(missing),
    }


def summed(answers: list[Answer]) -> Answer:
    """Numbers of the same name added up, in tables too; of texts the first."""
    total: Answer = {}
    for answer in answers:
        for name, value in answer.items():
            if isinstance(value, dict):
                total[name] = summed([total.get(name, {}), value])
            elif isinstance(value, int):
                total[name] = total.get(name, 0) + value
            else:
                total.setdefault(name, value)
    return total
