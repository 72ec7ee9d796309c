"""docs/tutorial.md does what it says, command by command, against one broker that is killed where the page kills it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.harness import Broker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)


def test_the_page(tmp_path):
    with Broker(tmp_path) as broker:
        before, after = PAGE.read_text().split("## 5. Pull the plug")
        sent, taken = after.split("kill the broker", 1)
        for text in (before, sent):
            follow(text, broker)
        broker.kill()
        broker.start()
        follow(taken, broker)


def follow(text: str, broker: Broker) -> None:
    """What stands below a command is a part of what it prints, line by line and in that order."""
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            program = block.replace("61613", str(broker.port))
            assert run([sys.executable, "-c", program], broker).count("cannot do") == 4
        else:
            for entry in block.removeprefix("$ ").split("\n$ "):
                command, *expected = entry.strip().split("\n")
                line = [sys.executable, "-m", "broker.app.cli", *shlex.split(command)[1:]]
                assert command.startswith("stampede ")
                rest = iter(run(line, broker).split("\n"))
                for one in expected:
                    assert any(told.startswith(one) for told in rest), f"{command}: {one}"


def run(line: list[str], broker: Broker) -> str:
    own = {
        "STAMPEDE_URL": f"stomp://{broker.host}:{broker.port}",
        "STAMPEDE_ADMIN_URL": f"http://{broker.host}:{broker.admin_port}",
    }
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=os.environ | own)
    assert done.returncode == 0, done.stderr
    return done.stdout
