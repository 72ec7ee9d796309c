"""The console as it is served: for everybody who reaches the port, and without anything from elsewhere."""

from __future__ import annotations

import re

import pytest

from broker.admin.console import policy

SCRIPTS = [f"/console/{name}.js" for name in (
    "stomp", "try", "queue", "plots", "lists", "cluster", "editing", "console",
)]  # fmt: skip


async def get(api, path: str) -> tuple[str, str]:
    async with api.http.get(path) as answer:
        assert answer.status == 200 and answer.headers["X-Content-Type-Options"] == "nosniff"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        return answer.content_type, await answer.text()


async def test_it_loads_nothing_from_elsewhere(api):
    kind, page = await get(api, "/console")
    assert kind == "text/html" and 'lang="en"' in page
    loaded = re.findall(r'(?:src|href)="(/[^"]+)"', page)
    assert loaded == ["/console/console.css", *SCRIPTS]
    for path in loaded:
        _, text = await get(api, path)
        assert not re.search(r"https?://|@import|url\(|\beval\b|innerHTML|outerHTML|insertAdjacentHTML", text), path
    assert not re.search(r"<style|\sstyle=|\son\w+=", page), "its own policy would not let that in"


async def test_it_asks_for_what_the_api_has(api):
    script = "".join([(await get(api, path))[1] for path in SCRIPTS])
    document = await api.get("/openapi.json")
    known = {path.removeprefix("/api/v1").replace("{", "${part(") for path in document["paths"]}
    asked = set(re.findall(r'(?:api\("(?:GET|POST|PUT|PATCH|DELETE)", |look\()["`](/[^"`?]*)', script))
    assert asked
    heads = {path.split("$")[0].rstrip("/") for path in known}
    assert {path.split("$")[0].rstrip("/") for path in asked} <= heads | {""}
    for action in re.findall(r"\$\{at\}/([a-z-]+)", script):
        assert f"/api/v1/queues/{{queue}}/{action}" in document["paths"], action


@pytest.mark.parametrize(
    ("host", "sockets"),
    [
        ("broker.example.org:61680", " ws://broker.example.org:* wss://broker.example.org:*"),
        ("10.0.0.1", " ws://10.0.0.1:* wss://10.0.0.1:*"),
        ("[::1]:61680", " ws://[::1]:* wss://[::1]:*"),
        ("a;script-src *", ""),
        ("a b", ""),
        ("", ""),
    ],
)
def test_it_talks_to_other_ports_of_the_host_it_came_from_alone(host, sockets):
    assert f"connect-src 'self'{sockets};" in policy(host)
    assert policy(host).count(";") == 6
