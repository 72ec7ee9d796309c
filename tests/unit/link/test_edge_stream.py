"""One stream of an edge: whom it tells, and what it keeps while its Hello waits."""

from __future__ import annotations

from broker.link.owner_side.edge_stream import EdgeStream
from broker.seams.stream import Ended


class Server:
    def __init__(self) -> None:
        self.told: list = []

    def on_message(self, end, data) -> None:
        self.told.append((end, data))

    def on_closed(self, end, why) -> None:
        self.told.append((end, why))


def made() -> tuple[Server, EdgeStream]:
    server = Server()
    return server, EdgeStream(server, object())  # type: ignore[arg-type]


def test_what_comes_is_told_with_the_stream_it_came_by():
    server, end = made()
    end.on_message(b"x")
    why = Ended("gone")
    end.on_closed(why)
    assert server.told == [(end, b"x"), (end, why)]


def test_while_its_hello_waits_what_follows_is_kept_once():
    _, end = made()
    assert end.held is None and end.go_on() == []
    end.wait()
    end.held.append(b"next")
    assert end.go_on() == [b"next"] and end.held is None
