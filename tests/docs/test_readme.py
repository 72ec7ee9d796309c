"""What README.md tells people to type works as written (only the port differs, and how long the last program runs)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.link.stats import LinkStats
from broker.owner.replication.replication_stats import lag_metrics
from tests.harness import Broker, scratch

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with scratch(request, "readme") as folder, Broker(folder) as broker:
        yield broker


@pytest.mark.parametrize("program", PROGRAMS, ids=["stomp.py", "broker.client", "cluster"])
def test_python_programs(broker, program):
    assert "61613" in program
    program = program.replace("61613", str(broker.port)).replace("SECONDS = 20", "SECONDS = 1")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "one book" in done.stdout


def test_send_and_receive_commands(broker):
    assert 'stampede send /queue/orders "one book"' in README
    assert "stampede receive /queue/orders --count 1" in README

    def stampede(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "broker.app.cli", *args, "--url", f"stomp://127.0.0.1:{broker.port}"],
            cwd=ROOT, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    stampede("send", "/queue/readme", "one book")
    assert "one book" in stampede("receive", "/queue/readme", "--count", "1")


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_tour_names_files_that_exist():
    tour = (ROOT / "docs" / "tour.md").read_text()
    named = set(re.findall(r"(?<![\w/])((?:\w+/)*\w+\.py)\b", tour))
    files = [path for tree in ("broker", "operator", "tests") for path in (ROOT / tree).rglob("*.py")]
    found = {"/".join(path.parts[-n:]) for path in files for n in range(1, 5)}
    assert len(named) > 30
    assert named - found == set()


def cluster_families() -> set[str]:
    """Metrics that owners and edges have and one broker alone has not."""
    totals, copies = SimpleNamespace(backlog=0, shrinks=0, grows=0), SimpleNamespace(seeds=0, seed_bytes=0)
    made = [*LinkStats().metrics("edge"), *lag_metrics(totals, [], [], copies)]
    planned = "".join((ROOT / "broker" / "cluster" / name).read_text() for name in ("controller.py", "config.py"))
    planned += (ROOT / "broker" / "app" / "member.py").read_text()
    return {metric.name for metric in made} | set(re.findall(r'Metric\("(\w+)"', planned))


def test_metrics_named_in_the_docs_exist(broker):
    _, text = broker.http("/metrics")  # waits for the admin port, which opens after the others
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) | cluster_families()
    named = set(re.findall(r"`((?:stomp|process)_\w+)", (ROOT / "docs" / "operations.md").read_text()))
    assert len(named) > 5
    assert named - families == {"stomp_tls_certificate_expiry_seconds"}, "that one is there with TLS only"
