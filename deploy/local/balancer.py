"""A small TCP balancer for the local cluster: each connection goes to the backend with the fewest open ones.

Rule: bytes are passed on as they are; a backend that refuses is skipped and tried again with the next connection.
For a laptop only: in production a Service of type LoadBalancer does this.
"""

from __future__ import annotations

import argparse
import asyncio

CHUNK = 256 * 1024


class Backend:
    def __init__(self, text: str) -> None:
        host, _, port = text.rpartition(":")
        self.host = host
        self.port = int(port)
        self.open = 0


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, until its end; then the other side learns that nothing more comes."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except (ConnectionError, OSError):
        writer.close()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, backends: list[Backend]) -> None:
    for backend in sorted(backends, key=lambda b: b.open):
        try:
            up, down = await asyncio.open_connection(backend.host, backend.port)
        except OSError:
            continue
        backend.open += 1
        try:
            await asyncio.gather(pump(reader, down), pump(up, writer))
        finally:
            backend.open -= 1
            down.close()
            writer.close()
        return
    writer.close()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("listen", help="host:port")
    parser.add_argument("backends", nargs="+", help="host:port")
    options = parser.parse_args()
    backends = [Backend(text) for text in options.backends]
    here = Backend(options.listen)
    server = await asyncio.start_server(lambda r, w: serve(r, w, backends), here.host, here.port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
