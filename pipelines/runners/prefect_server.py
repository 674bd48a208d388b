"""A small Prefect API server for one process: the child that `pipelines.runners.prefect_runtime` starts.

Run by path, never imported: `python -P prefect_server.py SOCKET_FD LOCK_FILE [--scheduler]`. It serves the
listening socket that it inherits, writes `ready` to standard output when it answers, and ends when standard
input closes, which happens when the parent ends, whatever the way. It needs only Prefect and the standard
library.
"""

from __future__ import annotations

import gc

gc.disable()  # importing makes no garbage; collecting all the same costs 0.4 s of 2.4 s. Enabled when ready.

import os  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from typing import Any, TextIO  # noqa: E402

IDLE_WINDOW_SECONDS = 0.2  # longer than the task run recorder's flush interval
IDLE_CPU_SECONDS = 0.03
DRAIN_SECONDS = 5.0
RETRY_SOON_SECONDS = 10.0
SHUTDOWN_SECONDS = 5.0


def take_lock(path: str) -> TextIO:
    """Wait for the lock at `path`, so that no two processes migrate one database at once; closing unlocks."""
    handle = open(path, "w", encoding="utf-8")  # noqa: SIM115 - held until the server is up
    try:
        import fcntl
    except ImportError:  # no advisory locks on this system: SQLite's own have to do
        return handle
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def end_with_parent(ready: threading.Event) -> None:
    """Wait until standard input closes, let queued task runs be written, then stop, by force if need be."""
    while os.read(0, 1024):
        pass
    if not ready.is_set():
        os._exit(1)  # also amid a migration: each is one transaction
    deadline = time.monotonic() + DRAIN_SECONDS
    busy = True
    while busy and time.monotonic() < deadline:
        used = time.process_time()
        time.sleep(IDLE_WINDOW_SECONDS)
        busy = time.process_time() - used > IDLE_CPU_SECONDS
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_SECONDS)
    os._exit(1)


class RetrySoon:
    """ASGI middleware: where SQLite was locked, lets the client come back at once, not after 2 s.

    Prefect's client repeats for as long as it is told to, so it is told no more once requests have failed for
    RETRY_SOON_SECONDS on end.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.failing_since: float | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_header(message: Any) -> None:
            if message["type"] == "http.response.start":
                if message["status"] != 503:
                    self.failing_since = None
                else:
                    now = time.monotonic()
                    self.failing_since = self.failing_since or now
                    if now - self.failing_since < RETRY_SOON_SECONDS:
                        message = {
                            **message,
                            "headers": [*message.get("headers", []), (b"retry-after", b"0.05")],
                        }
            await send(message)

        await self.app(scope, receive, send_with_header)


def main(arguments: list[str]) -> None:
    listener = socket.socket(fileno=int(arguments[0]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    ready = threading.Event()
    threading.Thread(target=end_with_parent, args=[ready], daemon=True).start()

    import uvicorn
    from prefect.server.api.server import create_app

    lock = take_lock(arguments[1])

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            lock.close()
            gc.freeze()
            gc.enable()
            if self.started:
                ready.set()
                os.write(1, b"ready\n")

    app = create_app(ephemeral="--scheduler" not in arguments, final=True)
    server = Server(uvicorn.Config(RetrySoon(app), log_level="error", lifespan="on", timeout_graceful_shutdown=1))
    server.run(sockets=[listener])
    sys.stderr.flush()
    os._exit(0 if server.started else 3)  # skip the interpreter's own teardown: nothing is left to save


if __name__ == "__main__":
    main(sys.argv[1:])
