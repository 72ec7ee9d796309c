"""What went wrong, out of what Spark, Java and the system say of it, in one line with what to do.

Rule: only texts of others are looked through here; what the pipeline itself finds says so when it raises it.
"""

from __future__ import annotations

import re
from typing import Final

_DAMAGED: Final = (
    "a file of the archive is damaged: `stampede-pipeline verify FOLDER` names all of them; restore them from a backup"
)
_ADVICE: Final = (
    (
        r"No space left on device|Disk quota exceeded|not enough space",
        "make room there, or where Spark keeps its files (spark.local.dir); nothing of this run counts, run it again",
    ),
    (
        r"not a Parquet file|[Rr]ead(ing)? footer|READ_FILE|corrupt|Could not read page|malformed",
        _DAMAGED,
    ),
    (
        r"FileNotFoundException|does not exist|PATH_NOT_FOUND",
        "if it is a file of an archive that was compacted meanwhile, run it again; if it is lost, "
        "`stampede-pipeline verify FOLDER` names all of them; restore them from a backup",
    ),
    (
        r"JAVA_GATEWAY_EXITED",
        "Java ended before Spark began, and why stands above. If jars could not be fetched (spark.jars.packages), put "
        "them into a folder where there is no way to Maven, and say --conf spark.driver.extraClassPath=FOLDER/*; else "
        "look at --conf, --memory and JAVA_HOME",
    ),
    (
        r"stopped SparkContext|masters are unresponsive",
        "the Spark cluster of --master does not answer, or has ended this application: check that address, and that "
        "the cluster reaches this machine (spark.driver.host)",
    ),
    (
        r"Cannot run program .*python",
        "Spark's executors have no such Python: run them and the driver from the same image, or name theirs in "
        "PYSPARK_PYTHON",
    ),
    (
        r"KubernetesClientException: (?=[\s\S]*forbidden)",
        "the account of the driver needs a Role for pods, services, configmaps and persistentvolumeclaims "
        "(docs/pipeline.md)",
    ),
    (
        r"KubernetesClientException",
        "check the API server in --master, and that the kubeconfig or the pod's service account is of that cluster",
    ),
    # A page that cannot be read is said in as many ways as there are codecs: such a line names its file (see cause).
    (r"\.parquet\)$", _DAMAGED),
)


_WORKER: Final = re.compile(
    r"Python worker (exited unexpectedly|failed to connect back)|PythonWorkerFactory\."
    r"|(Broken pipe|Connection re(set|fused)|ClosedChannelException|EOFException)[\s\S]*\.(api|execution)\.python\."
)
"""What Spark says of a Python process that the system has ended: in a task, in a plan, and of those that were idle,
of whom it throws one away with each try."""
LOST_WORKER: Final = (
    "a Python process of Spark was ended from outside, as the system does when memory is short: give the machine or "
    "the container more, or --master local[1], and run it again: what is done is not done twice"
)


def lost_worker(text: str) -> bool:
    """Spark's Python processes are not there any more; a new session has others."""
    told = ("PipelineError: ", "Error from python worker:", "Cannot run program")  # it is known why
    return not any(each in text for each in told) and _WORKER.search(text) is not None


def advised(text: str) -> str:
    """The same with what to do, where that is known."""
    advice = next((advice for pattern, advice in _ADVICE if re.search(pattern, text)), "")
    return f"{text}: {advice}" if advice else text


def cause(text: str) -> str:
    """What went wrong, out of Spark's many lines: our own error in a worker, else the innermost of Java's."""
    if found := re.search(r"PipelineError: (.+)", text):
        return found[1].strip().rstrip("'\"")
    if lost_worker(text):
        return LOST_WORKER
    said = next((line.lstrip(": ") for line in text.splitlines() if _says(line)), "Spark failed and did not say why")
    worker = re.search(r"from the Python worker[\s\S]*?\n(\w[\w.]*: .+)", text)
    if found := worker or re.search(r"Caused by: (.+)(?![\s\S]*Caused by: )", text):
        said = found[1].strip().rstrip("'\"")
    named = re.search(r"(?:file|viewfs|hdfs|s3a|abfss?|gs):/[^\s'\"]+\.parquet", text)
    return advised(said if named is None or named[0].rpartition("/")[2] in said else f"{said} ({named[0]})")


def _says(line: str) -> bool:
    """More than that a call has failed."""
    return bool(line.strip()) and not line.startswith("An error occurred while calling ")
