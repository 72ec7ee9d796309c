"""What went wrong, out of many lines of Spark's, in one line with what to do."""

from __future__ import annotations

import pytest
from broker_pipeline import cli
from broker_pipeline.advice import cause
from broker_pipeline.errors import PipelineError


def test_what_spark_says_gets_what_to_do() -> None:
    full = "Job aborted\nCaused by: a.B: outer\n\tat x\nCaused by: java.io.IOException: No space left on device\n\tat y"
    assert "make room" in cause(full) and "run it again" in cause(full)
    broken = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///lake/data/1-0.parquet. SQLSTATE\n"
        "Caused by: java.lang.RuntimeException: file:/lake/data/1-0.parquet is not a Parquet file. Expected magic"
    )
    assert cause(broken).count("1-0.parquet") == 1 and "verify" in cause(broken) and "backup" in cause(broken)
    hidden = "error while reading file file:///lake/data/1-0.parquet.\nCaused by: x.ParquetDecodingException: corrupt"
    assert "file:///lake/data/1-0.parquet" in cause(hidden) and "backup" in cause(hidden)
    assert "run it again" in cause("Caused by: java.io.FileNotFoundException: File file:/lake/x.parquet does not exist")
    body = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n" + (
        "OSError: [Errno 28] No space left on device: '/lake/1-1.body'\n\nJVM stacktrace:\nx.PythonException\n\tat y"
    )
    assert cause(body).startswith("OSError: [Errno 28] No space left on device") and "make room" in cause(body)
    page = "error while reading file file:///lake/data/1-0.parquet.\nCaused by: x.ZstdIOException: Unknown frame"
    assert "file:///lake/data/1-0.parquet" in cause(page) and "verify" in cause(page) and "backup" in cause(page)
    java = cause("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    assert "spark.jars.packages" in java and "extraClassPath=FOLDER/*" in java and "JAVA_HOME" in java
    lost = "An error occurred while calling o1.x.\n: x.Y: Cannot call methods on a stopped SparkContext.\n\tat z"
    assert "--master" in cause(lost) and "spark.driver.host" in cause(lost)
    assert cause("only this") == "only this"
    assert (
        cause("An error occurred while calling o5.count.\n: java.io.IOException: x\n\tat y") == "java.io.IOException: x"
    )


def test_a_full_disk_is_said_in_one_line() -> None:
    def full() -> None:
        raise OSError(28, "No space left on device", "/lake/x")

    with pytest.raises(cli._Said, match=r"/lake/x: No space left on device: make room"):
        cli._perform(full)

    def wrong() -> None:
        raise PipelineError("say this")

    with pytest.raises(cli._Said, match="say this"):
        cli._perform(wrong)
