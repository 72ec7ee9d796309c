"""The OpenAPI document says what there is, and nothing else."""

from __future__ import annotations


async def test_the_document_says_what_there_is_and_nothing_else(api):
    """Answers of every other test are held against it as well (tests/harness/api.py)."""
    document = await api.get("/openapi.json")
    mounted = {
        (route.method, route.resource.canonical)
        for route in api.broker.admin._runner.app.router.routes()
        if route.resource.canonical.startswith("/api/v1") and route.method != "HEAD"
    }
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == mounted
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"] and all(p.get("description", p["in"]) for p in operation["parameters"])
