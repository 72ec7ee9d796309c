"""A Spark session as the pipeline needs it: Java found, workers with our Python, times in UTC, nothing on the network.

Rule: what is missing is said before Spark is started, with the command that helps. `--master` of an existing cluster
is passed through; nothing of Spark is done by hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from . import kubernetes
from .errors import NotInstalledError, PipelineError
from .store.notes import KEY, NO_KEY

NEEDED: Final = (4, 2)
_JAVAS: Final = "/usr/lib/jvm"


def java_home() -> str:
    """Of a Java from 17 on: JAVA_HOME, else the one on the path, else one of the system's. Raises PipelineError."""
    candidates = [os.environ.get("JAVA_HOME", "")]
    if found := shutil.which("java"):
        candidates.append(str(Path(found).resolve().parents[1]))
    candidates += sorted(str(path) for path in Path(_JAVAS).glob("*") if re.search(r"(17|21)", path.name))
    for home in candidates:
        if home and os.path.exists(f"{home}/bin/java") and _version(home) >= 17:
            return home
    raise PipelineError("Spark needs Java 17 or later; Debian: apt install default-jre-headless, or set JAVA_HOME")


def _version(home: str) -> int:
    done = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=False)  # noqa: S603 (a fixed command)
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match[1]) if match else 0


def check_spark() -> None:
    """Raises PipelineError when PySpark is missing or too old."""
    try:
        import pyspark
    except ImportError:
        raise NotInstalledError("PySpark") from None
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < NEEDED:
        raise PipelineError(
            f"PySpark {pyspark.__version__} is too old (before 4.2 a capped stream ends silently after one batch): "
            "pip install 'pyspark>=4.2,<5'"
        )


def give_way() -> None:
    """From now on this process and what it starts (the JVM, Python workers) have the processor and the disk while
    nobody else on this machine wants them. A low priority (nice) is not that: who wakes up waits for the end of its
    slice. Raises PipelineError."""
    idle = getattr(os, "SCHED_IDLE", None)
    if idle is None:
        raise PipelineError("--background needs Linux (SCHED_IDLE): leave it out, and use nice")
    try:
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), idle, os.sched_param(0))
    except OSError as error:
        raise PipelineError(f"--background: {error.strerror or error}; leave it out, and use nice") from None


def has_settings(package: Path) -> bool:
    """Has somebody set up this Spark: SPARK_HOME, or a folder `conf` in PySpark's package, where Spark reads it from.
    With SPARK_CONF_DIR it would not be read any more (spark-defaults.conf …)."""
    return bool(os.environ.get("SPARK_HOME")) or (package / "conf").is_dir()


def session(master: str = "local[*]", memory: str = "1g", name: str = "stampede-pipeline", **conf: str) -> Any:
    """A session with `format("stampede")`. `conf`: names with __ for dots. Raises PipelineError."""
    check_spark()
    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    packages = str(Path(__file__).resolve().parents[1])
    here = [packages, str(Path(sys.modules["broker"].__file__ or "").resolve().parents[1])]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*here, *filter(None, paths)]))
    import pyspark

    if not has_settings(Path(pyspark.__file__).parent):
        os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).with_name("conf")))
    from pyspark.sql import SparkSession

    from . import register

    builder = SparkSession.builder.master(master).appName(name)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        # What plans, the UI and event logs do not show.
        KEY: NO_KEY,
        "spark.redaction.regex": "(?i)secret|password|passcode|token|access[.]?key",
        "spark.sql.redaction.options.regex": "(?i)url|passcode",
        # Files of several addresses and hours at a time: else Spark sorts all rows by them first.
        "spark.sql.maxConcurrentOutputFileWriters": "64",
        "spark.sql.parquet.compression.codec": "zstd",
        # Pages are written with checksums; a damaged one is an error then, not other values.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    }
    given = {key.replace("__", "."): value for key, value in conf.items()}
    if master.startswith(kubernetes.PREFIX):
        settings |= kubernetes.settings(master, given)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    for key, value in (settings | given).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
