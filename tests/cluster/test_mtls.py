"""A cluster whose components show each other certificates, on an etcd that wants a certificate and a password and gives
each role its part: it works, a component without a certificate of this authority is not let in, and no role reaches
what is another's in etcd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from broker.cluster.etcd_roles import ROLES
from broker.core.errors import Code
from tests.abuse.certificates import authority, issued, revocations
from tests.harness import Client, listens, scratch, until
from tests.harness.cluster import HOST, PREFIX, Cluster, Process
from tests.harness.servers import LocalServer, local_etcd, needs_etcdctl

DOMAIN = "stampede.internal"
PASSWORD = "open-sesame"
Files = dict[str, tuple[Path, Path]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificates for this test")
    folder = tmp_path_factory.mktemp("pki")
    ca, other = authority(folder, "ca"), authority(folder, "other-ca")
    roles = {
        who: issued(folder, who, ca, names=(f"{who.split('-')[0]}.{DOMAIN}",))
        for who in ("owner", "edge", "edge-lost", "owner-2")
    }
    return {
        "ca": ca, "ours": issued(folder, "ours", ca), "other": other, "theirs": issued(folder, "theirs", other), **roles
    }  # fmt: skip


@pytest.fixture(scope="module")
def locked_etcd(files: Files, request: pytest.FixtureRequest) -> Iterator[LocalServer]:
    """Wants a certificate of ours and a password; owners, edges and commands have users of their own."""
    needs_etcdctl()
    cert, key = files["ours"]
    tls = ["--cert-file", cert, "--key-file", key, "--trusted-ca-file", files["ca"][0], "--client-cert-auth"]
    with scratch(request, "etcd") as folder:
        (server,) = local_etcd(folder, 1, *tls, scheme="https")
        server.start()
        try:
            password = folder / "password"
            password.write_text(PASSWORD + "\n")
            asked = {
                "etcd.endpoints": server.address, "etcd.prefix": PREFIX, "etcd.ca_file": files["ca"][0],
                "etcd.cert_file": cert, "etcd.key_file": key,
                "etcd.timeout_s": 30,  # it hashes a password for each user, which takes long on a busy machine
            }  # fmt: skip
            line = [sys.executable, "-m", "broker.app.cli", "cluster", "roles", "--enable", str(password)]
            line += [part for role in ROLES for part in (f"--{role}", f"{role}:{password}")]
            line += [part for name, value in asked.items() for part in ("--set", f"{name}={value}")]
            made = subprocess.run(line, capture_output=True, text=True, timeout=60)
            assert made.returncode == 0 and "etcd asks for a password" in made.stdout, made.stderr
            yield server
        finally:
            server.stop()


def etcdctl(server: LocalServer, files: Files) -> list[str]:
    cert, key = files["ours"]
    line = ["etcdctl", f"--endpoints=https://{server.address}", "--cacert", files["ca"][0], "--cert", cert]
    return [str(part) for part in [*line, "--key", key]]


def component(files: Files, ca: str, own: str) -> dict[str, object]:
    """Settings of a component that trusts `ca` and shows `own`."""
    cert, key = files[own]
    return {"cluster.ca_file": files[ca][0], "cluster.cert_file": cert, "cluster.key_file": key}


@pytest.fixture(scope="module")
def cluster(files: Files, locked_etcd: LocalServer, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with scratch(request, "cluster") as folder:
        (folder / "password").write_text(PASSWORD + "\n")
        cert, key = files["ours"]
        settings = {
            **component(files, "ca", "ours"), "etcd.user": "operator",
            "etcd.password_file": folder / "password", "etcd.ca_file": files["ca"][0], "etcd.cert_file": cert,
            "etcd.key_file": key,
        }  # fmt: skip
        cluster = Cluster(folder, locked_etcd.port, settings=settings)
        crl = revocations(files["ca"][0].parent, files["ca"])
        for process in cluster.processes:
            process.settings |= {
                # One of the owners has a certificate of its own, which the last test takes back.
                **component(files, "ca", process.id if process.id in files else process.kind),
                "cluster.role_domain": DOMAIN, "cluster.crl_file": crl,
                "etcd.user": process.kind,
            }  # fmt: skip
        cluster.etcdctl = [*etcdctl(locked_etcd, files), "--user", f"operator:{PASSWORD}"]
        with cluster:
            yield cluster
            for process in cluster.processes:
                for unwanted in ("Traceback", "permission denied"):
                    assert unwanted not in process.log(), f"{process.id}:\n{process.log()[-5000:]}"


def test_messages_cross_and_survive_an_owner(cluster):
    """From one edge to the other over every owner, a large one among them; then without one of the owners."""
    queues = [f"/queue/tls.{number}" for number in range(12)]
    with Client(cluster.edges[0].port, timeout=30) as writer, Client(cluster.edges[1].port, timeout=30) as reader:
        writer.connect()
        reader.connect()
        for number, queue in enumerate(queues):
            reader.subscribe(queue, id=str(number))
        for round in range(2):
            for queue in queues:
                writer.publish(queue, b"x" * (300_000 if queue == queues[0] else 10), persistent="true")
            got = reader.messages(len(queues), timeout=30)
            assert sorted(frame["destination"] for frame in got) == sorted(queues)
            assert max(len(frame.body) for frame in got) == 300_000
            if not round:
                cluster.owners[1].kill()
    cluster.owners[1].start()
    cluster.owners[1].wait_ready()


FOREIGN = [
    ("edge", "put", "slots/0"), ("edge", "put", "owners/owner-0"), ("edge", "del", "disks/owner-0"),
    ("edge", "put", "suspects/owner-0/owner-1"), ("edge", "put", "controller"), ("edge", "put", "cordon/owner-0"),
    ("edge", "get", "managed/x"), ("edge", "put", "possession"),
    ("owner", "put", "config/users/ada"), ("owner", "put", "edges/edge-0"), ("owner", "get", "subs/ada.inbox"),
    ("owner", "put", "cordon/owner-0"), ("owner", "put", "possession"), ("owner", "get", "load/edge-0"),
    ("operator", "put", "owners/owner-0"), ("operator", "put", "controller"), ("operator", "put", "edges/edge-0"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "verb", "key"), FOREIGN, ids=" ".join)
def test_no_role_reaches_what_is_anothers_in_etcd(cluster, locked_etcd, files, role, verb, key):
    line = [*etcdctl(locked_etcd, files), "--user", f"{role}:{PASSWORD}", verb, f"{PREFIX}/{key}"]
    line += ["x"] if verb == "put" else []
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, env={**os.environ, "ETCDCTL_API": "3"})
    assert done.returncode != 0 and "permission denied" in done.stderr, done.stdout + done.stderr
    other = [*line[:-1], line[-1].replace(PREFIX, "/elsewhere")]
    if verb == "get":
        done = subprocess.run(other, capture_output=True, text=True, timeout=30, env={**os.environ, "ETCDCTL_API": "3"})
        assert "permission denied" in done.stderr, done.stdout


def test_a_durable_subscription_and_settings_of_the_api_are_an_edges(cluster):
    """What an edge writes itself: names, and settings, users and tokens for who calls its API."""
    cluster.cluster("quotas", "set", "user:nobody", "max_connections=3")
    with Client(cluster.edges[0].port, timeout=30) as client:
        client.connect({"client-id": "ada"})
        client.subscribe("/topic/roles", id="1", durable_subscription_name="inbox")
        client.ask("UNSUBSCRIBE", {"id": "1"})
    cluster.cluster("drain", "owner-2")
    cluster.cluster("undrain", "owner-2")


def answer(files: Files, owner: Process, who: str, method: str) -> tuple[grpc.StatusCode, str]:
    """To a component with that certificate that asks for it and says nothing of sense: who is let in is told so in a
    message."""
    cert, key = files[who]
    credentials = grpc.ssl_channel_credentials(files["ca"][0].read_bytes(), key.read_bytes(), cert.read_bytes())
    with grpc.secure_channel(f"{HOST}:{owner.component_port}", credentials) as channel:
        try:
            list(channel.stream_stream(f"/stampede.v1.Link/{method}")(iter([b"x"]), timeout=10))
        except grpc.RpcError as error:
            return error.code(), error.details() or ""
        return grpc.StatusCode.OK, ""


@pytest.mark.parametrize(
    ("who", "method"), [("edge", "Replica"), ("owner", "Edge"), ("ours", "Edge"), ("ours", "Replica")]
)
def test_a_certificate_of_one_role_is_none_of_another(cluster, files, who, method):
    code, why = answer(files, cluster.owners[0], who, method)
    assert code is grpc.StatusCode.PERMISSION_DENIED and "its certificate is not that of an" in why


@contextmanager
def all_edges_read_it(cluster: Cluster) -> Iterator[None]:
    """Every edge that runs has read the list of revoked certificates that is written in here."""
    read = "list of revoked certificates of components reloaded"
    before = [(edge, edge.log().count(read)) for edge in cluster.edges]
    yield
    for edge, times in before:
        until(lambda log=edge.log, times=times: log().count(read) > times, lambda log=edge.log: log()[-2000:], 60)


def test_a_component_whose_certificate_is_revoked_is_not_let_in(cluster, files):
    owner = cluster.owners[0]
    assert answer(files, owner, "edge-lost", "Edge")[0] is not grpc.StatusCode.PERMISSION_DENIED
    with all_edges_read_it(cluster):
        revocations(files["ca"][0].parent, files["ca"], files["edge-lost"][0])
    until(lambda: "revoked" in answer(files, owner, "edge-lost", "Edge")[1], lambda: owner.log()[-2000:], 30)
    owner.wait_ready()


@pytest.mark.parametrize("who", ["nobody", "somebody else's"])
def test_a_caller_without_a_certificate_of_ours_is_not_let_in(cluster, files, who):
    owner = cluster.owners[0]
    ca = files["ca"][0].read_bytes()
    cert, key = (files["theirs"][0].read_bytes(), files["theirs"][1].read_bytes()) if who != "nobody" else (None, None)
    for credentials in (grpc.ssl_channel_credentials(ca, key, cert), None):
        where = f"{HOST}:{owner.component_port}"
        channel = grpc.insecure_channel(where) if credentials is None else grpc.secure_channel(where, credentials)
        with channel, pytest.raises(grpc.RpcError) as error:
            next(channel.stream_stream("/stampede.v1.Link/Edge")(iter([b"x"]), timeout=10))
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    owner.wait_ready()


@pytest.mark.parametrize("own", ["nothing", "theirs"])
def test_an_edge_without_a_certificate_of_ours_serves_nobody(cluster, files, own):
    """Its clients are told that no owner can be reached, in a bounded time; its log says what it could not do."""
    edge = Process(cluster, "edge", f"edge-{own}")
    edge.settings = {"cluster.unavailable_after_s": 3, "etcd.user": "edge"}
    before = dict(cluster.settings)
    try:
        cluster.settings |= (
            {name: "" for name in component(files, "ca", "ours")}
            if own == "nothing"
            else component(files, "ca", "theirs")
        )
        edge.start()
        cluster.settings = before
        until(lambda: listens(edge.port), lambda: edge.log()[-3000:], 60)
        with Client(edge.port, timeout=30) as client:
            client.connect()
            client.send("SEND", {"destination": "/queue/tls.x", "persistent": "true", "receipt": "r"}, b"x")
            assert client.expect("ERROR", timeout=30)["error-code"] == str(Code.OWNER_UNAVAILABLE.number)
        until(lambda: "link to owner-" in edge.log(), lambda: edge.log()[-3000:])
    finally:
        cluster.settings = before
        edge.kill()
        edge.close()


def test_an_owner_whose_certificate_is_revoked_is_cut_off_and_others_lead(cluster, files):
    """The last one here: its owner stays outside. Nobody is restarted."""
    lost = cluster.owners[2]
    assert lost.id == "owner-2"
    # An edge says "revoked" only if it still has a link: the owners may have taken all slots from it before.
    with all_edges_read_it(cluster):
        revocations(files["ca"][0].parent, files["ca"], files["owner-2"][0])
    for owner in cluster.owners[:2]:
        until(lambda log=owner.log: "its certificate is revoked" in log(), lambda log=owner.log: log()[-2000:], 60)
    # It has the list, too: it gives its registration back, and is not handed what it could not serve.
    until(lambda: "may not be registered: its own certificate is revoked" in lost.log(), lambda: lost.log()[-3000:], 60)
    key = [*cluster.etcdctl, "get", f"{PREFIX}/owners/owner-2"]
    assert subprocess.run(key, capture_output=True, text=True, timeout=30).stdout == ""
    queues = [f"/queue/revoked.{number}" for number in range(24)]
    with Client(cluster.edges[0].port, timeout=60) as writer, Client(cluster.edges[1].port, timeout=60) as reader:
        writer.connect()
        reader.connect()
        for number, queue in enumerate(queues):
            reader.subscribe(queue, id=str(number))
            writer.publish(queue, b"x", persistent="true")
        assert sorted(frame["destination"] for frame in reader.messages(len(queues), timeout=60)) == sorted(queues)
    assert all(process.running for process in cluster.processes), "it is cut off, and nobody has ended for it"
    assert subprocess.run(key, capture_output=True, text=True, timeout=30).stdout == "", "it stays outside"
