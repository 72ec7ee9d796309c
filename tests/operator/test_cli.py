"""`stampede-operator`: what is written where, and errors that are one line with what to do."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from broker_operator import cli
from broker_operator.crds.crds import files
from broker_operator.crds.helm_values import VALUES
from click.testing import CliRunner

from broker.core.errors import BrokerError

ROOT = Path(__file__).resolve().parents[2]


def test_definitions_are_written_below_the_folder_and_values_only_where_there_are_some(tmp_path):
    result = CliRunner().invoke(cli.main, ["crds", str(tmp_path)])
    assert result.exit_code == 0
    assert result.output.split() == [str(tmp_path / name) for name in files()]
    assert all((tmp_path / name).read_text() == text for name, text in files().items())
    assert not (tmp_path / VALUES).exists()
    (tmp_path / VALUES).parent.mkdir(parents=True, exist_ok=True)
    old = json.loads((ROOT / VALUES).read_text())
    old["definitions"]["userSpec"] = {}
    (tmp_path / VALUES).write_text(json.dumps(old))
    result = CliRunner().invoke(cli.main, ["crds", str(tmp_path)])
    assert str(tmp_path / VALUES) in result.output.split()
    assert (tmp_path / VALUES).read_text() == (ROOT / VALUES).read_text()


@pytest.fixture
def asked(monkeypatch):
    """What `run` would have been begun with."""
    seen: list[tuple[object, ...]] = []

    async def run(options, where, lease, port):
        seen.append((options, where, lease, port))
        if port == 9:
            raise BrokerError("no right to it; give it one.")

    monkeypatch.setattr(cli, "_run", run)
    monkeypatch.setattr(cli, "_own_namespace", lambda: "")
    return seen


@pytest.mark.parametrize(
    ("flags", "namespaces", "where", "bundles"),
    [
        ([], (), "default", ("default",)),
        (["--namespaces", " b ,, c"], ("b", "c"), "b", ("b",)),
        (["--namespaces", "b", "--lease-namespace", "d"], ("b",), "d", ("d",)),
        (["--bundle-namespaces", "e, f"], (), "default", ("e", "f")),
        (["--bundle-namespaces", " * "], (), "default", None),
    ],
)
def test_the_lease_is_where_the_operator_is_and_bundles_where_the_lease_is(asked, flags, namespaces, where, bundles):
    assert CliRunner().invoke(cli.main, ["run", *flags]).exit_code == 0
    ((options, at, lease, port),) = asked
    assert (options.namespaces, at, lease, port) == (namespaces, where, "stampede-operator", 8080)
    assert (options.lease, options.bundles) == (f"{where}/stampede-operator", bundles)
    assert options.any_template is False


def test_every_flag_is_a_variable_as_well(asked):
    env = {"STAMPEDE_OPERATOR_POD_TEMPLATES": "any", "STAMPEDE_OPERATOR_IMAGE": "i", "STAMPEDE_OPERATOR_PORT": "7"}
    assert CliRunner().invoke(cli.main, ["run"], env=env).exit_code == 0
    ((options, _, _, port),) = asked
    assert (options.image, options.any_template, port) == ("i", True, 7)
    assert not [option for option in cli.run.params if not option.envvar]  # type: ignore[attr-defined]


def test_what_ends_the_process_is_one_line(asked):
    result = CliRunner().invoke(cli.main, ["run", "--port", "9"])
    assert (result.exit_code, result.output) == (1, "Error: no right to it; give it one.\n")


async def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = cli.Server(port, lambda: (None, False))
        with pytest.raises(BrokerError, match=f"The port {port} cannot be used: .*--port"):
            await cli._serve(server, port)
        await server.stop()


async def test_whoever_is_first_ends_the_others():
    stop, ended = asyncio.Event(), []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    async def fails() -> None:
        raise BrokerError("gone")

    async def done() -> None:
        pass

    with pytest.raises(BrokerError, match="gone"):
        await cli._first(stop, forever(), fails())
    assert not await cli._first(stop, done(), forever())
    stop.set()
    assert await cli._first(stop, forever())
    assert len(ended) == 3
