"""The HTTP end of a test inside another runtime: it serves the page, takes the verdicts and restarts the broker.

Rule: the runtime decides what is right; this side only collects.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.harness import Broker

JS = Path(__file__).parent / "js"
PAGES = {
    "/": (JS / "browser.html", "text/html; charset=utf-8"),
    "/scenarios.mjs": (JS / "scenarios.mjs", "text/javascript; charset=utf-8"),
    "/stomp.umd.js": (JS / "node_modules/@stomp/stompjs/bundles/stomp.umd.js", "text/javascript; charset=utf-8"),
}


class Control:
    """`verdicts`: scenario → what went wrong, or an empty text."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.verdicts: dict[str, str] = {}
        self.done = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Control:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, data: dict[str, str]) -> None:
        if path == "/report":
            self.verdicts[data["name"]] = data["error"]
        elif path == "/restart":
            self.broker.kill()
            self.broker.start()
        elif path == "/done":
            self.done.set()


def _handler(control: Control) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, kind = PAGES.get(self.path, (None, ""))
            body = path.read_bytes() if path is not None else b""
            self._answer(200 if path is not None else 404, body, kind)

        def do_POST(self) -> None:
            data = json.loads(self.rfile.read(int(self.headers["content-length"])))
            control.take(self.path, data)
            self._answer(200, b"{}", "application/json")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """The test's output is pytest's."""

    return Handler
