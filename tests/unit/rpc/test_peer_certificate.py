"""Which certificate a component shows, asked without a call."""

from __future__ import annotations

import ssl

import pytest

from broker.config.settings import ClusterSettings
from broker.core.certificates import first_certificate
from broker.rpc.credentials import Credentials
from broker.rpc.peer_certificate import certificate_of
from broker.rpc.server import GrpcServer
from tests.abuse.certificates import authority, issued
from tests.harness import free_ports
from tests.harness.secrets import self_signed
from tests.unit.rpc.stream_world import Doors


async def test_it_is_the_one_of_who_listens_there_and_only_of_whom_we_trust(tmp_path):
    self_signed(tmp_path, "probe")  # skips without openssl
    ours, theirs = authority(tmp_path, "ours"), authority(tmp_path, "theirs")
    cert, key = issued(tmp_path, "owner", ours)
    stranger = issued(tmp_path, "stranger", theirs)
    settings = ClusterSettings(port=0, ca_file=str(ours[0]), cert_file=str(cert), key_file=str(key))
    server = GrpcServer(settings, Doors())
    port = await server.start()
    for host in ("localhost", "127.0.0.1"):
        shown = await certificate_of(f"{host}:{port}", Credentials(settings).looking())
        assert ssl.PEM_cert_to_DER_cert(shown.decode()) == first_certificate(cert.read_text())
    other = ClusterSettings(ca_file=str(theirs[0]), cert_file=str(stranger[0]), key_file=str(stranger[1]))
    with pytest.raises(ssl.SSLError):
        await certificate_of(f"localhost:{port}", Credentials(other).looking())
    await server.stop()
    with pytest.raises(OSError, match="Errno"):
        await certificate_of(f"[::1]:{free_ports(1)[0]}", Credentials(settings).looking())
