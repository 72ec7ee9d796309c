"""Settings that cannot go together are refused with both names."""

from __future__ import annotations

import pytest

from broker.config.load import load
from broker.core.errors import ConfigError

TLS = {"edge.tls_cert_file": "c", "edge.tls_key_file": "k"}
SHOP = {"edge.virtual_hosts.shop.names": "shop.example.com"}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"edge.tls_port": "61612"}, ["edge.tls_port", "edge.tls_cert_file", "edge.tls_key_file"]),
        ({"edge.wss_port": "0", "edge.tls_cert_file": "c"}, ["edge.wss_port", "edge.tls_key_file"]),
        ({"edge.tls_cert_file": "c"}, ["edge.tls_key_file"]),
        (TLS, ["edge.tls_port"]),
        ({"edge.tls_client_ca_file": "c"}, ["edge.tls_client_ca_file", "edge.tls_cert_file"]),
        ({"edge.port": "7000", "edge.ws_port": "7000"}, ["edge.port", "edge.ws_port", "7000"]),
        ({"edge.port": "7000", "admin.port": "7000"}, ["edge.port", "admin.port"]),
        ({"edge.port": "-1", "edge.ws_port": "-1"}, ["edge.port", "edge.ws_port"]),
        ({"edge.ws_path": "stomp"}, ["edge.ws_path"]),
        ({"wire.max_header_bytes": "1MiB"}, ["wire.max_header_bytes", "wire.max_header_block_bytes"]),
        ({"engine.page_bytes": "1GiB"}, ["engine.page_bytes", "engine.queue_memory_bytes"]),
        (
            {"engine.address.redelivery_delay_ms": "9", "engine.address.max_redelivery_delay_ms": "3"},
            ["engine.address"],
        ),
        ({"redis.url": "redis://:s3cret@host:6379"}, ["redis.url", "redis.password_file"]),
        ({"redis.url": "redis://[host"}, ["redis.url"]),
        ({"engine.addresses.a.dead_letter_address": "$scheduled.b"}, ['engine.addresses."a"', "the broker's own"]),
        ({"engine.diverts.d.address": "a", "engine.diverts.d.forward": "b, $temp.c"}, ["engine.diverts", "$temp.c"]),
        ({"engine.queues.$scheduled.b.routing": "ANYCAST"}, ["engine.queues", "$scheduled.b"]),
        ({"engine.address.expiry_address": "$host/shop.x"}, ["engine.address.expiry_address", "$host/"]),
        ({"engine.addresses.$host/shop.a.ring_size": "1"}, ["engine.addresses", "[edge.virtual_hosts.shop]"]),
        (SHOP | {"engine.addresses.$host/shop/a.ring_size": "1"}, ["engine.addresses", "$host/NAME."]),
        (SHOP | {"engine.addresses.$host/shop.a.dead_letter_address": "$host/bank.a"}, ["dead_letter_address", "bank"]),
        (SHOP | {"engine.addresses.a.dead_letter_address": "$host/shop.a"}, ["dead_letter_address", "shop"]),
        (
            SHOP | {"engine.diverts.d.address": "$host/shop.a", "engine.diverts.d.forward": "b"},
            ["engine.diverts", "shop and the default host"],
        ),
        (SHOP | {"engine.queues.$host/shop.q.address": "a"}, ["engine.queues", "shop and the default host"]),
        (SHOP | {"edge.permissions.a::$host/shop.q.send": "x"}, ["edge.permissions", "shop and the default host"]),
        (SHOP | {"edge.virtual_hosts.bank.names": "/"}, ["edge.virtual_hosts", "'/'", "the default host"]),
        (SHOP | {"edge.virtual_hosts.bank.names": "SHOP"}, ["edge.virtual_hosts", "'SHOP'", "shop, too"]),
        (SHOP | {"engine.wildcard_delimiter": "/"}, ["engine.wildcard_delimiter"]),
        (SHOP | {"acceptors.a.virtual_host": "bank"}, ["acceptors.a.virtual_host", "[edge.virtual_hosts.bank]"]),
        ({"edge.virtual_hosts.a b.names": "x"}, ["edge.virtual_hosts", "letters"]),
        ({"engine.addresses.a.max_delivery_attempts": "0"}, ['engine.addresses."a"', "max_delivery_attempts"]),
    ],
)
def test_contradictions(overrides, said):
    with pytest.raises(ConfigError) as caught:
        load(None, {}, overrides)
    assert [name for name in said if name not in str(caught.value)] == []
    assert "s3cret" not in str(caught.value)


def test_what_may_go_together():
    load(None, {}, {"edge.port": "0", "edge.ws_port": "0", "admin.port": "0"})
    load(None, {}, {"edge.tls_port": "0", **TLS})
    load(None, {}, {"edge.host": "10.0.0.1", "edge.port": "7000", "admin.host": "127.0.0.1", "admin.port": "7000"})
    load(None, {}, {"engine.address.redelivery_delay_ms": "900"})
