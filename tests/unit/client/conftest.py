"""The load generator, compiled once."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "bench" / "load.c"


@pytest.fixture(scope="session")
def binary(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the load generator is not tested")
    target = tmp_path_factory.mktemp("load") / "load"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(SOURCE)], check=True)
    return str(target)
