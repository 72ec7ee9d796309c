"""The ways to prove who one is, by name, as `login_by` has them.

Rule: names only; what they mean is in edge/requests/proving.py.
"""

from __future__ import annotations

from typing import Final

JUDGES: Final = frozenset({"ldap", "hook"})
"""Of a login and its passcode, other than the table of users: the first that stands there decides."""
WAYS: Final = ("certificate", "token", "passcode", *sorted(JUDGES, reverse=True))
