"""Parameters of the API: what cannot be meant is refused by name, with what could stand there."""

from __future__ import annotations

import pytest

from broker.admin.api.params import LONGEST, Param, listing, question, read, token
from broker.admin.api.problems import Problem
from tests.harness.admin_messages import filled


async def test_a_page_of_another_list_is_refused_by_name(api):
    await filled(api)
    page = (await api.get("/queues", limit=1))["next"]
    for other in ("/queues?sort=-name&page=" + page, "/addresses?page=" + page, "/queues?page=xyz", "/queues?page=é"):
        status, told = await api.raw("GET", other)
        assert (status, told["type"]) == (400, "urn:stampede:problem:stale-page")
        assert told["parameter"] == "page" and told["fix"]


@pytest.mark.parametrize(
    ("path", "status", "problem", "says"),
    [
        ("/queues?colour=red", 400, "unknown-parameter", "sort"),
        ("/queues?sort=colour", 400, "bad-value", "messages"),
        ("/queues?limit=0", 400, "bad-value", "1 to"),
        ("/queues?limit=1&limit=2", 400, "unknown-parameter", "twice"),
        ("/queues?filled=perhaps", 400, "bad-value", "true or false"),
        ("/queues/nothing", 404, "no-such-queue", "nothing"),
        ("/queues/a%3A%3Anothing", 404, "no-such-queue", "a::nothing"),
        ("/connections/77777", 404, "no-such-connection", "77777"),
        ("/connections/x", 404, "no-such-connection", "number"),
    ],
)  # fmt: skip
async def test_what_cannot_be_meant_is_named_with_the_fix(api, path, status, problem, says):
    found, told = await api.raw("GET", path)
    assert (found, told["type"]) == (status, f"urn:stampede:problem:{problem}")
    assert says in told["detail"] + told["fix"]


@pytest.mark.parametrize(
    ("param", "given", "read_as"),
    [
        (Param("n", "", "number", least=1, most=9), "9", 9),
        (Param("n", "", "number", least=-5), -5, -5),
        (Param("f", "", "flag"), "", True),
        (Param("f", "", "flag"), "0", False),
        (Param("f", "", "flag"), False, False),
        (Param("l", "", "texts"), ["a", 1], ["a", "1"]),
        (Param("l", "", "messages"), [{}], [{}]),
        (Param("t", "", "table"), {"a": None, "b": 1}, {"a": None, "b": 1}),
        (Param("t", "", choices=("a", "b")), "b", "b"),
        (Param("t", ""), "x" * LONGEST, "x" * LONGEST),
        (Param("body", ""), "x" * (1 << 20), "x" * (1 << 20)),
    ],
)
def test_values_mean_exactly_what_stands_there(param, given, read_as):
    assert param.read(given) == read_as and type(param.read(given)) is type(read_as)


@pytest.mark.parametrize(
    ("param", "given"),
    [
        (Param("n", "", "number", least=1, most=9), "10"),
        (Param("n", "", "number", least=1, most=9), "0"),
        (Param("n", "", "number"), True),
        (Param("n", "", "number"), "1.0"),
        (Param("n", "", "number"), "٣"),
        (Param("n", "", "number", most=1 << 90), "1" * 21),
        (Param("f", "", "flag"), "maybe"),
        (Param("l", "", "texts"), ["a", 1.5]),
        (Param("l", "", "texts"), "a"),
        (Param("l", "", "messages"), ["a"]),
        (Param("t", "", "table"), {}),
        (Param("t", "", "table"), {"a": {}}),
        (Param("t", "", "table"), {"a": []}),
        (Param("t", "", "table"), {str(n): 1 for n in range(101)}),
        (Param("t", "", "table"), {"a" * 101: 1}),
        (Param("t", "", "table"), {"a": "x" * (LONGEST + 1)}),
        (Param("t", "", choices=("a", "b")), "A"),
        (Param("t", ""), "x" * (LONGEST + 1)),
        (Param("t", ""), 5),
        (Param("body", ""), "x" * ((1 << 20) + 1)),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(param, given):
    with pytest.raises(Problem) as refused:
        param.read(given)
    assert (refused.value.status, refused.value.name) == (400, "bad-value")
    assert refused.value.more["parameter"].split(".")[0] == param.name and len(refused.value.detail) < 400


def test_what_is_missing_has_its_default_or_is_asked_for():
    params = (Param("a", "", default="x"), Param("b", "the b", required=True), Param("c", ""))
    assert read(params, {"b": "y"}, "it") == {"a": "x", "b": "y"}
    with pytest.raises(Problem, match="it has no 'b'"):
        read(params, {}, "it")
    for known, fix in ((params, "known are a, b, c"), ((), "there are none here")):
        with pytest.raises(Problem, match="it has 'z'") as refused:
            read(known, {"z": "", "b": "y"} if known else {"z": ""}, "it")
        assert refused.value.fix == fix


def test_a_page_goes_on_where_the_one_before_has_ended_in_the_same_order_only():
    values = read(listing(("name", "size")), {"sort": "-size", "limit": "5"}, "it")
    asked = question("queues", values)
    assert (asked["sort"], asked["descending"], asked["limit"], asked["kind"]) == ("size", True, 5, "queues")
    page = token(asked, [7, ["a", "b"]])
    assert question("queues", {**values, "page": page})["after"] == [7, ["a", "b"]]
    other = [
        ("queues", {**values, "sort": "size"}, page), ("queues", {**values, "sort": "-name"}, page),
        ("addresses", values, page), ("queues", values, page[:-3]), ("queues", values, "!"),
        ("queues", values, token(asked, "no place")), ("queues", values, token(asked, [1.5, []])),
    ]  # fmt: skip
    for kind, given, text in other:
        with pytest.raises(Problem, match="page is of another list"):
            question(kind, {**given, "page": text})


def test_the_document_tells_the_same_bounds_that_are_kept_to():
    assert Param("n", "", "number", 5, least=1, most=9).schema() == {
        "type": "integer", "minimum": 1, "maximum": 9, "default": 5,
    }  # fmt: skip
    kinds = {kind: Param("x", "", kind).schema()["type"] for kind in ("flag", "texts", "messages", "table", "text")}
    assert kinds == {"flag": "boolean", "texts": "array", "messages": "array", "table": "object", "text": "string"}
    assert Param("x", "", choices=("a",)).schema()["enum"] == ["a"]


def test_a_number_at_its_longest_is_read():
    assert Param("n", "", "number", most=1 << 90).read("1" * 18) == int("1" * 18)
    with pytest.raises(Problem):
        Param("n", "", "number", most=1 << 90).read("1" * 19)
