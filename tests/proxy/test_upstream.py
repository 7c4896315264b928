"""Connections to an upstream that stay open between requests."""

from __future__ import annotations

import asyncio
import socket
import threading

from legato.proxy.config import Limits
from legato.proxy.upstream import Client
from loopback import PATIENCE, answer, receive


def test_a_connection_that_was_closed_while_the_loop_was_busy_is_not_used_again() -> None:
    closed = threading.Event()
    served = []

    def serve(listening: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as reading:
                served.append(receive(reading))
                connection.sendall(answer({}))
            closed.set()

    async def ask_twice(url: str) -> list[int]:
        client = Client(Limits())
        await client.open()
        statuses = []
        for _ in range(2):
            reply = await asyncio.create_task(client.send("POST", url, [], b"{}"))
            assert await reply.start(1_000)
            reply.close()
            statuses.append(reply.status)
            # This blocks the loop, as governing does: it does not notice meanwhile that the upstream hangs up.
            assert closed.wait(PATIENCE)
        await client.close()
        return statuses

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert asyncio.run(asyncio.wait_for(ask_twice(url), PATIENCE)) == [200, 200]
        thread.join(PATIENCE)
    assert len(served) == 2
