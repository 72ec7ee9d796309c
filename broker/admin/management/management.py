"""Artemis' management messages: what a SEND to `activemq.management` asks for, carried out by operations of the API.

  _AMQ_ResourceName    broker, queue.NAME or address.NAME
  _AMQ_Attribute       what to read: `messageCount`
  _AMQ_OperationName   what to do: `moveMessages`; its arguments are the body, a JSON array

The answer goes to reply-to: `_AMQ_OperationSucceeded`, and in the body a JSON array with the result, or with why not.

Rule: nothing is done here that the API does not do, for nobody who may not do it there; each change is in the audit
log. Names are those of the virtual host that the request comes from, and reach nothing outside of it. Names of Artemis
stand in these tables alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from broker.core.commands import Command, Publish
from broker.core.errors import Code, RefusedError
from broker.core.management import SCHEDULER, STATISTICS, ManagementRequest, ReplyTo, name_of
from broker.core.virtual_host import VirtualHost, host_of

from ..api import audit
from ..api.access import Gate, Who
from ..api.calls import ApiOp, Call
from ..api.params import read
from ..api.problems import Problem, bad_value, unknown
from ..desk import shown_messages
from ..desk.desk import Desk
from .scheduler_messages import SchedulerMessages
from .statistics_messages import StatisticsMessages

_log = logging.getLogger("stampede.admin")

MOST_NAMES: Final = 500
MOST_SHOWN: Final = 200
RESOURCE, ATTRIBUTE, OPERATION, SUCCEEDED = (
    "_AMQ_ResourceName", "_AMQ_Attribute", "_AMQ_OperationName", "_AMQ_OperationSucceeded",
)  # fmt: skip
OF_QUEUE: Final[Mapping[str, str]] = {
    "messageCount": "messages", "consumerCount": "consumers", "deliveringCount": "delivering",
    "scheduledCount": "scheduled", "persistentSize": "bytes", "name": "name", "address": "address",
    "routingType": "routing", "durable": "durable", "paused": "paused", "filter": "selector",
    "exclusive": "exclusive", "maxConsumers": "max_consumers", "deadLetterAddress": "dead_letter_address",
    "expiryAddress": "expiry_address",
}  # fmt: skip
"""Attribute of a queue → what the API calls it. Numbers of its parts are added up."""
OF_ADDRESS: Final = ("queueNames", "queueCount", "messageCount", "routingTypes")
OF_BROKER: Final = ("queueNames", "addressNames", "version", "connectionCount", "totalMessageCount")
FQQN: Final = "::"


class MessageAsker(NamedTuple):
    """Who asks, and from which virtual host."""

    who: Who
    host: VirtualHost

    def place(self, name: str) -> str:
        """What he calls a queue or address, as the broker has it: ADDRESS::QUEUE has two names."""
        return FQQN.join(map(self.host.inside, name.split(FQQN)))

    def told(self, value: Any) -> Any:
        """The same the other way, of a text or of all in a list."""
        if isinstance(value, list):
            return [self.told(each) for each in value]
        return self.host.told(value) if isinstance(value, str) else value


Operation = Callable[["MessageManagement", MessageAsker, str, Sequence[Any]], Awaitable[Any]]


class MessageManagement:
    """ops: of the API."""

    def __init__(self, gate: Gate, ops: Sequence[ApiOp], desk: Desk) -> None:
        self._gate = gate
        self._ops = {op.name: op for op in ops}
        self._desk = desk
        self._scheduler = SchedulerMessages(self.run, desk)
        self._statistics = StatisticsMessages(self.run, desk)
        self._tasks: set[asyncio.Task[None]] = set()

    def manage(self, requests: Sequence[ManagementRequest], done: Callable[[RefusedError | None], None]) -> None:
        """core.management.Manage."""
        task = asyncio.get_running_loop().create_task(self._all(requests, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _all(self, requests: Sequence[ManagementRequest], done: Callable[[RefusedError | None], None]) -> None:
        refused = None
        for request in requests:
            try:
                await self._one(request)
            except RefusedError as why:
                refused = refused or why
            except Problem as problem:
                refused = refused or RefusedError(Code.NOT_ALLOWED, request.host.told(f"{problem}; {problem.fix}"))
            except Exception:
                # Whatever it is: frames of the client wait for this.
                _log.exception("the answer to a management message: internal error")
                refused = RefusedError(Code.INTERNAL, "the log of the broker says more")
        done(refused)

    async def _one(self, request: ManagementRequest) -> None:
        """Raises RefusedError when the answer cannot be sent."""
        asked = name_of(request.headers["destination"])
        if asked == SCHEDULER or asked.startswith(STATISTICS):
            others = self._scheduler if asked == SCHEDULER else self._statistics
            await others.carry(self._gate.who(request.user, request.peer), request)
            return
        try:
            result, succeeded = await self._carried(request), True
        except Problem as problem:
            text = f"{problem}; {problem.fix}" if problem.fix else str(problem)
            result, succeeded = request.host.told(text), False
        except RefusedError as why:
            result, succeeded = request.host.told(str(why)), False
        except Exception:
            _log.exception("a management message: internal error")
            result, succeeded = "internal error; the log of the broker says more", False
        if request.reply is not None:
            await self._answer(request, request.reply, result, succeeded)

    async def _carried(self, request: ManagementRequest) -> Any:
        headers = request.headers
        kind, _, name = headers.get(RESOURCE, "").partition(".")
        asker = MessageAsker(self._gate.who(request.user, request.peer), request.host)
        attribute, operation = headers.get(ATTRIBUTE), headers.get(OPERATION)
        if attribute is not None:
            return asker.told(await self._read(asker, kind, name, attribute))
        if operation is None:
            raise bad_value(RESOURCE, headers.get(RESOURCE, ""), f"name {ATTRIBUTE} or {OPERATION} beside it")
        carry = OPERATIONS.get(kind, {}).get(operation)
        if carry is None:
            known = ", ".join(sorted(OPERATIONS.get(kind, {}))) or "broker, queue.NAME, address.NAME"
            raise unknown("operation", f"{operation} of {kind}", f"known are {known}")
        outcome = "failed"
        try:
            result = await carry(self, asker, asker.place(name), _arguments(request.body))
            outcome = "done"
            return result
        finally:
            if operation not in READ_ONLY:
                of = f"{kind}.{asker.place(name)}" if name else headers.get(RESOURCE, "")
                audit.note(asker.who.name, asker.who.peer, operation, of[:1000], outcome, by="message")

    async def _answer(self, request: ManagementRequest, to: ReplyTo, result: Any, succeeded: bool) -> None:
        headers = {"destination": request.headers["reply-to"], SUCCEEDED: str(succeeded).lower()}
        if "correlation-id" in request.headers:
            headers["correlation-id"] = request.headers["correlation-id"]
        body = msgspec.json.encode([result])
        head = {**headers, "content-type": "application/json", "content-length": str(len(body))}
        run = shown_messages.made(head, body,
                           durable=False, priority=4)  # fmt: skip

        def publish(session: int, seq: int) -> Command:
            return Publish(to.slot, session, seq, to.address, to.routing, run, to.queue, to.create)

        with self._desk.errand() as errand:
            await errand.ask(publish)

    # ── reading ────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, asker: MessageAsker, kind: str, name: str, attribute: str) -> Any:
        who = asker.who
        known: Sequence[str] = {"queue": [*OF_QUEUE], "address": OF_ADDRESS, "broker": OF_BROKER}.get(kind, ())
        if attribute not in known:
            fix = f"known are {', '.join(known)}" if known else "resources are broker, queue.NAME and address.NAME"
            raise unknown("attribute", f"{attribute} of {kind}", fix)
        if kind == "queue":
            return await self._of_queue(who, asker.place(name), OF_QUEUE[attribute])
        if kind == "address":
            return await self._of_address(who, asker.place(name), attribute)
        if attribute in ("queueNames", "addressNames"):
            return await self._names(asker, "queues" if attribute == "queueNames" else "addresses")
        if asker.host.name:
            raise unknown(
                "attribute", f"{attribute} of broker", "it is about all virtual hosts: ask in the default one"
            )
        overview = await self.run(who, "overview", {})
        if attribute == "version":
            return overview["version"]
        if attribute == "connectionCount":
            return overview["clients"]["connections"]
        return overview["messaging"]["messages"]

    async def _of_queue(self, who: Who, name: str, field: str) -> Any:
        values = [part[field] for part in (await self.run(who, "queue", {"queue": name}))["parts"]]
        return sum(values) if type(values[0]) is int and field != "max_consumers" else values[0]

    async def _of_address(self, who: Who, name: str, attribute: str) -> Any:
        rows = await self._listed(who, "queues", {"address": name})
        if attribute == "queueNames":
            return sorted({row["name"] for row in rows})
        if attribute == "queueCount":
            return len({row["name"] for row in rows})
        if attribute == "routingTypes":
            return sorted({row["routing"] for row in rows})
        return sum([row["messages"] for row in rows])

    async def _names(self, asker: MessageAsker, kind: str) -> list[str]:
        """Of the virtual host; in the default one operators are told those of all."""
        host = asker.host
        rows = await self._listed(asker.who, kind, {"q": host.inside("")} if host.name else {})
        of = [row["name"] for row in rows if not host.name or host_of(row.get("address", row["name"])) == host.name]
        return sorted(set(of))

    async def _listed(self, who: Who, kind: str, where: dict[str, Any]) -> list[dict[str, Any]]:
        page = await self.run(who, kind, {}, {**where, "limit": str(MOST_NAMES)})
        if page["missing"]:
            raise Problem(503, "owner-missing", "An owner is missing", "the answer would not be whole",
                          "ask again when it is back")  # fmt: skip
        if page["next"] is not None:
            raise Problem(
                409, "too-many", "Too many", f"there are {page['total']}, an answer has {MOST_NAMES}",
                f"page through GET /api/v1/{kind}",
            )  # fmt: skip
        rows: list[dict[str, Any]] = page["items"]
        return rows

    # ── operations ─────────────────────────────────────────────────────────────────────────────────

    async def run(
        self, who: Who, op: str, path: dict[str, str], query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """An operation of the API. Raises Problem."""
        known = self._ops[op]
        known.check(who)
        values = read(known.query, query or {}, "the request"), read(known.body, body or {}, "the request")
        return await known.handler(Call(who, path, *values))

    async def carry(self, who: Who, op: str, queue: str, body: dict[str, Any]) -> int:
        """Messages that an operation has moved, to the last one."""
        total = 0
        while True:
            report = await self.run(who, op, {"queue": queue}, None, body)
            total += int(report["done"])
            if not (report["more"] and report["done"]):
                return total


def _arguments(body: bytes) -> Sequence[Any]:
    """Raises Problem."""
    try:
        found = msgspec.json.decode(body) if body.strip() else []
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str | int | bool | None) for each in found):
        raise bad_value("the body", repr(body[:100]), 'a JSON array of arguments, like ["colour = \'red\'", "other"]')
    return found


def _text(arguments: Sequence[Any], at: int, what: str) -> str:
    """One that must be there."""
    value = arguments[at] if at < len(arguments) else None
    if value is None or value == "":
        raise bad_value("the body", str(list(arguments))[:100], f"argument {at + 1} is {what}")
    return str(value)


def _selector(arguments: Sequence[Any]) -> dict[str, Any]:
    return {"selector": str(arguments[0])} if arguments and arguments[0] else {}


def _on_all(op: str) -> Operation:
    async def carry(api: MessageManagement, asker: MessageAsker, name: str, arguments: Sequence[Any]) -> Any:
        return await api.carry(asker.who, op, name, _selector(arguments))

    return carry


def _on_one(op: str) -> Operation:
    async def carry(api: MessageManagement, asker: MessageAsker, name: str, arguments: Sequence[Any]) -> Any:
        return await api.carry(asker.who, op, name, {"ids": [_text(arguments, 0, "the id of a message")]}) > 0

    return carry


async def _move(api: MessageManagement, asker: MessageAsker, name: str, arguments: Sequence[Any]) -> Any:
    to = asker.place(_text(arguments, 1, "the address they go to"))
    return await api.carry(asker.who, "move-messages", name, {**_selector(arguments), "to": to})


async def _move_one(api: MessageManagement, asker: MessageAsker, name: str, arguments: Sequence[Any]) -> Any:
    to = asker.place(_text(arguments, 1, "the address it goes to"))
    body = {"ids": [_text(arguments, 0, "the id of a message")], "to": to}
    return await api.carry(asker.who, "move-messages", name, body) > 0


async def _list(api: MessageManagement, asker: MessageAsker, name: str, arguments: Sequence[Any]) -> Any:
    query = {**_selector(arguments), "limit": str(MOST_SHOWN)}
    items = (await api.run(asker.who, "messages", {"queue": name}, query))["items"]
    for item in items:
        item["headers"] = [[name, asker.told(value) if name in ORIGIN else value] for name, value in item["headers"]]
    return items


async def _count(api: MessageManagement, asker: MessageAsker, name: str, arguments: Sequence[Any]) -> Any:
    if _selector(arguments):
        raise bad_value("the body", str(arguments[0]), "nothing: listMessages has a filter, its first 200 are shown")
    return sum([part["messages"] for part in (await api.run(asker.who, "queue", {"queue": name}))["parts"]])


def _acts(op: str) -> Operation:
    async def carry(api: MessageManagement, asker: MessageAsker, name: str, arguments: Sequence[Any]) -> None:
        await api.run(asker.who, op, {"queue": name})

    return carry


async def _create(api: MessageManagement, asker: MessageAsker, _: str, arguments: Sequence[Any]) -> None:
    """createQueue(address, name), (address, name, routing) or, as newer ones say it, (address, routing, name)."""
    rest = [str(each) for each in arguments[1:]]
    routing = next((each for each in rest if each in ("ANYCAST", "MULTICAST")), "ANYCAST")
    names = [each for each in rest if each != routing]
    if len(names) > 1:
        raise bad_value("the body", str(list(arguments))[:100], "address, name and routing type")
    body = {"address": asker.place(_text(arguments, 0, "the address")), "routing": routing}
    await api.run(asker.who, "create-queue", {}, None, {**body, **({"name": asker.place(names[0])} if names else {})})


async def _destroy(api: MessageManagement, asker: MessageAsker, _: str, arguments: Sequence[Any]) -> None:
    force = "true" if len(arguments) > 1 and arguments[1] is True else "false"
    await api.run(asker.who, "delete-queue", {"queue": asker.place(_text(arguments, 0, "the queue"))}, {"force": force})


READ_ONLY: Final = ("listMessages", "countMessages")
ORIGIN: Final = ("_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE")
"""Headers of a dead letter that name things in full."""
OPERATIONS: Final[Mapping[str, Mapping[str, Operation]]] = {
    "queue": {
        "listMessages": _list, "countMessages": _count, "pause": _acts("pause-queue"), "resume": _acts("resume-queue"),
        "removeMessages": _on_all("purge-queue"), "removeAllMessages": _on_all("purge-queue"),
        "removeMessage": _on_one("purge-queue"), "retryMessages": _on_all("retry-messages"),
        "retryMessage": _on_one("retry-messages"), "moveMessages": _move, "moveMessage": _move_one,
    },
    "broker": {"createQueue": _create, "destroyQueue": _destroy},
}  # fmt: skip
"""Kind of resource → name of an operation of Artemis → what does it."""
