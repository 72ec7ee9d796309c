"""`stampede doctor`: every finding is shown with what to do, and the exit status says whether there is a fault."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from broker.app.doctor import doctor_cli
from broker.app.doctor.doctor import FAULT, FINE, WARNING, Finding
from broker.app.doctor.doctor_cli import doctor
from broker.core.errors import BrokerError, Code

GOOD, POOR, BAD = (
    Finding("disk", FINE, "10 GiB free", ""), Finding("files", WARNING, "256 files", "raise ulimit -n"),
    Finding("journal", FAULT, "is damaged", "stampede journal salvage"),
)  # fmt: skip


@pytest.fixture
def says(monkeypatch, tmp_path):
    """What it prints, and its exit status, where these things are found."""

    def run(*args: str, found: tuple[Finding, ...] = ()):
        monkeypatch.setattr(doctor_cli, "_findings", lambda settings, of_cluster: iter(found))
        result = CliRunner().invoke(doctor, [*args, "--data", str(tmp_path)])
        return result.exit_code, result.output

    return run


@pytest.mark.parametrize(
    ("found", "status"), [((GOOD,), 0), ((GOOD, POOR), 0), ((GOOD, POOR, BAD), 1), ((BAD, GOOD), 1), ((), 0)]
)
def test_only_a_fault_is_a_failure(says, found, status):
    for more in ((), ("--problems",), ("-o", "json")):
        assert says(*more, found=found)[0] == status


def test_each_finding_has_a_line_and_what_to_do_below_it(says):
    _, text = says(found=(GOOD, POOR, BAD))
    assert text.splitlines() == [
        f"{FINE:<8} disk: 10 GiB free",
        f"{WARNING:<8} files: 256 files", "         → raise ulimit -n",
        f"{FAULT:<8} journal: is damaged", "         → stampede journal salvage",
        "3 checks: 1 faults, 1 warnings",
    ]  # fmt: skip


def test_what_is_in_order_may_be_left_out_and_is_counted_all_the_same(says):
    _, text = says("--problems", found=(GOOD, POOR))
    assert "disk" not in text and "files" in text and text.endswith("2 checks: 0 faults, 1 warnings\n")


def test_programs_get_all_that_was_found(says):
    _, text = says("-o", "json", found=(GOOD, BAD))
    assert json.loads(text) == [GOOD._asdict(), BAD._asdict()]


def test_what_others_have_written_moves_no_cursor(says):
    """A queue's name or an error of etcd may hold anything."""
    _, text = says(found=(Finding("a", FAULT, "x\x1b[2Jy\nz", "q\rw"),))
    assert "\x1b" not in text and "\r" not in text and len(text.splitlines()) == 3


def test_a_setting_that_is_wrong_is_no_finding(says):
    status, text = says("--set", "edge.port=many", found=(BAD,))
    assert (status != 0 and "edge.port" in text + str(status)) or status == 2


def test_an_etcd_that_cannot_be_read_is_a_fault_and_ends_the_look_at_the_cluster(monkeypatch):
    from broker.app.commands.etcd import etcd_cli
    from broker.app.doctor import doctor_cluster
    from broker.config.settings import Settings

    async def fail(settings: object) -> None:
        raise BrokerError(Code.OWNER_UNAVAILABLE, "etcd gives no answer")

    monkeypatch.setattr(etcd_cli, "rows", lambda settings: [])
    monkeypatch.setattr(doctor_cluster, "of_etcd", lambda rows: iter([GOOD]))
    monkeypatch.setattr(doctor_cli, "_look", fail)
    first, second = doctor_cli._of_cluster(Settings())
    assert first == GOOD
    assert (second.check, second.level) == ("cluster", FAULT)
    assert "no answer" in second.found and "etcd.endpoints" in second.fix
