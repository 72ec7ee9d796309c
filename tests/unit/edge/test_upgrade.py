"""Which HTTP requests become a WebSocket, and what the others are told."""

from __future__ import annotations

import http

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request

from broker.config.settings import EdgeSettings
from broker.edge.transport.websockets.upgrade import (
    SUBPROTOCOLS,
    HttpRefusal,
    authorization,
    basic,
    choose_subprotocol,
    refusal,
)

LOCAL = ("10.0.0.5", 61614)
LOOPBACK = ("127.0.0.1", 61614)


def asked(path: str = "/", local: tuple[str, int] = LOCAL, allowed: str = "", ws_path: str = "", **headers: str):
    told = Headers(Upgrade="websocket", **{name.replace("_", "-"): value for name, value in headers.items()})
    return refusal(Request(path, told), EdgeSettings(ws_allowed_origins=allowed, ws_path=ws_path), local)


def test_a_browser_that_looks_in_is_told_what_this_is():
    told = refusal(Request("/", Headers()), EdgeSettings(), LOCAL)
    assert told.status is http.HTTPStatus.UPGRADE_REQUIRED and told.polite and "STOMP" in told.text


def test_the_path_counts_without_its_query():
    assert asked("/stomp?token=x", ws_path="/stomp") is None
    told = asked("/stomp/x", ws_path="/stomp")
    assert told.status is http.HTTPStatus.NOT_FOUND and "edge.ws_path" in told.text
    assert asked("/anything") is None


@pytest.mark.parametrize(
    ("origin", "host", "local", "allowed", "ok"),
    [
        ("", "broker:61614", LOCAL, "", True),  # no browser
        ("http://broker", "broker:61614", LOCAL, "", True),
        ("https://broker:8443", "broker:61614", LOCAL, "", True),
        ("http://evil", "broker:61614", LOCAL, "", False),
        ("http://localhost:3000", "localhost:61614", LOOPBACK, "", True),
        ("http://evil", "evil:61614", LOOPBACK, "", False),  # led to our loopback by DNS
        ("http://evil", "evil:61614", LOCAL, "https://shop.example", False),
        ("https://shop.example", "broker", LOCAL, "https://shop.example/", True),
        ("https://SHOP.example", "broker", LOCAL, "https://other, https://shop.example", True),
        ("null", "broker", LOCAL, "", False),
    ],
)
def test_pages_of_the_same_host_and_of_the_list_alone(origin, host, local, allowed, ok):
    more = {"Origin": origin} if origin else {}
    told = asked(local=local, allowed=allowed, Host=host, **more)
    assert (told is None) is ok
    assert ok or (told.status is http.HTTPStatus.FORBIDDEN and "edge.ws_allowed_origins" in told.text)


def test_two_origins_are_none():
    headers = Headers([("Upgrade", "websocket"), ("Origin", "http://a"), ("Origin", "http://b")])
    assert refusal(Request("/", headers), EdgeSettings(), LOCAL).status is http.HTTPStatus.BAD_REQUEST


def test_the_highest_sub_protocol_and_none_is_fine():
    assert choose_subprotocol(None, ["v10.stomp", "v11.stomp"]) == "v11.stomp"
    assert choose_subprotocol(None, list(reversed(SUBPROTOCOLS))) == "v12.stomp"
    assert choose_subprotocol(None, ["mqtt"]) is None and choose_subprotocol(None, []) is None


def said(*values: str) -> tuple[str, HttpRefusal | None]:
    return authorization(Request("/", Headers([("Authorization", value) for value in values])))


def test_a_login_of_the_request_is_one_header_that_can_be_read():
    assert said() == ("", None) and said("Bearer abc") == ("Bearer abc", None)
    assert said("basic YTpiOmM=") == ("basic YTpiOmM=", None) and basic("basic YTpiOmM=") == ("a", "b:c")
    for wrong in (["Basic"], ["Basic !"], ["Basic YQ=="], ["Basic /w=="], ["Negotiate x"], [""], ["Bearer a"] * 2):
        text, why = said(*wrong)
        assert text == "" and why is not None and why.status is http.HTTPStatus.UNAUTHORIZED, wrong
