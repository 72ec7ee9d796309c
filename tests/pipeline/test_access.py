"""Who may read, and over TLS: what the pipeline says when it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.log.ranges import Range
from broker_pipeline.log.reads import LogReads
from broker_pipeline.options import access, lowered

from tests.harness import Broker, Client, free_ports, listens, until
from tests.harness.secrets import add_user, self_signed


def given(port: int, ca: Path, **more: str) -> LogReads:
    options = {"broker": f"localhost:{port}", "tls": "true", "caFile": str(ca), "patience": "1"} | more
    return LogReads(access(lowered(options)))


def test_over_tls_with_users_and_permissions(tmp_path: Path):
    (port,) = free_ports(1)
    cert, key = self_signed(tmp_path / "pki")
    passcode = tmp_path / "passcode"
    passcode.write_text("open-sesame\n")
    rights = {f"edge.permissions.#.{name}": "*" for name in ("send", "create_address", "create_durable_queue")}
    settings = {
        "log_reads.port": port, "log_reads.host": "127.0.0.1", "edge.host": "127.0.0.1", "log_reads.cert_file": cert,
        "log_reads.key_file": key, "edge.permissions.#.read": "audit",
    }  # fmt: skip
    broker = Broker(tmp_path / "broker", settings | rights)
    broker.folder.mkdir()
    add_user(broker, "ada", "open-sesame", "audit")
    add_user(broker, "bob", "open-sesame")
    with broker:
        until(lambda: listens(port), "the read API")
        with Client(broker.port) as client:
            client.connect({"login": "bob", "passcode": "open-sesame"})
            client.publish("/queue/orders", b"one", persistent="true")
            client.sync()
        with given(port, cert, user="ada", passcodeFile=str(passcode)) as reads:
            infos = reads.describe(("orders",), "messages")[2]
            ranges = [Range(slot, info.earliest, info.end) for slot, info in infos.items()]
            found = reads.scan(ranges, addresses=("orders",), view="messages", since_ms=0, before_ms=0)
            assert b"one" in b"".join(batch.records for batch in found)
            reads.watermark("lake", {slot: info.end for slot, info in infos.items()})
        wrong = given(port, cert, user="ada", passcode="wrong")
        with wrong as reads, pytest.raises(PipelineError, match="passcode") as no:
            reads.describe((), "messages")
        assert no.value.code == 1201
        with given(port, cert, user="bob", passcode="open-sesame") as reads:
            with pytest.raises(PipelineError, match="permission `read`") as no:
                reads.describe(("orders",), "messages")
            assert no.value.code == 1203
            found = reads.scan(ranges, addresses=(), view="log", since_ms=0, before_ms=0)
            assert not b"".join(batch.records for batch in found), "what is not his is left out"
            with pytest.raises(PipelineError, match="permission `read`"):
                reads.watermark("lake", {})
        plain = {"broker": f"127.0.0.1:{port}", "patience": "1"}
        with LogReads(access(lowered(plain))) as reads, pytest.raises(PipelineError, match=r"log_reads\.port|tls"):
            reads.describe((), "messages")
