"""A web server for the explorer on this machine alone."""

import sys
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from pipelines.explorer.site import Site
from schemas.errors import UserError

HOST = "127.0.0.1"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD with the site's files."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args: object, site: Site) -> None:
        self._site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path).removeprefix("/") or "index.html"
        status, kind = HTTPStatus.OK, _TYPES.get(path.rpartition(".")[2], "application/octet-stream")
        try:
            content = self._site.content(path)
        except UserError as error:
            status, kind, content = HTTPStatus.INTERNAL_SERVER_ERROR, _TYPES["txt"], str(error).encode()
        if content is None:
            status, kind, content = HTTPStatus.NOT_FOUND, _TYPES["txt"], b"There is no such file.\n"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Says nothing: the address was said once."""


def bind(site: Site, port: int) -> ThreadingHTTPServer:
    """A server that listens on ``port`` of this machine (0: any free one). Raises ``UserError`` if it is taken."""
    try:
        server = ThreadingHTTPServer((HOST, port), partial(_Handler, site=site))
    except OSError as error:
        raise UserError(
            f"Port {port} cannot be used: {error.strerror or error}. Give another one, or --port 0 for any free one."
        ) from error
    server.daemon_threads = True
    return server


def serve_until_stopped(server: ThreadingHTTPServer) -> None:
    """Answers requests until Ctrl-C or a termination."""
    import signal

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
    finally:
        server.server_close()
