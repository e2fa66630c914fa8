"""Server processes: one in place, or several under a parent that ends all of them and waits."""

import ctypes
import os
import signal
import sys
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG, STARTUP_FAILURE
from uvicorn.supervisors import ChangeReload, Multiprocess

__all__ = ("end_with_parent", "serve")

PARENT = "ISTHMUS_PARENT_PID"
PR_SET_PDEATHSIG = 1
OUR_LOG = {"handlers": ["default"], "level": "INFO", "propagate": False}


def serve(
    app: Any,
    *,
    factory: bool,
    workers: int,
    host: str,
    port: int,
    uds: str | None,
    fd: int | None,
    reload: bool,
    debug: bool,
    ssl_certfile: str | None,
    ssl_keyfile: str | None,
    access_log: bool,
    grace: int,
) -> int:
    """Serve an ASGI app, or what an import path names, until told to stop; the exit code.

    Requests in flight get ``grace`` seconds to finish. A worker that dies while serving is replaced; one that
    cannot start ends the server, since its replacement could not either.
    """
    config = uvicorn.Config(
        app,
        factory=factory,
        workers=workers,
        host=host,
        port=port,
        uds=uds,
        fd=fd,
        reload=reload,
        log_config={**LOGGING_CONFIG, "loggers": {**LOGGING_CONFIG["loggers"], "isthmus": OUR_LOG}},
        log_level="debug" if debug else "info",
        access_log=access_log,
        proxy_headers=access_log,  # the client's address is looked at nowhere else
        ssl_certfile=ssl_certfile,
        ssl_keyfile=ssl_keyfile,
        timeout_graceful_shutdown=grace,
        timeout_keep_alive=75,
        backlog=4096,
        server_header=False,
    )
    if workers == 1 and not reload:
        server = uvicorn.Server(config)
        server.run()
        return 0 if server.started else STARTUP_FAILURE
    os.environ[PARENT] = str(os.getpid())
    listening = [config.bind_socket()]
    if reload:
        ChangeReload(config, target=uvicorn.Server(config).run, sockets=listening).run()
        return 0
    supervisor = Multiprocess(config, listening)
    supervisor.run()
    return max((STARTUP_FAILURE for process in supervisor.processes if process.exitcode == STARTUP_FAILURE), default=0)


def end_with_parent() -> None:
    """Have this worker told to stop when its parent is gone, however that happened (Linux)."""
    parent = os.environ.get(PARENT)
    if parent is None or int(parent) == os.getpid() or not sys.platform.startswith("linux"):
        return
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if int(parent) != os.getppid():  # gone while this worker was being made
        os.kill(os.getpid(), signal.SIGTERM)
