"""`make check` asks by this whether anybody here tells of known holes: `holes.py LIST`, 0: PyPI does.

Rule: one question, about the first library of the list, and a few seconds; says nothing of holes (pip-audit does).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from urllib.request import urlopen

PATIENCE_S = 5.0


def told(list_of_libraries: str) -> bool:
    """Does PyPI say of a version what is known of it; a mirror mostly has files only."""
    first = re.search(r"^([A-Za-z0-9._-]+)==(\S+)", list_of_libraries, re.MULTILINE)
    if first is None:
        return False
    try:
        with urlopen(f"https://pypi.org/pypi/{first[1]}/{first[2]}/json", timeout=PATIENCE_S) as answer:
            return "vulnerabilities" in json.load(answer)
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(not told(Path(sys.argv[1]).read_text()))
