"""`stampede send | receive | browse | bench` against a server on loopback."""

import asyncio
import json

from click.testing import CliRunner

from broker.app.commands.client_cli import Settling, browse, receive, send
from tests.harness.fake_server import FakeServer


async def invoke(command, server, *args, stdin=None):
    url = ["--url", server.url] if server else []
    return await asyncio.to_thread(CliRunner().invoke, command, [*args, *url], stdin)


async def test_send_argument_with_headers():
    async with FakeServer() as server:
        done = await invoke(send, server, "/queue/a", "hello", "-H", "k:v:w", "--persistent", "--count", "3")
        assert (done.exit_code, done.output) == (0, "")
        frames = server.frames("SEND")
        assert [body for _, body in frames] == [b"hello"] * 3
        assert frames[0][0]["k"] == "v:w" and frames[0][0]["persistent"] == "true"


async def test_send_file_and_standard_input(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"\0\1" * 500_000)
    async with FakeServer() as server:
        assert (await invoke(send, server, "/queue/a", "--file", str(path))).exit_code == 0
        assert (await invoke(send, server, "/queue/a", stdin=b"short")).exit_code == 0
        assert (await invoke(send, server, "/queue/a", stdin=path.read_bytes())).exit_code == 0
        assert [len(body) for _, body in server.frames("SEND")] == [1_000_000, 5, 1_000_000]


async def test_send_says_what_is_wrong():
    async with FakeServer() as server:
        assert (await invoke(send, server, "/queue/a", "x", "-H", "novalue")).exit_code == 2
        assert (await invoke(send, None, "/queue/a", "x", "--url", "http://h")).exit_code == 2
        server.refuse.add("CONNECT")
        done = await invoke(send, server, "/queue/a", "x")
        assert done.exit_code == 1 and "refused: do something else" in done.stderr
    done = await invoke(send, server, "/queue/a", "x")
    assert done.exit_code == 3 and "stampede serve" in done.stderr


async def test_login_takes_the_passcode_from_the_environment(monkeypatch):
    monkeypatch.setenv("STAMPEDE_PASSCODE", "p@ss:word")
    async with FakeServer() as server:
        assert (await invoke(send, server, "/queue/a", "x", "--login", "me")).exit_code == 0
        headers = server.frames("CONNECT")[0][0]
        assert (headers["login"], headers["passcode"]) == ("me", "p@ss:word")


async def test_receive_acknowledges_what_it_has_printed():
    async with FakeServer() as server:
        server.stored["/queue/a"] = [(b"one", ()), (b"two", ()), (b"three", ())]
        done = await invoke(receive, server, "/queue/a", "--count", "2")
        assert (done.exit_code, done.stdout) == (0, "one\ntwo\n")
        assert len(server.frames("ACK")) == 2
        assert server.frames("SUBSCRIBE")[0][0]["prefetch-count"] == "2"


async def test_receive_makes_room_for_no_more_than_it_will_take():
    async with FakeServer() as server:
        server.stored["/queue/a"] = [(b"%d" % i, ()) for i in range(200)]
        done = await invoke(receive, server, "/queue/a", "--count", "150")
        assert done.stdout.split() == [str(i) for i in range(150)]
        window = int(server.frames("SUBSCRIBE")[0][0]["prefetch-count"])
        assert len(server.frames("ACK")) == 150
        # Handed out = acknowledged + window: before the last message is there, that must not exceed 150.
        assert window == 100
    settling = Settling(1)
    acked = []

    class Message:
        def __init__(self, number):
            self.number = number

        async def ack(self, receipt=False):
            acked.append((self.number, receipt))

    for number in range(3):
        await settling.printed(Message(number))
    assert acked == [(0, False)]
    await settling.finish()
    assert acked == [(0, False), (1, False), (2, True)]


async def test_receive_gives_up():
    async with FakeServer() as server:
        done = await invoke(receive, server, "/queue/a", "--timeout", "0.05")
        assert (done.exit_code, done.stdout) == (4, "")


async def test_receive_formats(tmp_path):
    async with FakeServer() as server:
        path = tmp_path / "out"
        server.stored["/queue/a"] = [(b"\xff\0", ())]
        await invoke(receive, server, "/queue/a", "--output", str(path))
        assert path.read_bytes() == b"\xff\0"
        server.stored["/queue/a"] = [(b"text", [("k", "v")]), (b"\xff", ())]
        done = await invoke(receive, server, "/queue/a", "--format", "json", "--count", "2")
        first, second = map(json.loads, done.stdout.splitlines())
        assert first["body"] == "text" and first["headers"]["k"] == "v"
        assert second["body_base64"] == "/w=="
        server.stored["/queue/a"] = [(b"text", [("k", "v")])]
        done = await invoke(receive, server, "/queue/a", "--format", "frame")
        assert done.stdout.startswith("MESSAGE\n") and "\nk:v\n" in done.stdout and done.stdout.endswith("\n\ntext\n")


async def test_browse_ends_by_itself_and_takes_nothing():
    async with FakeServer() as server:
        server.stored["/queue/a"] = [(b"one", ()), (b"", [("browser", "end")])]
        done = await invoke(browse, server, "/queue/a")
        assert (done.exit_code, done.stdout) == (0, "one\n")
        assert not server.frames("ACK")
