"""What KEDA is told: the whole cluster's number, or none; a trigger that makes no sense is refused by name."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from aiohttp import web

from broker.admin.depths import NoNumber
from broker.admin.keda import externalscaler_pb2 as pb
from broker.admin.scaler import SERVICE, Scaler
from broker.config.scaler import ScalerSettings
from broker.config.settings import AdminSettings
from broker.core.slots import Member


def entry(queue, waiting=0, delivering=0, scheduled=0):
    return {"address": "orders", "queue": queue, "waiting": waiting, "delivering": delivering, "scheduled": scheduled}


class Keda:
    """KEDA's side."""

    def __init__(self, channel):
        def unary(name, kind):
            return channel.unary_unary(f"/{SERVICE}/{name}", lambda m: m.SerializeToString(), kind.FromString)

        self.active = unary("IsActive", pb.IsActiveResponse)
        self.spec = unary("GetMetricSpec", pb.GetMetricSpecResponse)
        self.metrics = unary("GetMetrics", pb.GetMetricsResponse)
        self.stream = channel.unary_stream(
            f"/{SERVICE}/StreamIsActive", lambda m: m.SerializeToString(), pb.IsActiveResponse.FromString
        )


def ref(**metadata):
    return pb.ScaledObjectRef(name="worker", namespace="shop", scalerMetadata=metadata)


@asynccontextmanager
async def scaler(queues):
    served = Scaler(ScalerSettings(port=0, interval_s=0.05), queues)
    port = await served.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Keda(channel)
    finally:
        await served.stop()


async def of(*entries):
    return list(entries)


@pytest.mark.parametrize(
    "metadata, number",
    [
        ({}, 7 + 2 + 5),
        ({"queue": "a"}, 7 + 2),
        ({"count": "waiting"}, 12),
        ({"count": "scheduled"}, 3),
        ({"queue": "other"}, 0),
    ],
)
async def test_the_number_is_the_sum_over_the_cluster(metadata, number):
    async with scaler(lambda match: of(entry("a", 7, 2), entry("b", 5, 0, 3))) as keda:
        request = pb.GetMetricsRequest(scaledObjectRef=ref(address="orders", **metadata), metricName="m")
        (value,) = (await keda.metrics(request)).metricValues
        assert (value.metricName, value.metricValue, value.metricValueFloat) == ("m", number, number)


async def test_target_and_name():
    async with scaler(lambda match: of()) as keda:
        (spec,) = (await keda.spec(ref(address="Shop.Orders", value="50"))).metricSpecs
        assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("stampede-shop-orders", 50, 50)


async def test_activation_is_above_its_value():
    async with scaler(lambda match: of(entry("a", 5))) as keda:
        assert (await keda.active(ref(address="orders"))).result
        assert not (await keda.active(ref(address="orders", activationValue="5"))).result


async def test_the_first_message_is_pushed():
    queues: list[dict] = []

    async def now(match):
        return queues

    async with scaler(now) as keda:
        stream = keda.stream(ref(address="orders"))
        assert not (await stream.read()).result
        queues.append(entry("a", 1))
        assert (await asyncio.wait_for(stream.read(), 30)).result
        stream.cancel()


@pytest.mark.parametrize(
    "metadata, text",
    [
        ({}, "address is missing"),
        ({"address": "a", "count": "all"}, "metadata.count is 'all'"),
        ({"address": "a", "value": "many"}, "metadata.value is 'many'"),
        ({"address": "a", "value": "0"}, "more than 0"),
        ({"address": "a", "activationValue": "-1"}, "metadata.activationValue is '-1'"),
        ({"address": "a", "adress": "b"}, "unknown metadata 'adress'"),
    ],
)
async def test_a_trigger_that_makes_no_sense_is_refused_by_name(metadata, text):
    async with scaler(lambda match: of()) as keda:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await keda.spec(ref(**metadata))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert text in caught.value.details()
        assert "shop/worker" in caught.value.details()


@asynccontextmanager
async def owner(name, queues):
    """An admin port that answers with `queues`, or fails when it is None."""
    from broker.admin.server import AdminServer

    def depths(match):
        if queues is None:
            raise RuntimeError("broken")
        return [each for each in queues if each["address"] == match]

    server = AdminServer(AdminSettings(port=0), [], lambda: (True, {}), depths)
    await server.start()
    try:
        yield Member(name, "owner", "", "boot", admin=f"127.0.0.1:{server.port}")
    finally:
        await server.stop()


async def test_no_number_is_an_error_for_keda_and_silence_for_the_push():
    answers: list[list[dict] | None] = [None, [entry("a", 1)]]

    async def flaky(match):
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if found is None:
            raise NoNumber("owner-1 is away")
        return found

    async with scaler(flaky) as keda:
        with pytest.raises(grpc.aio.AioRpcError, match="owner-1 is away"):
            await keda.active(ref(address="orders"))
        stream = keda.stream(ref(address="orders"))
        assert (await asyncio.wait_for(stream.read(), 30)).result
        stream.cancel()


async def test_the_admin_port_wants_a_match():
    import aiohttp

    async with (
        owner("one", []) as one,
        aiohttp.ClientSession() as http,
        http.get(f"http://{one.admin}/api/depth") as answer,
    ):
        assert answer.status == web.HTTPBadRequest.status_code
        assert "?match=" in await answer.text()
