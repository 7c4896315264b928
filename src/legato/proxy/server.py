"""The server that runs the proxy: uvicorn, told how."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from contextlib import suppress
from multiprocessing import parent_process
from typing import Any

try:
    import resource
except ImportError:  # not on Windows, which has no such limit either
    resource = None  # type: ignore[assignment]

import msgspec
import uvicorn
from uvicorn.supervisors import Multiprocess

from legato.proxy import logs
from legato.proxy.app import Proxy
from legato.proxy.config import Config
from legato.proxy.protocol import Bounded

CONFIG = "LEGATO_PROXY_CONFIG"
"""The variable in which workers find their configuration, as JSON."""
BACKLOG = 2_048
"""Connections that wait until they are taken: nobody is turned away while the server starts."""
PATIENCE = 60
"""Seconds that a worker may take to start, or to say that it lives: one that is killed for being slow starts anew, and
is no faster then."""
IDLE = 75
"""Seconds for which a connection without requests is kept: longer than what stands in front of it keeps one."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 takes a free one. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    listening.set_inheritable(True)
    listening.listen(BACKLOG)
    return listening


def settings(config: Config, app: Any) -> uvicorn.Config:
    """How uvicorn is to run the application, or the factory that is named."""
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        http=Bounded,
        ws="none",
        interface="asgi3",
        lifespan="on",
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=config.shutdown_seconds,
        workers=config.workers,
        timeout_worker_healthcheck=PATIENCE,
    )


def run(config: Config, listening: socket.socket) -> None:
    """Serves until it is told to stop, then lets the streams that are under way end."""
    logs.set_up()
    _allow_connections()
    host, port = listening.getsockname()[:2]
    logs.say(
        "listening", host=host, port=port, workers=config.workers, upstreams=[each.label for each in config.upstream]
    )
    if not config.is_local and not config.tokens:
        logs.say("open", logging.WARNING, why="other machines can reach this proxy, and tokens_env is not set")
    signal.signal(signal.SIGTERM, _stopped)
    if config.workers == 1:
        uvicorn.Server(settings(config, Proxy(config))).run(sockets=[listening])
        return
    os.environ[CONFIG] = msgspec.json.encode(config).decode()
    Multiprocess(settings(config, f"{__name__}:worker"), sockets=[listening]).run()


def _allow_connections() -> None:
    """As many open connections as this process may ask for: each request has two."""
    if resource is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _stopped(*_: object) -> None:
    """What the signal to stop comes to when all is done: uvicorn raises it again then."""
    raise SystemExit(0)


def worker() -> Proxy:
    """The application of one worker, from the configuration in its environment."""
    logs.set_up()
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    return Proxy(msgspec.json.decode(os.environ[CONFIG], type=Config))


def _stop_with_parent() -> None:
    """A worker whose parent was killed would hold the port for ever. It finishes its streams first."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
