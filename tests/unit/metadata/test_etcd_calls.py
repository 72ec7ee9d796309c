"""Calls to etcd: which are asked again, what errors mean, and that a store that is down is looked for by one task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from broker.config.settings import EtcdSettings
from broker.core.errors import ConfigError
from broker.metadata import etcd_calls as module
from broker.metadata.etcd_calls import TRANSIENT, EtcdCalls, EtcdConnection, Lost, judged
from broker.metadata.port import Compacted, MetadataRefused, MetadataUnavailable

CODES = grpc.StatusCode


class CallError(grpc.RpcError):
    """What gRPC raises."""

    def __init__(self, code: grpc.StatusCode, details: str = "") -> None:
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


@pytest.mark.parametrize(
    ("code", "details", "kind", "sent"),
    [
        (CODES.UNAVAILABLE, "failed to connect to all addresses", Lost, False),
        (CODES.UNAVAILABLE, "Connection refused", Lost, False), (CODES.UNAVAILABLE, "Socket closed", Lost, True),
        (CODES.UNAUTHENTICATED, "invalid auth token", Lost, False),
        (CODES.INVALID_ARGUMENT, "revision of auth store is old", Lost, False),
        (CODES.RESOURCE_EXHAUSTED, "etcdserver: too many requests", Lost, True),
        (CODES.OUT_OF_RANGE, "required revision has been compacted", Compacted, None),
        (CODES.PERMISSION_DENIED, "permission denied", MetadataRefused, None),
        (CODES.RESOURCE_EXHAUSTED, "message larger than max", MetadataRefused, None),
        *[(code, "", Lost, True) for code in TRANSIENT],
    ],
)  # fmt: skip
def test_what_an_error_means(code, details, kind, sent):
    found = judged(CallError(code, details))
    assert type(found) is kind and getattr(found, "sent", None) is sent
    assert details in str(found) and (details or str(found) == code.name)


def test_a_login_that_is_missing_is_told_with_the_settings():
    assert "set etcd.user" in str(judged(CallError(CODES.INVALID_ARGUMENT, "etcdserver: user name is empty")))


async def test_a_cancellation_is_the_channels_unless_it_is_ours():
    found = judged(asyncio.CancelledError())
    assert isinstance(found, Lost) and found.sent
    seen = []

    async def ours() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            seen.append(judged(error) is error)
            raise

    task = asyncio.create_task(ours())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen == [True]


# ── which endpoint is asked, and how often ─────────────────────────────────────────────────────────────


class Member(EtcdConnection):
    """One endpoint: gives what stands next in `answers`."""

    def __init__(self, endpoint: str, answers: list[Any]) -> None:
        super().__init__(endpoint, SimpleNamespace(close=self.close))
        self.answers = answers
        self.asked: list[float] = []
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1

    async def ask(self, method: str, request: Any, answer: Any, timeout_s: float) -> Any:
        self.asked.append(timeout_s)
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class Etcd:
    """opens   endpoint → what opening a connection gives, one after the other; the last one again."""

    def __init__(self) -> None:
        self.opens: dict[str, list[Any]] = {}
        self.tried: list[str] = []
        self.paused: list[float] = []
        self.made: list[EtcdCalls] = []
        self.goes_on = asyncio.Event()
        """Pauses end."""
        self.goes_on.set()

    def calls(self, *endpoints: str, timeout_s: float = 5.0) -> EtcdCalls:
        calls = EtcdCalls(EtcdSettings(endpoints=",".join(endpoints), timeout_s=timeout_s))
        calls._open = self.open
        self.made.append(calls)
        return calls

    async def open(self, endpoint: str) -> Member:
        self.tried.append(endpoint)
        found = self.opens[endpoint]
        next_one = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(next_one, Exception):
            raise next_one
        return next_one


@pytest.fixture
async def etcd(monkeypatch: pytest.MonkeyPatch):
    world, sleep = Etcd(), asyncio.sleep

    async def pause(seconds: float) -> None:
        world.paused.append(seconds)
        await sleep(0)
        await world.goes_on.wait()

    monkeypatch.setattr(module.asyncio, "sleep", pause)
    yield world
    for calls in world.made:
        await calls.close()


def answer(revision: int) -> Any:
    return SimpleNamespace(header=SimpleNamespace(revision=revision))


def put(calls: EtcdCalls, repeat: bool = False) -> Any:
    return calls.ask("/etcdserverpb.KV/Put", None, None, repeat=repeat)


@pytest.mark.parametrize(
    ("sent", "repeat", "again"), [(True, False, False), (True, True, True), (False, False, True), (False, True, True)]
)
async def test_what_may_have_been_carried_out_is_asked_again_only_where_that_does_no_harm(etcd, sent, repeat, again):
    first, second = Member("a", [Lost("cut", sent)]), Member("a", [answer(5)])
    etcd.opens = {"a": [first, second]}
    calls = etcd.calls("a")
    if again:
        assert (await put(calls, repeat)).header.revision == 5
    else:
        with pytest.raises(MetadataUnavailable, match=r"etcd at a gives no answer \(cut\)"):
            await put(calls, repeat)
        assert second.asked == []
    await asyncio.gather(*calls._closing)
    assert first.closed == 1, "nobody uses it again"


@pytest.mark.parametrize("error", [MetadataRefused("no"), Compacted("gone")])
async def test_a_refusal_is_the_callers_and_the_connection_stays(etcd, error):
    member = Member("a", [error, answer(1)])
    etcd.opens = {"a": [member]}
    calls = etcd.calls("a")
    with pytest.raises(type(error)):
        await put(calls, True)
    assert (await put(calls)).header.revision == 1 and etcd.tried == ["a"] and member.closed == 0


async def test_a_frozen_member_does_not_use_up_the_whole_time(etcd):
    for endpoints, repeat, wanted in ((["a", "b"], True, 2.5), (["a", "b"], False, 5.0), (["a"], True, 5.0)):
        member = Member("a", [answer(1)])
        etcd.opens = {"a": [member]}
        await put(etcd.calls(*endpoints), repeat)
        assert member.asked == [wanted]


async def test_all_endpoints_in_turn_with_longer_pauses_and_one_line_each_way(etcd, caplog):
    member = Member("b", [answer(1)])
    etcd.opens = {"a": [OSError("dead")], "b": [*[Lost("no leader", False)] * 7, member]}
    with caplog.at_level(logging.INFO, "stampede.metadata"):
        await put(etcd.calls(" a", "b ", ""))
    assert etcd.tried == ["a", "b"] * 8
    assert etcd.paused == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert caplog.messages == [
        "the metadata store does not answer, trying again until it does: a: dead; b: no leader",
        "the metadata store answers again (b)",
    ]


async def test_many_who_wait_cost_one_search(etcd):
    member = Member("a", [answer(n) for n in range(1, 21)])
    etcd.opens = {"a": [OSError("dead"), member]}
    calls = etcd.calls("a")
    await asyncio.gather(*[put(calls) for _ in range(20)])
    assert etcd.tried == ["a", "a"] and len(member.asked) == 20


async def test_a_login_that_is_refused_is_told_to_who_asks_and_tried_on(etcd):
    member = Member("a", [answer(1)])
    etcd.opens = {"a": [MetadataRefused("wrong password"), member]}
    calls = etcd.calls("a")
    etcd.goes_on.clear()
    for _ in range(2):
        with pytest.raises(MetadataRefused, match="wrong password"):
            await put(calls)
    etcd.goes_on.set()
    assert calls._search is not None
    await calls._search
    assert (await put(calls)).header.revision == 1


async def test_a_revision_that_went_back_is_data_that_were_lost(etcd, caplog):
    member = Member("a", [answer(9), answer(9), answer(4), answer(3)])
    etcd.opens = {"a": [member]}
    calls = etcd.calls("a")
    await put(calls)
    await put(calls)
    assert calls.rewound == ""
    await put(calls)
    assert calls.rewound == "etcd has lost data: it was at revision 9 and is at 4"
    await put(calls)
    assert len([line for line in caplog.messages if "Restart no owner" in line]) == 1


async def test_only_answers_about_keys_have_a_revision_that_counts(etcd):
    member = Member("a", [answer(9), answer(1)])
    etcd.opens = {"a": [member]}
    calls = etcd.calls("a")
    await put(calls)
    await calls.ask("/etcdserverpb.Lease/LeaseGrant", None, None, repeat=True)
    assert calls.rewound == ""


async def test_a_store_that_never_answers_is_told_within_the_time(etcd):
    etcd.opens = {"a": [OSError("dead")]}
    with pytest.raises(MetadataUnavailable, match="no answer"):
        await put(etcd.calls("a", timeout_s=0.02))


async def test_a_closed_client_says_so_and_closes_what_it_had(etcd):
    member = Member("a", [answer(1)])
    etcd.opens = {"a": [member]}
    calls = etcd.calls("a")
    await put(calls)
    await calls.close()
    assert member.closed == 1
    with pytest.raises(MetadataUnavailable, match="the client was closed"):
        await put(calls)


@pytest.mark.parametrize("leader", [0, 5])
async def test_a_member_that_knows_no_leader_is_not_used(leader):
    member = Member("a", [SimpleNamespace(leader=leader)])
    greet: Callable[[EtcdConnection], Any] = EtcdCalls(EtcdSettings(endpoints="a"))._greet
    if leader:
        await greet(member)
    else:
        with pytest.raises(Lost, match="knows no leader"):
            await greet(member)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"endpoints": " , "}, "etcd.endpoints is empty"), ({"cert_file": "/c"}, "TLS to etcd needs"),
        ({"ca_file": "/c", "key_file": "/k"}, "TLS to etcd needs"), ({"user": "u"}, "must be set together"),
        ({"password_file": "/p"}, "must be set together"), ({"ca_file": "/none"}, "Cannot read .*/none"),
        ({"user": "u", "password_file": "/none"}, "Cannot read .*/none"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused_at_once(wrong, named):
    with pytest.raises(ConfigError, match=named):
        EtcdCalls(EtcdSettings(**{"endpoints": "a", **wrong}))


def test_a_password_may_end_in_a_line(tmp_path):
    (tmp_path / "p").write_bytes(b" pass word \r\n")
    calls = EtcdCalls(EtcdSettings(endpoints="a", user="u", password_file=str(tmp_path / "p")))
    assert calls._password() == " pass word "
