"""docs/migrating.md as a newcomer follows it: its settings are ones that a broker starts with, and what it says of
virtual hosts is done by its very lines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from broker.config.load import load
from tests.harness import Broker, Client
from tests.harness.broker import free_ports, settings_in
from tests.harness.stomp import Frame

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "migrating.md").read_text()
TOML = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^stampede (user add .*?)(?:\s+#.*)?$", PAGE, re.MULTILINE)
PASSCODE = "open-sesame-42"


def join(client: Client, host: str) -> Frame:
    """What CONNECT is answered."""
    client.send("CONNECT", {"accept-version": "1.2", "host": host, "login": "ada", "passcode": PASSCODE})
    return client.read()


def test_its_settings_are_settings(tmp_path: Path):
    assert len(TOML) >= 2
    for number, text in enumerate(TOML):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        load(str(file), {}, {})


def test_virtual_hosts_by_its_lines(tmp_path: Path):
    [text] = [each for each in TOML if "virtual_hosts" in each]
    [command] = [each for each in COMMANDS if "$host/shop" in each]
    broker = Broker(tmp_path / "broker", {**settings_in(text), "edge.dialect": "rabbitmq"})
    [till] = free_ports(1)
    broker.settings["acceptors.till.port"] = till
    line = f'"{sys.executable}" -m broker.app.cli {command} --passcode-stdin --data "{broker.data}"'
    subprocess.run(line, shell=True, input=PASSCODE, text=True, check=True, capture_output=True)
    with broker:
        for port, host in ((broker.port, "shop"), (broker.port, "shop.example.com"), (till, "whatever")):
            with Client(port) as client:
                assert join(client, host).command == "CONNECTED"
                client.subscribe("/queue/orders.a")
                client.ask("SEND", {"destination": "/queue/orders.a"}, host.encode())
                assert client.expect("MESSAGE").body == host.encode()
        with Client(broker.port) as client:
            assert join(client, "elsewhere").body == b"Virtual host 'elsewhere' access denied"
