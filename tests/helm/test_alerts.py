"""Alerts of the chart: each has its page, and promtool (Debian: prometheus) sees each of them fire.

Rule: what an alert is for and what a page names exists, or a test here fails."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from broker.app.cli import main

HERE = Path(__file__).parent
RUNBOOKS = HERE.parents[1] / "docs" / "runbooks"
FIRES = {
    "StampedeSlotsOffline": ('stomp_slots_offline{namespace="mq"}', "2x10"),
    "StampedeSlotsShelved": ('stomp_slots_shelved{namespace="mq"}', "1x10"),
    "StampedeSlotsNotReached": ('stomp_link_slots_down{namespace="mq",pod="e"}', "3x10"),
    "StampedeOwnerUnreached": ('stomp_owners_unreached{namespace="mq",owner="o"}', "1x10"),
    "StampedeNoController": ('stomp_controller{namespace="mq"}', "0x10"),
    "StampedeEtcdRewound": ('stomp_etcd_rewound{namespace="mq"}', "1x10"),
    "StampedeConfigUnreadable": ('stomp_config_unreadable{namespace="mq"}', "1x10"),
    "StampedeDiskNearlyFull": ('stomp_journal_space{namespace="mq",pod="o"}', "1x10"),
    "StampedeDiskFull": ('stomp_journal_space{namespace="mq",pod="o"}', "2x10"),
    "StampedeMemoryFull": ('stomp_memory_state{namespace="mq",pod="o"}', "2x10"),
    "StampedeDeadLetters": ('stomp_messages_dead_lettered_total{namespace="mq"}', "0+5x10"),
    "StampedeArchiveMarkLost": ('stomp_log_marks_lost_total{namespace="mq"}', "0+1x10"),
}
"""Alert → what it fires at, for ten minutes: a series, and its values each minute."""
BY_AND_BY = {
    "StampedeSlotsStalled": ('stomp_slots_stalled{namespace="mq"}', "256x60", "0x60"),
    "StampedeSlotsUnderReplicated": ('stomp_slots_under_replicated{namespace="mq"}', "85x60", "0x60"),
    "StampedeProducersPaused": ('stomp_backpressure_pauses_total{namespace="mq",pod="o"}', "0+120x60", "0+30x60"),
    "StampedeLoginFailures": ('stomp_login_failures_total{namespace="mq"}', "0+120x60", "0+30x60"),
    "StampedeQueueWithoutConsumers": (
        'stomp_queue_messages{namespace="mq",address="a",queue="a",state="ready"}', "5x60", "0x60",
    ),
    "StampedeQueueGrowing": (
        'stomp_queue_messages{namespace="mq",address="a",queue="a",state="ready"}', "20000+100x60", "20000x60",
    ),
    "StampedeCertificateEnds": (
        'stomp_tls_certificate_expiry_seconds{namespace="mq",acceptor="[edge]"}', "518400x60", "2592000x60",
    ),
    "StampedeComponentCertificateEnds": (
        'stampede_operator_certificate_expiry_seconds{resource_kind="StompBroker",resource_namespace="mq",'
        'resource_name="shop"}', "1728000x60", "5184000x60",
    ),
    "StampedeBackupFailed": (
        'stampede_operator_backup_failed{resource_namespace="mq",resource_name="nightly"}', "1x60", "0x60",
    ),
    "StampedeVolumeFilling": (
        'kubelet_volume_stats_available_bytes{namespace="mq",persistentvolumeclaim="data-shop-owner-0"}',
        "100000000000-1000000000x60", "100000000000-10000000x60",
    ),
}  # fmt: skip
"""Alert → a series, its values each minute for an hour that have it fire (promtool's clock begins at 0), and others
that do not."""


@pytest.fixture(scope="module")
def rules(render):
    rendered = render(HERE / "values" / "production.yaml", True, "--set", "crds.install=false")
    (found,) = [each for each in yaml.safe_load_all(rendered.text) if each and each["kind"] == "PrometheusRule"]
    return found["spec"]


@pytest.fixture
def promtool():
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool here (Debian: apt install prometheus): the rules are not run")
    return found


def alerts(rules):
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


def test_every_alert_has_its_page_and_no_page_is_left_over(rules):
    found = alerts(rules)
    assert len(found) >= 15
    assert {path.stem for path in RUNBOOKS.glob("Stampede*.md")} == set(found)
    for name, rule in found.items():
        assert rule["annotations"]["runbook"] == f"docs/runbooks/{name}.md"
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("info", "warning", "critical")


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("Stampede*.md")), ids=lambda path: path.stem)
def test_a_page_says_what_to_look_at_and_to_do(page):
    text = page.read_text()
    assert text.startswith(f"# {page.stem}\n")
    for part in ("**What it means.**", "**What clients notice.**", "\n## Look\n", "\n## Do\n1. "):
        assert part in text, part
    for target, anchor in re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", text):
        linked = page.parent / target
        assert linked.exists(), target
        titles = [re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                  for line in linked.read_text().splitlines() if line.startswith("#")]  # fmt: skip
        assert not anchor or anchor in titles, f"{target}#{anchor}"


COMMAND = re.compile(r"(?:`|^|-- )stampede ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)


def test_pages_name_commands_that_exist():
    context = main.make_context("stampede", [], resilient_parsing=True)
    named = {(page.stem, *found) for page in RUNBOOKS.glob("*.md") for found in COMMAND.findall(page.read_text())}
    assert len(named) > 20
    for page, first, second in named:
        command = main.get_command(context, first)
        assert command is not None, f"{page}: stampede {first}"
        if isinstance(command, click.Group) and second:
            assert second in command.commands, f"{page}: stampede {first} {second}"


def test_the_rules_are_such_that_prometheus_takes_them(rules, promtool, tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    done = subprocess.run([promtool, "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_seen_to_fire(rules):
    assert {*FIRES, *BY_AND_BY, "StampedeDeliverySlow"} == {*alerts(rules)}


def test_what_lasts_is_told_and_what_is_well_is_not(rules, promtool, tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    cases = []
    for name, (series, bad, well) in BY_AND_BY.items():
        told = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
        for values, fires in ((bad, 1), (well, 0)):
            asked = {"expr": told, "eval_time": "55m", "exp_samples": [{"labels": "{}", "value": fires}]}
            input = [{"series": series, "values": values}]
            cases.append({"interval": "1m", "input_series": input, "promql_expr_test": [asked]})
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    done = subprocess.run([promtool, "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("below_a_minute", "fires"), [(0, 1), (95, 0)])
def test_old_messages_are_told(rules, promtool, tmp_path, below_a_minute, fires):
    """A hundred messages a minute, so many of them before a minute was over, all others after ten at most."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    series = [
        {"series": f'stomp_queue_delivery_seconds_bucket{{namespace="mq",address="q",queue="q",le="{le}"}}',
         "values": f"0+{count}x40"}
        for le, count in (("60.0", below_a_minute), ("600.0", 100), ("+Inf", 100))
    ]  # fmt: skip
    asked = {
        "expr": 'count(ALERTS{alertname="StampedeDeliverySlow",alertstate="firing",queue="q"}) or vector(0)',
        "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": fires}],
    }  # fmt: skip
    cases = [{"interval": "1m", "input_series": series, "promql_expr_test": [asked]}]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    done = subprocess.run([promtool, "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_at_what_they_are_for_and_at_nothing_else(rules, promtool, tmp_path):
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    well = [{"series": 'stomp_controller{namespace="mq",pod="a"}', "values": "1x10"}]
    cases = [{"interval": "1m", "input_series": well, "alert_rule_test": [
        {"eval_time": "9m", "alertname": name, "exp_alerts": []} for name in alerts(rules)
    ]}]  # fmt: skip
    for name, (series, values) in FIRES.items():
        others = [] if name == "StampedeNoController" else well
        cases.append({
            "interval": "1m", "input_series": [{"series": series, "values": values}, *others],
            "promql_expr_test": [{
                "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})', "eval_time": "9m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }],
        })  # fmt: skip
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    done = subprocess.run([promtool, "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
