"""What the proxy between components can do to a connection: one way only, later, and back to normal."""

from __future__ import annotations

import socket
import threading
import time

from tests.harness.broker import free_ports
from tests.harness.proxy import UP, Proxy


def test_a_hole_one_way_a_slow_link_and_healing():
    with socket.create_server(("127.0.0.1", 0)) as target:
        (port,) = free_ports(1)
        proxy = Proxy(port, target.getsockname()[1]).start()
        try:
            with socket.create_connection(("127.0.0.1", port), 30) as here:
                there, _ = target.accept()
                with there:
                    there.settimeout(30)
                    proxy.blackhole(ways=(UP,))
                    here.sendall(b"lost")
                    there.sendall(b"heard")
                    assert here.recv(100) == b"heard"
                    there.settimeout(0.2)
                    try:
                        assert not there.recv(100)
                    except TimeoutError:
                        pass
                    proxy.heal()
                    assert here.recv(100) == b"", "what stood in the hole is gone, and with it the connection"
            proxy.slow(0.3)
            with socket.create_connection(("127.0.0.1", port), 30) as here:
                there, _ = target.accept()
                with there:
                    begun = time.monotonic()
                    here.sendall(b"late")
                    assert there.recv(100) == b"late" and time.monotonic() - begun >= 0.25
        finally:
            proxy.stop()
    assert not [thread for thread in threading.enumerate() if thread is proxy._thread]
