"""An edge process asks its parent, and a session that waits is always told something."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.app.edges.parent_services import ParentNames, ParentTokens, client_ids, manage
from broker.app.edges.registry import ProcessClientIds
from broker.core.errors import BrokerError, Code, RefusedError


class Connection:
    """With a client-id."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.taken = False

    def taken_over(self) -> None:
        self.taken = True


class Parent:
    """Answers with what the test has said."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    def ask(self, kind: str, about: Any = None) -> asyncio.Future[Any]:
        self.asked.append((kind, about))
        future = asyncio.get_running_loop().create_future()
        answer = self.answers[kind]
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    tell = ask


async def claimed(parent: Parent, policy: str = "refuse") -> tuple[ProcessClientIds, Connection, list[Any]]:
    ids, one, answers = client_ids(parent, policy), Connection(1), []
    assert ids is not None
    ids.claim("ada", one, answers.append)
    await asyncio.sleep(0)
    return ids, one, answers


async def test_a_client_id_of_ours_and_one_of_another_process():
    ids, one, answers = await claimed(Parent(claim_id=True, release_id=None))
    assert answers == [None]
    ids.claim("ada", Connection(2), answers.append)
    assert answers[1].code is Code.CLIENT_ID_IN_USE
    ids.release("ada", Connection(2))
    ids.release("ada", one)
    ids.claim("ada", Connection(3), answers.append)
    await asyncio.sleep(0)
    assert answers[2] is None
    _, _, answers = await claimed(Parent(claim_id=False))
    assert answers[0].code is Code.CLIENT_ID_IN_USE
    _, _, answers = await claimed(Parent(claim_id=BrokerError("gone")))
    assert answers[0].code is Code.INTERNAL


async def test_nobody_is_asked_where_all_may_have_it():
    assert client_ids(Parent(), "allow") is None


async def test_a_takeover_ends_the_one_before():
    ids, one, answers = await claimed(Parent(claim_id=True), "takeover")
    two = Connection(2)
    ids.claim("ada", two, answers.append)
    await asyncio.sleep(0)
    assert one.taken and answers == [None, None]
    ids.lost("ada", 1)
    assert not two.taken, "the word was about the one before"
    ids.lost("ada", 2)
    assert two.taken


async def test_names_tokens_and_management_are_the_parents():
    parent = Parent(claim_name="news", find_name=None, release_name=None, lease=7, manage=None)
    names = ParentNames(parent)
    assert await names.claim("a", "b") == "news" and await names.find("a") is None
    await names.release("a", "b")
    told: list[Any] = []
    ParentTokens(parent).lease("ada", 1, 2, 3, told.append)
    manage(parent, [], told.append)
    parent.answers.update(manage=RefusedError(Code.NOT_ALLOWED, "no"), lease=BrokerError("gone"))
    manage(parent, [], told.append)
    ParentTokens(parent).lease("ada", 1, 2, 3, told.append)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told[:2] == [7, None] and told[2].code is Code.NOT_ALLOWED and told[3] is None
