"""Why something was not made: a quota, a right, or nobody may."""

from __future__ import annotations

from broker.core.errors import Code
from broker.edge.quotas.quotas import Quotas
from broker.edge.rights.permissions import Permissions
from broker.edge.session.told.auto_create_refusals import not_made


def test_why_something_was_not_made():
    denied: list[str] = []
    quotas = Quotas({"host:/": {"max_queues": 1}})
    usage = quotas.usage("ada", "", "::1")
    assert usage is not None
    rights = Permissions({"#": {"send": "staff"}}, ".").rights(("staff",))
    nobody = not_made(usage, None, "ada", "'x' does not exist", denied.append)
    assert nobody.code is Code.NO_SUCH_DESTINATION and not denied
    lacking = not_made(usage, rights, "ada", "'x' does not exist", denied.append)
    assert lacking.code is Code.NOT_ALLOWED and "user 'ada' lacks" in lacking.detail and denied == ["create"]
    list(quotas.keeps({"host:/": (1, 0, 0, 0)}))
    assert not usage.creates()
    full = not_made(usage, rights, "ada", "'x' does not exist", denied.append)
    assert full.code is Code.QUOTA and "host:/ has 1 queues at most" in full.detail and denied == ["create"]
    list(quotas.keeps({}))
    assert usage.creates()
    assert not_made(usage, rights, "ada", "'x' does not exist", denied.append).code is Code.NOT_ALLOWED
