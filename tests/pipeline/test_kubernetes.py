"""`--master k8s://…` without a node: what is missing is said first, and the image starts an executor as Spark asks.

With a node: tests/e2e."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from broker_pipeline import kubernetes, progress
from broker_pipeline.advice import cause
from broker_pipeline.errors import PipelineError

from .host import ROOT
from .test_cli import said

IMAGE = {kubernetes.IMAGE: "stampede-pipeline:1"}
ENTRY = ROOT / "pipeline/entry.sh"


@pytest.mark.parametrize(
    ("master", "given", "told"),
    [
        ("k8s://https://127.0.0.1:6443", {}, r"image of pipeline/Dockerfile: --conf spark\.kuber"),
        ("k8s://https://127.0.0.1:6443", IMAGE, r"an address that pods reach, --conf spark\.driver\.host="),
        ("k8s://https://no.such.name.invalid:6443", IMAGE, r"no\.such\.name\.invalid: .*spark\.driver\.host="),
        ("k8s://kube:6443", IMAGE, r"names no API server: say k8s://https://HOST:PORT"),
    ],
)  # fmt: skip
def test_what_executors_would_wait_for_in_vain_is_refused(master: str, given: dict[str, str], told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        kubernetes.settings(master, given)


def test_a_command_says_so_before_anything_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_CONF_DIR"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # restores what a session sets
    monkeypatch.setattr("broker_pipeline.session.java_home", lambda: "/nowhere")
    code, text = said("archive", str(tmp_path / "lake"), "--master", "k8s://https://127.0.0.1:6443")
    assert code == 1 and "spark.kubernetes.container.image" in text and not list(tmp_path.iterdir())


def test_a_driver_in_a_pod_knows_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "_NAMESPACE", tmp_path / "namespace")
    (tmp_path / "namespace").write_text("lakes\n")
    given = IMAGE | {kubernetes.HOST: "10.0.0.7"}
    found = kubernetes.settings("k8s://https://kubernetes.default.svc", given)
    assert found[kubernetes.HOST] == "10.0.0.7" and found["spark.kubernetes.namespace"] == "lakes"
    assert found["spark.authenticate"] == found["spark.network.crypto.enabled"] == "true", (
        "else every pod may talk to it"
    )


def test_the_address_is_that_of_the_way_to_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Way:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Way:
            return self

        def __exit__(self, *_: object) -> None: ...
        def connect(self, place: object) -> None: ...
        def getsockname(self) -> tuple[str, int]:
            return addresses[0], 40_000

    monkeypatch.setattr(kubernetes.socket, "socket", Way)
    addresses = ["10.244.0.7", "fd00::7"]
    for host in ("10.244.0.7", "[fd00::7]"):
        assert kubernetes.settings("k8s://https://127.0.0.1:443", IMAGE)[kubernetes.HOST] == host
        addresses.pop(0)


def entry(folder: Path, *arguments: str, **env: str) -> list[str]:
    """What the image would run."""
    for name, prints in (("java", 'printf "%s\\n" java "$@"'), ("stampede-pipeline", 'printf "%s\\n" ours "$@"'),
                         ("python3", "echo /site/pyspark")):  # fmt: skip
        (folder / name).write_text(f"#!/bin/sh\n{prints}\n")
        (folder / name).chmod(0o755)
    told = {"PATH": f"{folder}:/usr/bin:/bin"} | env
    return subprocess.run([ENTRY, *arguments], env=told, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_image_is_a_command_and_an_executor(tmp_path: Path) -> None:
    assert entry(tmp_path, "archive", "/archive", "--name", "a b") == ["ours", "archive", "/archive", "--name", "a b"]
    assert entry(tmp_path) == ["ours"]
    asked = {
        "SPARK_DRIVER_URL": "spark://d@h:1", "SPARK_EXECUTOR_ID": "3", "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "512m", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
        "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod", "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "--add-opens=x", "SPARK_JAVA_OPT_10": "-Dleft=out",
    }  # fmt: skip
    assert entry(tmp_path, "executor", **asked) == [
        "java", "-Da=b c", "--add-opens=x", "-Xms512m", "-Xmx512m", "-cp", "/opt/spark/conf:/site/pyspark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend", "--driver-url", "spark://d@h:1",
        "--executor-id", "3", "--cores", "2", "--app-id", "app", "--hostname", "10.0.0.9", "--resourceProfileId", "0",
        "--podName", "pod",
    ]  # fmt: skip
    with pytest.raises(subprocess.CalledProcessError):
        entry(tmp_path, "executor")


def test_the_image_begins_with_it() -> None:
    text = (ROOT / "pipeline/Dockerfile").read_text()
    assert "COPY pipeline/entry.sh /usr/local/bin/stampede-pipeline-entry" in text and os.access(ENTRY, os.X_OK)
    assert 'ENTRYPOINT ["stampede-pipeline-entry"]' in text


def test_what_goes_wrong_there_gets_what_to_do() -> None:
    python = 'Job aborted\nCaused by: java.io.IOException: Cannot run program "/home/me/.venv/bin/python": error=2'
    assert "same image" in cause(python) and "PYSPARK_PYTHON" in cause(python)
    rights = 'x\nCaused by: io.fabric8.kubernetes.client.KubernetesClientException: pods is forbidden: User "a" cannot'
    assert "Role" in cause(rights)
    silent = "x\nCaused by: io.fabric8.kubernetes.client.KubernetesClientException: Operation: [get] for kind: [Pod]"
    assert "--master" in cause(silent)
    assert "spark-role=executor" in progress.__dict__["_idle"](
        type("Stage", (), {"numActiveTasks": 0, "numCompletedTasks": 0, "numTasks": 1})
    )
