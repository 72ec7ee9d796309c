"""The optional compiled wheel: STAMPEDE_COMPILED=1 has the modules of the reader compiled by mypyc (docs/adr/0022).

    STAMPEDE_COMPILED=1 pip wheel --no-deps .   # a wheel of this Python and machine; without it: pure Python, as ever
    python hatch_build.py build/compiled        # a copy of broker/ with them beside the sources (make test-compiled)

Rule: the same sources, nothing is generated or replaced; what is not compiled is Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
MODULES = (
    "block", "connection", "escapes", "events", "heads", "intake", "memo", "rules", "sends", "shortcuts/bulk",
    "shortcuts/known_layouts", "shortcuts/known_sends", "shortcuts/layouts", "versions", "writer",
)  # fmt: skip
"""Of broker/wire: bytes in, events out. Nobody makes subclasses of what is in them."""
NEEDS = ["mypy>=1.15,<3", "setuptools>=70"]
_SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(name="stampede-compiled", packages=[], ext_modules=mypycify(
    ["--strict", "--ignore-missing-imports", *sys.argv.pop().split()], opt_level="3", debug_level="0"))
"""


def compile_into(folder: Path) -> list[Path]:
    """Makes `folder` a copy of broker/ with the compiled modules in it. Returns these, relative to it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(ROOT / "broker", folder / "broker", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    files = " ".join(f"broker/wire/{name}.py" for name in MODULES)
    subprocess.run([sys.executable, "-c", _SETUP, "build_ext", "--inplace", files], cwd=folder, check=True)
    shutil.rmtree(folder / "build", ignore_errors=True)
    return [found.relative_to(folder) for found in folder.rglob("*.so")]


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called by itself
    pass
else:

    class CompiledWheel(BuildHookInterface):
        """Of hatchling: does nothing where nobody has asked for it."""

        PLUGIN_NAME = "custom"

        @property
        def wanted(self) -> bool:
            return os.environ.get("STAMPEDE_COMPILED") == "1"

        def dependencies(self) -> list[str]:
            return NEEDS if self.wanted else []

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if self.wanted and version != "editable":
                folder = ROOT / "build" / "compiled"
                found = compile_into(folder)
                build_data["force_include"].update({str(folder / name): str(name) for name in found})
                build_data.update(pure_python=False, infer_tag=True)


if __name__ == "__main__":
    for made in compile_into(Path(sys.argv[1]).resolve()):
        sys.stdout.write(f"{made}\n")
