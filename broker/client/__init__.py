"""The public asyncio client for STOMP 1.0, 1.1 and 1.2 over TCP, TLS and WebSocket.

    import broker.client

    async with broker.client.connect("stomp://user:pass@host:61613", heartbeat=(10_000, 10_000)) as c:
        await c.send("/queue/a", b"body", headers={"colour": "blue"}, receipt=True)
        async with c.subscribe("/queue/a", ack="client-individual", prefetch=100) as sub:
            async for m in sub:
                print(m.body)
                await m.ack()

Rule: built on broker.wire alone, like any other client could be; it knows nothing of the server's rooms.

There is no automatic reconnect, on purpose. What a lost connection means depends on the application: a send without its
receipt may or may not have been stored, a transaction is gone, unacknowledged messages come again (possibly to another
consumer), a topic subscription has missed messages. Catch ConnectionLost, decide, connect again.
"""

from .connect import connect
from .connection import Client
from .errors import ClientError, ClientTimeout, ConnectFailed, ConnectionLost, ServerError
from .message import Message
from .subscription import Subscription
from .transaction import Pipeline, Transaction

__all__ = [
    "Client",
    "ClientError",
    "ClientTimeout",
    "ConnectFailed",
    "ConnectionLost",
    "Message",
    "Pipeline",
    "ServerError",
    "Subscription",
    "Transaction",
    "connect",
]
