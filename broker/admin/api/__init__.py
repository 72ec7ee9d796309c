"""The API for operators, `/api/v1` on the admin port: see, explain, act (ADR: docs/adr, "An API for operators").

Rule: asks by ports that `app` wires (ports.py), so it is the same on a standalone broker and on an edge.
"""
