"""@stomp/stompjs against the WebSocket port: in Node and in headless Chromium, the same scenarios.

All scenarios of a runtime run in one process of it (starting Chromium takes longer than they do); each is a test.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness import Broker, scratch
from tests.harness.fetching import from_npm

from .control import JS, Control

SCENARIOS = (
    "text", "text_11", "text_10", "text_in_binary_websocket_frames", "subprotocol", "header_escapes", "binary",
    "split_frames", "large", "large_in_default_mode", "many", "acknowledge", "transaction", "topic",
    "error", "heart_beats", "reconnect",
)  # fmt: skip
TIME = 120.0


@pytest.fixture(scope="module")
def modules() -> None:
    """js/node_modules (ignored by git), filled by npm when it is not there yet."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed: stompjs is not tested")
    if lacks := from_npm(JS):
        pytest.skip(f"{lacks}: stompjs is not tested")


def _run(line: list[str], control: Control, output: Path) -> dict[str, str]:
    """The verdicts of a runtime started with this command line."""
    with output.open("wb") as log, subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
        try:
            ended = control.done.wait(TIME)
        finally:
            process.kill()
    assert ended or control.verdicts, f"nothing came from {line[0]}:\n{output.read_text(errors='replace')[-2000:]}"
    return control.verdicts


def verdicts_of_node(request: pytest.FixtureRequest, settings: dict[str, object] | None = None) -> dict[str, str]:
    """Of Node, on a broker with these settings."""
    with scratch(request, "node") as folder, Broker(folder, settings) as broker, Control(broker) as control:
        line = ["node", str(JS / "node.mjs"), f"ws://127.0.0.1:{broker.ws_port}/", control.url]
        return _run(line, control, folder / "output")


@pytest.fixture(scope="module")
def node(modules: None, request: pytest.FixtureRequest) -> dict[str, str]:
    return verdicts_of_node(request)


@pytest.fixture(scope="module")
def chromium(modules: None, request: pytest.FixtureRequest) -> dict[str, str]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed: stompjs is not tested in a browser")
    with scratch(request, "chromium") as folder, Broker(folder) as broker, Control(broker) as control:
        line = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        line += ["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"]
        line += [f"--user-data-dir={folder / 'profile'}"]
        line += [f"{control.url}/#{quote(f'ws://127.0.0.1:{broker.ws_port}/', safe='')}"]
        return _run(line, control, folder / "output")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_in_node(node: dict[str, str], scenario: str):
    assert node.get(scenario, "did not run") == ""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_in_chromium(chromium: dict[str, str], scenario: str):
    assert chromium.get(scenario, "did not run") == ""


def test_every_scenario_is_listed(node: dict[str, str]):
    assert tuple(node) == SCENARIOS
