"""`--master spark://…`: commands on a Spark that is there already, driver and executors in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from broker_pipeline.session import java_home
from broker_pipeline.store.manifests import Archive

from tests.harness import Broker, free_ports, listens, until

from .host import QUICK, ROOT
from .test_spark_archive import send, take

pytestmark = pytest.mark.timeout(1800)  # four JVMs, and other tests run beside them
LIMIT_S = 600.0


def spark_class() -> str:
    import pyspark

    return f"{Path(pyspark.__file__).parent}/bin/spark-class"


@contextmanager
def process(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """One of Spark's own daemons; its log."""
    env = os.environ | {"JAVA_HOME": java_home(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": QUICK}
    log = folder / f"{name}.log"
    with log.open("w") as file:
        daemon = subprocess.Popen(
            [spark_class(), f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", "127.0.0.1", *arguments],
            env=env | {"SPARK_DAEMON_MEMORY": "256m"}, stdout=file, stderr=file, cwd=folder,
        )  # fmt: skip
    try:
        yield log
    finally:
        daemon.terminate()
        daemon.wait(60)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone Spark with one worker, which starts executors below tmp_path/work."""
    (port,) = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        log = stack.enter_context(process(tmp_path, "Master", "--port", str(port), "--webui-port", "0"))
        until(lambda: listens(port), "Spark's master", LIMIT_S)
        room = ["--cores", "2", "--memory", "1g", "--work-dir", f"{tmp_path}/work", "--webui-port", "0"]
        stack.enter_context(process(tmp_path, "Worker", *room, url))
        until(lambda: "Registering worker" in log.read_text(), "Spark's worker", LIMIT_S)
        yield url


def command(master: str, *arguments: str) -> str:
    """One of stampede-pipeline, as a user types it."""
    line = [sys.executable, "-m", "broker_pipeline.cli", *arguments, "--master", master, "--memory", "512m"]
    for name in ("driver", "executor"):
        line += ["--conf", f"spark.{name}.extraJavaOptions={QUICK}"]
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'pipeline'}", "SPARK_LOCAL_IP": "127.0.0.1"}
    line += ["--conf", "spark.executor.memory=512m"]
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_spark_that_is_there_archives(master: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    lake, large = tmp_path / "lake", b"L" * 400_000
    # Small segments: several tasks.
    settings = {"log_reads.port": port, "journal.segment_bytes": 64 * 1024}
    with Broker(tmp_path / "broker", settings) as broker:
        until(lambda: listens(port), "the read API")
        send(broker, "/queue/a", [b"%d" % n + b"x" * 300 for n in range(1000)])
        send(broker, "/queue/large", [large])
        take(broker, "/queue/a", 10)
        command(master, "archive", str(lake), "--addresses", "a,large", "--broker", f"127.0.0.1:{port}")
    files = Archive(str(lake)).load().files.values()
    assert sum(file.rows for file in files if file.view == "messages") == 1001
    (body,) = (lake / "bodies").iterdir()
    assert body.read_bytes() == large
    assert len(list(tmp_path.glob("work/app-*/*/stderr"))) == 1, "an executor of that Spark has done it"
