"""docs/tour-browser.html in headless Chromium: it connects, sends and shows what it gets."""

from __future__ import annotations

import functools
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.harness import Broker, Client

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tour-browser.html"
# What a person would do: wait until connected, press Send. Then tell the test what the page shows.
HANDS = """<script>
const send = () => document.getElementById("form").requestSubmit();
socket.addEventListener("message", () => setTimeout(send, 100), { once: true });
new MutationObserver((_, observer) => {
  const shown = document.getElementById("log").textContent;
  if (!shown.includes("/topic/tour: ")) return;
  observer.disconnect();
  socket.send(frame("SEND", { destination: "/queue/shown" }, shown));
}).observe(document.getElementById("log"), { childList: true });
</script>"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url(tmp_path):
    (tmp_path / "tour.html").write_text(PAGE.read_text().replace("</html>", HANDS + "</html>"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/tour.html"
    server.shutdown()
    server.server_close()
    thread.join()


def test_page_talks_to_the_broker(url, tmp_path):
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed: the tour page is not tested")
    with Broker(tmp_path / "broker") as broker, Client(broker.port) as client:
        client.connect()
        client.subscribe("/queue/shown")
        client.sync()
        line = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        line += ["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"]
        line += [f"--user-data-dir={tmp_path / 'profile'}", f"{url}?ws://127.0.0.1:{broker.ws_port}"]
        with subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as it:
            try:
                shown = client.read(30).body.decode()
            finally:
                it.kill()
    assert "connected to" in shown
    assert "STOMP 1.2" in shown
    assert shown.endswith("/topic/tour: hello from a browser\n")
