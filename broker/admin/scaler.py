"""KEDA's external scaler, pull and push: how much waits at an address decides how many consumers there are.

    triggers:
    - type: external-push
      metadata: {scalerAddress: "stampede-scaler:61720", address: orders, value: "100"}

address            name or pattern (`*` one word, `#` the rest).     queue   only this queue of it.
count              depth (default): waiting and being consumed; waiting; delivering; scheduled.
value              messages per consumer, default 100.     activationValue   above it there is at least one, default 0.

Rule: a number is the whole cluster's or there is none (KEDA then keeps what it has). Knows KEDA's messages, no broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import grpc
import grpc.aio

from broker.config.scaler import ScalerSettings
from broker.core.errors import ConfigError
from broker.seams import grpc_ends
from broker.seams.files import read_whole

from .depths import NoNumber
from .keda import externalscaler_pb2 as pb

log = logging.getLogger("stampede.scaler")

SERVICE = "externalscaler.ExternalScaler"
COUNTS = {
    "depth": ("waiting", "delivering"),
    "waiting": ("waiting",),
    "delivering": ("delivering",),
    "scheduled": ("scheduled",),
}
DEFAULT_VALUE = 100
KNOWN = ("address", "queue", "count", "value", "activationValue")
KEDAS = ("scalerAddress", "tlsCertFile", "caCert", "tlsClientCert", "tlsClientKey", "unsafeSsl", "enableTLS")
"""Metadata that KEDA itself reads, and passes on."""

Queues = Callable[[str], Awaitable[list[dict[str, Any]]]]
"""address or pattern → entries per queue; raises NoNumber."""


class TriggerSpec(NamedTuple):
    """What a trigger asks for."""

    address: str
    queue: str
    counts: tuple[str, ...]
    value: float
    activation: float


class BadTrigger(Exception):
    """The metadata of a trigger makes no sense; the text says what to change."""


def wish_of(metadata: dict[str, str]) -> TriggerSpec:
    """Raises BadTrigger."""
    unknown = sorted(set(metadata) - {*KNOWN, *KEDAS})
    if unknown:
        raise BadTrigger(f"unknown metadata {unknown[0]!r}; known are {', '.join(KNOWN)}")
    if not metadata.get("address"):
        raise BadTrigger("metadata.address is missing: name an address, or a pattern like orders.#")
    count = metadata.get("count", "depth")
    if count not in COUNTS:
        raise BadTrigger(f"metadata.count is {count!r}; use one of {', '.join(COUNTS)}")
    value = _number(metadata, "value", DEFAULT_VALUE)
    if value <= 0:
        raise BadTrigger("metadata.value is the messages per consumer: more than 0")
    return TriggerSpec(
        metadata["address"], metadata.get("queue", ""), COUNTS[count], value, _number(metadata, "activationValue", 0)
    )


def _number(metadata: dict[str, str], name: str, default: float) -> float:
    text = metadata.get(name, "")
    try:
        number = float(text) if text else float(default)
    except ValueError:
        raise BadTrigger(f"metadata.{name} is {text!r}; it must be a number") from None
    if not 0 <= number < 1e15:
        raise BadTrigger(f"metadata.{name} is {text!r}; it must be a number from 0 on")
    return number


def total(trigger: TriggerSpec, queues: list[dict[str, Any]]) -> float:
    """The number KEDA divides by `value`."""
    wanted = [entry for entry in queues if not trigger.queue or entry["queue"] == trigger.queue]
    return float(sum(entry[name] for entry in wanted for name in trigger.counts))


def metric_name(trigger: TriggerSpec) -> str:
    """A name of its own for each address, in letters that metric names may have."""
    text = f"stampede-{trigger.address}" + (f"-{trigger.queue}" if trigger.queue else "")
    return "".join(c if c.isalnum() else "-" for c in text.lower())


class Scaler:
    """The gRPC port KEDA asks."""

    def __init__(self, settings: ScalerSettings, queues: Queues) -> None:
        self._settings = settings
        self._queues = queues
        self._server: Any = None
        self._said: dict[str, str] = {}

    async def start(self) -> int:
        """The port it listens on. Raises ConfigError."""
        settings = self._settings
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        ref, answer = pb.ScaledObjectRef.FromString, _bytes
        handlers = {
            "IsActive": unary(self._is_active, ref, answer),
            "StreamIsActive": stream(self._stream, ref, answer),
            "GetMetricSpec": unary(self._spec, ref, answer),
            "GetMetrics": unary(self._metrics, pb.GetMetricsRequest.FromString, answer),
        }
        self._server = grpc_ends.server([("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        address = f"{settings.host}:{settings.port}"
        try:
            if settings.cert_file:
                pair = (read_whole(settings.key_file), read_whole(settings.cert_file))
                port = self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
            else:
                port = self._server.add_insecure_port(address)
        except (RuntimeError, OSError) as error:
            raise ConfigError(f"Cannot listen for KEDA on {address}: {error}; check scaler.*") from None
        await self._server.start()
        return int(port)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def _number(self, ref: pb.ScaledObjectRef, context: grpc.aio.ServicerContext) -> tuple[TriggerSpec, float]:
        trigger = await self._trigger(ref, context)
        try:
            return trigger, total(trigger, await self._queues(trigger.address))
        except NoNumber as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise

    async def _trigger(self, ref: pb.ScaledObjectRef, context: grpc.aio.ServicerContext) -> TriggerSpec:
        try:
            return wish_of(dict(ref.scalerMetadata))
        except BadTrigger as error:
            self._complain(f"{ref.namespace}/{ref.name}", str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{ref.namespace}/{ref.name}: {error}")
            raise

    def _complain(self, who: str, what: str) -> None:
        if self._said.get(who) != what and len(self._said) < 1000:
            self._said[who] = what
            log.warning("scaled object %s: %s", who, what)

    async def _is_active(self, ref: pb.ScaledObjectRef, context: grpc.aio.ServicerContext) -> pb.IsActiveResponse:
        trigger, number = await self._number(ref, context)
        return pb.IsActiveResponse(result=number > trigger.activation)

    async def _stream(
        self, ref: pb.ScaledObjectRef, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.IsActiveResponse]:
        trigger = await self._trigger(ref, context)
        before: bool | None = None
        while True:
            try:
                active = total(trigger, await self._queues(trigger.address)) > trigger.activation
            except NoNumber as error:
                log.debug("%s", error)
            else:
                if active is not before:
                    before = active
                    yield pb.IsActiveResponse(result=active)
            await asyncio.sleep(self._settings.interval_s)

    async def _spec(self, ref: pb.ScaledObjectRef, context: grpc.aio.ServicerContext) -> pb.GetMetricSpecResponse:
        trigger = await self._trigger(ref, context)
        spec = pb.MetricSpec(metricName=metric_name(trigger), targetSize=max(round(trigger.value), 1))
        spec.targetSizeFloat = trigger.value
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def _metrics(self, request: pb.GetMetricsRequest, context: grpc.aio.ServicerContext) -> pb.GetMetricsResponse:
        _, number = await self._number(request.scaledObjectRef, context)
        value = pb.MetricValue(metricName=request.metricName, metricValue=round(number), metricValueFloat=number)
        return pb.GetMetricsResponse(metricValues=[value])


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
