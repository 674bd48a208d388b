"""A web server for the explorer on this machine alone."""

import re
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from pipelines.explorer.site import Site
from pipelines.terminal import say
from schemas.errors import UserError

HOST = "127.0.0.1"
#: Names of this machine. Under another one, a page from elsewhere would read the lake by a DNS name of its own.
HOST_NAMES = (HOST, "localhost", "[::1]")
#: The page's own policy (its meta element), and what only a header can say. Snappy is unpacked by WebAssembly.
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}


class _Handler(BaseHTTPRequestHandler):
    """Answers GET, also of a range of bytes, and HEAD with the site's files."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args: object, site: Site) -> None:
        self._site = site
        super().__init__(*args)  # type: ignore[arg-type]

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that goes away is no fault
            super().handle()

    def do_GET(self) -> None:
        status, kind, content = self._found()
        headers = {}
        wanted = self.headers.get("Range")
        if status == HTTPStatus.OK and wanted and "If-Range" not in self.headers:
            part = byte_range(wanted, len(content))
            if part is not None and not part:
                status, kind = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, _TYPES["txt"]
                headers["Content-Range"] = f"bytes */{len(content)}"
                content = b"The file has no such bytes.\n"
            elif part is not None:
                status = HTTPStatus.PARTIAL_CONTENT
                headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{len(content)}"
                content = content[part.start : part.stop]
        self._begin(status, kind, len(content), headers)
        self.wfile.write(content)

    def do_HEAD(self) -> None:
        status, kind, content = self._found()
        self._begin(status, kind, len(content), {})

    def _found(self) -> tuple[HTTPStatus, str, bytes]:
        """The status, the type and the content of what is asked for."""
        names = self.headers.get_all("Host") or []
        if len(names) != 1 or re.sub(r":\d*$", "", names[0].strip().lower()) not in HOST_NAMES:
            said = f"This is {HOST}: ask it by that name or localhost.\n"
            return HTTPStatus.MISDIRECTED_REQUEST, _TYPES["txt"], said.encode()
        path = unquote(urlsplit(self.path).path).removeprefix("/") or "index.html"
        try:
            content = self._site.content(path)
        except UserError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, _TYPES["txt"], str(error).encode()
        if content is None:
            return HTTPStatus.NOT_FOUND, _TYPES["txt"], b"There is no such file.\n"
        return HTTPStatus.OK, _TYPES.get(path.rpartition(".")[2], "application/octet-stream"), content

    def _begin(self, status: HTTPStatus, kind: str, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(length),
            "Accept-Ranges": "bytes",
            "Cache-Control": "no-cache",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            **headers,
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Says nothing: the address was said once."""


def byte_range(header: str, length: int) -> range | None:
    """The bytes of a file of ``length`` that a ``Range`` header asks for; empty where the file has none of them.

    None where the header is to be passed over, as RFC 9110 (14.2) has it of what is no single range of bytes.
    """
    asked = re.fullmatch(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", header.strip(), re.ASCII)
    if asked is None:
        return None
    first, last = asked[1], asked[2]
    if not first:
        return range(max(0, length - int(last)), length) if last else None
    if last and int(last) < int(first):
        return None
    return range(int(first), min(length, int(last) + 1) if last else length)


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
        say("Stopped.", err=True)
    finally:
        server.server_close()
