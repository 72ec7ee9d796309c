"""The schema of StompUser: a user who may log in.

Rule: passcodes stand in Secrets only, never in the resource.
"""

from __future__ import annotations

from ..spec.schema import Schema, boolean, integer, strings, table, text
from .crd_address import broker_ref
from .rules import Rule, ruled

GRACE_S = 600


def spec() -> Schema:
    reference = table(
        "An existing Secret with the passcode. A change of it is a rotation.",
        {
            "name": text("Name of the Secret in this namespace."),
            "key": text("Key of the passcode in it.", default="password"),
        },
        ["name"],
    )
    username = ruled(
        text("Login. Default: the name of the resource.", most=128),
        Rule("self.trim() == self", "spec.username begins or ends with a space; take it out."),
        Rule("!self.matches('[\\\\x00-\\\\x1f\\\\x7f]')", "spec.username has a control character; use printable ones."),
    )
    generate = table(
        "A passcode is made and put into the Secret NAME-stomp (keys username, password).",
        {
            "length": integer("Characters of the passcode.", 16, 128, 32),
            "rotation": text(
                "Any text; another one makes another passcode (for instance a date).", most=64, least=0, default=""
            ),
        },
    )
    properties = {
        "brokerRef": broker_ref(),
        "username": username,
        "passwordSecretRef": reference,
        "generate": generate,
        "groups": strings("Groups the user belongs to.", length=128),
        "rotationGraceSeconds": integer("How long the old passcode stays valid after a change.", 0, 86400, GRACE_S),
        "suspended": boolean("The user cannot log in, and open connections end.", False),
    }
    return ruled(table("Who may log in.", properties), *_SPEC_RULES)


_SPEC_RULES = (
    Rule(
        "!(has(self.passwordSecretRef) && has(self.generate))",
        "give either spec.passwordSecretRef or spec.generate, or neither to have a passcode made.",
    ),
    Rule(
        "(has(self.username) ? self.username : '') == (has(oldSelf.username) ? oldSelf.username : '')",
        "spec.username cannot be changed; make a new StompUser and delete this one.",
    ),
    Rule(
        "!has(self.groups) || self.groups.all(g, size(g) > 0)",
        "spec.groups has an empty text; take it out.",
    ),
)

COLUMNS = (
    ("Username", "string", ".status.username", 0),
    ("Secret", "string", ".status.secretName", 0),
    ("Rotated", "date", ".status.lastRotated", 0),
    ("Broker", "string", ".spec.brokerRef.name", 1),
    ("Programmed", "string", '.status.conditions[?(@.type=="Programmed")].status', 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
)


def status() -> dict[str, Schema]:
    return {
        "username": {"type": "string", "description": "Login."},
        "secretName": {"type": "string", "description": "Secret with the passcode."},
        "lastRotated": {"type": "string", "format": "date-time", "description": "When the passcode last changed."},
        "graceUntil": {
            "type": "string",
            "format": "date-time",
            "description": "Until then the passcode from before is valid as well.",
        },
        "etcdRevision": {"type": "integer", "format": "int64", "description": "Of the last change of its key."},
    }
