"""What edge processes agree on: a client-id has one holder, a durable name one address, a rate one bucket."""

from __future__ import annotations

from broker.app.edges.registry import PARENT, IdRegistry, ProcessClientIds, Registry
from broker.edge.destinations.directory import LocalNames
from broker.edge.subscriptions.rate_limits import LocalTokens
from tests.unit.app.test_parent_services import Connection


def of_the_parent(policy: str, ids: IdRegistry) -> ProcessClientIds:
    return ProcessClientIds(
        policy, lambda name, id, told: told(ids.claim(PARENT, name, id)), lambda name, id: ids.release(PARENT, name, id)
    )


def test_a_client_id_is_refused_to_another_process():
    ids = IdRegistry("refuse", lambda *lost: None)
    assert ids.claim(1, "ada", 5) and not ids.claim(2, "ada", 6)
    assert ids.claim(1, "ada", 7), "among its own connections a process decides"
    ids.release(1, "ada", 5)
    assert not ids.claim(2, "ada", 6), "5 had lost it to 7"
    ids.release(1, "ada", 7)
    assert ids.claim(2, "ada", 6)


def test_or_it_is_taken_over():
    lost = []
    ids = IdRegistry("takeover", lambda *told: lost.append(told))
    assert ids.claim(1, "ada", 5) and ids.claim(2, "ada", 6)
    assert lost == [(1, "ada", 5)]


def test_what_a_process_had_is_free_when_it_has_ended():
    ids = IdRegistry("refuse", lambda *lost: None)
    ids.claim(1, "ada", 5)
    ids.claim(2, "bob", 6)
    ids.gone(1)
    assert ids.claim(3, "ada", 8) and not ids.claim(3, "bob", 9)


def test_connections_in_the_parent_take_part_and_refuse_each_other():
    ids = IdRegistry("refuse", lambda *lost: None)
    own, first, second, answers = of_the_parent("refuse", ids), Connection(1), Connection(2), []
    own.claim("ada", first, answers.append)
    assert not ids.claim(1, "ada", 5)
    own.claim("ada", second, answers.append)
    assert answers[0] is None and "ada" in str(answers[1]) and not first.taken
    own.release("ada", second)
    assert not ids.claim(1, "ada", 5)
    own.release("ada", first)
    assert ids.claim(1, "ada", 5)
    own.claim("ada", first, answers.append)
    assert "ada" in str(answers[2])


def test_and_take_over_and_lose_theirs():
    own = of_the_parent("takeover", IdRegistry("takeover", lambda *lost: own.lost(*lost[1:])))
    first, second, answers = Connection(1), Connection(2), []
    own.claim("ada", first, answers.append)
    own.claim("ada", second, answers.append)
    assert answers == [None, None] and first.taken and not second.taken
    own.lost("ada", 1)
    assert not second.taken, "the word was about the one before"
    own.lost("ada", 2)
    own.lost("ada", 2)
    assert second.taken


def test_names_and_rates_are_those_of_the_parent():
    clock = type("C", (), {"monotonic": staticmethod(lambda: 0.0)})()
    names = LocalNames()
    all_of_it = Registry(IdRegistry("refuse", lambda *lost: None), names, LocalTokens(clock))
    assert all_of_it.claim_name(1, "ada.news", "news") is None
    assert all_of_it.claim_name(2, "ada.news", "other") == "news" == all_of_it.find_name(2, "ada.news")
    assert all_of_it.claim_name(2, "ada.news", "news") is None
    all_of_it.release_name(1, "ada.news", "other")
    assert names.address_of("ada.news") == "news"
    all_of_it.release_name(1, "ada.news", "news")
    assert all_of_it.find_name(1, "ada.news") is None
    assert [all_of_it.lease(n, "ada", 10, 10, 6) for n in (1, 2)] == [6, 4]
    assert all_of_it.claim_id(1, "ada", 5) and not all_of_it.claim_id(PARENT, "ada", 6)
    all_of_it.gone(1)
    assert all_of_it.claim_id(2, "ada", 5)
    all_of_it.release_id(2, "ada", 5)
    assert all_of_it.claim_id(1, "ada", 5)
