"""Client against a server on loopback: what applications rely on."""

import asyncio

import pytest

from broker.client import ClientError, ClientTimeout, ConnectFailed, ConnectionLost, ServerError, connect
from tests.harness.fake_server import FakeServer


async def test_connect_sends_what_it_was_given_and_disconnects():
    async with FakeServer() as server:
        url = server.url.replace("//", "//us%3Aer:pass@")
        async with connect(url, client_id="me", heartbeat=(5000, 6000), headers={"x": "y"}) as client:
            assert (client.version.value, client.server, client.session) == ("1.2", "Fake/1", "7")
        (headers, _), *_ = server.frames("CONNECT")
        assert headers["login"] == "us:er" and headers["passcode"] == "pass"
        assert (headers["client-id"], headers["heart-beat"], headers["x"]) == ("me", "5000,6000", "y")
        assert headers["accept-version"] == "1.2" and headers["host"] == "127.0.0.1"
        assert len(server.frames("DISCONNECT")) == 1


async def test_runs_are_sent_as_they_would_be_one_by_one():
    """Also empty bodies, bodies with NUL, headers to be escaped; a NUL in a header sends nothing of its run."""
    bodies = [b"", b"a\0b", b"x" * 300_000, "grüße".encode()]
    lines = [("destination", "/queue/a"), ("k", "v:w")]
    async with FakeServer() as server, connect(server.url) as client:
        await client.send_runs([(lines, bodies), ([("destination", "/queue/b")], [b"1"])])
        for body in bodies:
            await client.send("/queue/a", body, {"k": "v:w"})
        await client.send("/queue/b", b"1", receipt=True)
        frames = server.frames("SEND")
        assert [body for _, body in frames] == [*bodies, b"1"] * 2
        first, second = ([without_length(headers) for headers, _ in part] for part in (frames[:5], frames[5:]))
        assert first == second
        with pytest.raises(ClientError, match="NUL"):
            await client.send_runs([([("destination", "/queue/a"), ("k", "\0")], [b"no"])])
        await client.send("/queue/b", b"2", receipt=True)
        assert len(server.frames("SEND")) == 11


def without_length(headers):
    return {name: value for name, value in headers.items() if name not in ("content-length", "receipt")}


async def test_await_connect_and_close():
    async with FakeServer() as server:
        client = await connect(server.url)
        await client.close()
        await client.close()
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", b"x")


async def test_nobody_listens():
    async with FakeServer() as server:
        url = server.url
    with pytest.raises(ConnectFailed, match=r"refused; is a broker running"):
        await connect(url)


async def test_login_refused_is_a_server_error():
    async with FakeServer() as server:
        server.refuse.add("CONNECT")
        with pytest.raises(ServerError) as caught:
            await connect(server.url)
        assert (caught.value.code, caught.value.message, caught.value.body) == (1203, "refused", "do something else")


async def test_no_connected_in_time():
    async with FakeServer() as server:
        server.accept = False
        with pytest.raises(ConnectFailed, match="no STOMP CONNECTED"):
            await connect(server.url, timeout=0.05)


@pytest.mark.parametrize("version", ["1.2", "1.1", "1.0"])
async def test_send_subscribe_ack_in_every_version(version):
    async with FakeServer() as server, connect(server.url, version=version) as client:
        async with client.subscribe("/queue/a", ack="client", prefetch=5, id="mine") as sub:
            await client.send("/queue/a", "grüße", {"k": "v:w"}, receipt=True)
            message = await anext(sub)
            assert message.body == "grüße".encode()
            assert message.headers["k"] == "v:w"
            assert (message.id, message.destination, message.length) == ("m1", "/queue/a", 7)
            await message.ack(receipt=True)
        assert server.frames("SUBSCRIBE")[0][0]["prefetch-count"] == "5"
        names = [name for name, _, _ in server.seen]
        assert names == ["CONNECT", "SUBSCRIBE", "SEND", "ACK", "UNSUBSCRIBE"]


async def test_ack_and_nack_name_the_ack_header():
    async with FakeServer() as server, connect(server.url) as client:
        async with client.subscribe("/queue/a", ack="client-individual") as sub:
            server.publish("/queue/a", b"1")
            server.publish("/queue/a", b"2")
            await (await anext(sub)).ack()
            await (await anext(sub)).nack(headers={"delay": "10"}, receipt=True)
        assert server.frames("ACK")[0][0]["id"] == "a1"
        assert server.frames("NACK")[0][0] | {"receipt": ""} == {"id": "a2", "delay": "10", "receipt": ""}


async def test_ack_in_auto_mode_is_a_mistake_that_is_told():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a") as sub:
        server.publish("/queue/a", b"1")
        with pytest.raises(ClientError, match="client-individual"):
            await (await anext(sub)).ack()


async def test_headers_survive_escaping():
    nasty = {"a:b": "c\\d\ne:f\rg"}
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a") as sub:
        await client.send("/queue/a", b"", nasty)
        message = await anext(sub)
        assert message.headers["a:b"] == nasty["a:b"]
        assert message.body == b""


async def test_headers_of_the_client_cannot_be_given_twice():
    async with FakeServer() as server, connect(server.url) as client:
        for name in ("destination", "receipt", "content-length", "transaction"):
            with pytest.raises(ClientError, match=name):
                await client.send("/queue/a", b"", {name: "1"})


async def test_a_nul_in_a_header_cannot_cut_a_frame():
    async with FakeServer() as server, connect(server.url) as client:
        with pytest.raises(ClientError, match="NUL"):
            await client.send("/queue/a", b"", {"x": "a\0SEND\ndestination:/queue/b\n\n\0"})


async def test_receipt_that_does_not_come():
    async with FakeServer() as server, connect(server.url, receipt_timeout=0.05) as client:
        server.hold_receipts = True
        with pytest.raises(ClientTimeout, match="RECEIPT of SEND"):
            await client.send("/queue/a", b"", receipt=True)
        server.release()
        await client.send("/queue/a", b"", receipt=True)


async def test_error_reaches_the_call_it_answers_and_ends_everything_else():
    async with FakeServer() as server:
        client = await connect(server.url)
        server.refuse.add("UNSUBSCRIBE")
        server.hold_receipts = False
        async with client.subscribe("/queue/a") as other:
            pending = asyncio.create_task(anext(other))
            async with client.subscribe("/queue/b") as sub:
                with pytest.raises(ServerError) as caught:
                    await sub.unsubscribe()
            assert caught.value.receipt is not None
            with pytest.raises(ServerError):
                await pending
            with pytest.raises(ServerError, match="refused"):
                await client.send("/queue/a", b"x")
        await client.close()


async def test_close_tells_of_an_error_nobody_has_seen():
    async with FakeServer() as server:
        client = await connect(server.url)
        server.refuse.add("BEGIN")
        await client.request("BEGIN", [("transaction", "t")])
        with pytest.raises(ServerError, match="refused"):
            await client.close()


async def test_connection_lost_wakes_everybody():
    async with FakeServer() as server:
        client = await connect(server.url)
        async with client.subscribe("/queue/a") as sub:
            server.hold_receipts = True
            send = asyncio.create_task(client.send("/queue/b", b"", receipt=True))
            take = asyncio.create_task(anext(sub))
            await server.until_held(1)
            server.peers[0].writer.close()
            for task in (send, take):
                with pytest.raises(ConnectionLost, match="closed the connection"):
                    await task
        await client.close()


async def test_iteration_ends_when_the_client_is_closed():
    async with FakeServer() as server:
        client = await connect(server.url)
        async with client.subscribe("/queue/a") as sub:

            async def take():
                return [message.body async for message in sub]

            taking = asyncio.create_task(take())
            await client.send("/queue/a", b"1", receipt=True)
            await client.close()
            assert await taking in ([b"1"], [])


async def test_garbage_from_the_server():
    async with FakeServer() as server:
        client = await connect(server.url)
        async with client.subscribe("/queue/a") as sub:
            server.peers[0].write(b"MESSAGE\nsubscription:s1\nmessage-id:1\ndestination:a\nbad:\\q\n\n\0")
            with pytest.raises(ConnectionLost, match="not STOMP"):
                await anext(sub)
        await client.close()


async def test_browse_ends_at_the_marker():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a", browse=True) as sub:
        assert server.frames("SUBSCRIBE")[0][0]["browser"] == "true"
        server.publish("/queue/a", b"1")
        server.publish("/queue/a", b"", [("browser", "end")])
        assert [message.body async for message in sub] == [b"1"]


async def test_get_with_timeout():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a") as sub:
        assert await sub.get(timeout=0.01) is None
        server.publish("/queue/a", b"1")
        message = await sub.get(timeout=1)
        assert message is not None and message.body == b"1"


async def test_same_subscription_id_twice():
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a", id="x"):
        with pytest.raises(ClientError, match="in use"):
            async with client.subscribe("/queue/b", id="x"):
                pass
        assert len(server.frames("SUBSCRIBE")) == 1


async def test_transaction_commits_at_the_end_and_aborts_on_an_exception():
    async with FakeServer() as server, connect(server.url) as client:
        async with client.subscribe("/queue/in", ack="client-individual") as sub:
            server.publish("/queue/in", b"1")
            message = await anext(sub)
            async with client.transaction() as tx:
                await tx.send("/queue/a", b"in tx")
                await tx.ack(message)
            with pytest.raises(RuntimeError):
                async with client.transaction() as tx2:
                    await tx2.send("/queue/a", b"never")
                    raise RuntimeError
        await client.send("/queue/a", b"", receipt=True)
        assert [h["transaction"] for h, _ in server.frames("COMMIT")] == [tx.id]
        assert [h["transaction"] for h, _ in server.frames("ABORT")] == [tx2.id]
        assert server.frames("ACK")[0][0]["transaction"] == tx.id


async def test_pipeline_keeps_to_its_window():
    async with FakeServer() as server, connect(server.url) as client:
        server.hold_receipts = True
        async with client.pipeline(window=3) as pipeline:
            for i in range(3):
                await pipeline.send("/queue/a", str(i))
            fourth = asyncio.create_task(pipeline.send("/queue/a", "3"))
            await server.until_held(3)
            assert not fourth.done() and len(server.frames("SEND")) == 3
            server.release()
            await fourth
        assert pipeline.confirmed == 4
        assert [body for _, body in server.frames("SEND")] == [b"0", b"1", b"2", b"3"]


async def test_pipeline_raises_the_refusal():
    async with FakeServer() as server:
        client = await connect(server.url)
        server.hold_receipts = True
        with pytest.raises((ServerError, ConnectionLost)):
            async with client.pipeline() as pipeline:
                await pipeline.send("/queue/a", b"1")
                await server.until_held(1)
                server.peers[0].error("refused")
        with pytest.raises(ServerError):
            await client.close()


async def test_heart_beats_go_out_and_silence_is_noticed():
    async with FakeServer(heartbeat="20,20") as server:
        client = await connect(server.url, heartbeat=(20, 20))
        async with client.subscribe("/queue/a") as sub:
            with pytest.raises(ConnectionLost, match="heart-beat"):
                await anext(sub)
        assert server.peers[0].wire.eols >= 2
        await client.close()
