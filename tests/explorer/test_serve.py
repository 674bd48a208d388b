"""`agent-pareto explorer --serve`: this machine alone, the same files as written ones, a clean end."""

import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from pipelines.explorer.serve import POLICY, bind, byte_range
from pipelines.explorer.site import Site
from schemas.errors import UserError


@pytest.fixture(scope="module")
def served(lake: Path) -> Iterator[tuple[Site, int]]:
    site = Site(lake)
    server = bind(site, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield site, server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str | None, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()
    finally:
        connection.close()


def test_files_are_those_of_the_site(served: tuple[Site, int]) -> None:
    site, port = served
    partition = "agent_points/hardware=h100-sxm/model=llama-3-1-70b/scenario=code-agent/part-0.parquet"
    for path in ("index.html", "js/main.js", "vendor/vega.min.js", "index.json", partition):
        status, _, content = get(port, f"/{path}")
        assert (status, content) == (200, site.content(path))
    assert get(port, "/")[1:] == ("text/html; charset=utf-8", site.content("index.html"))
    assert get(port, "/js/main.js?again")[1] == "text/javascript; charset=utf-8"
    assert get(port, "/index.json", "HEAD") == (200, "application/json", b"")


@pytest.mark.parametrize("path", ["/nothing", "/../pyproject.toml", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"])
def test_nothing_else_is_served(served: tuple[Site, int], path: str) -> None:
    assert get(served[1], path)[0] == 404


INDEX_PATH = "/index.json"


def answer(port: int, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8765", "127.0.0.1:1", "[::1]:8765"])
def test_this_machine_is_answered(served: tuple[Site, int], host: str) -> None:
    assert answer(served[1], INDEX_PATH, {"Host": host})[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "", "::1"])
def test_another_name_of_this_machine_is_refused(served: tuple[Site, int], host: str) -> None:
    status, _, content = answer(served[1], INDEX_PATH, {"Host": host})
    assert (status, content) == (421, b"This is 127.0.0.1: ask it by that name or localhost.\n")


def test_a_request_without_a_name_is_refused(served: tuple[Site, int]) -> None:
    with socket.create_connection(("127.0.0.1", served[1]), timeout=10) as connection:
        connection.sendall(b"GET /index.json HTTP/1.0\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"421"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-4", range(5)),
        ("bytes=3-", range(3, 10)),
        ("bytes=-4", range(6, 10)),
        ("bytes=-40", range(10)),
        ("bytes=9-100", range(9, 10)),
        ("bytes=10-", range(10, 10)),
        ("bytes=-0", range(10, 10)),
        ("bytes=4-3", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("rows=0-1", None),
        ("bytes=a-b", None),
    ],
)
def test_ranges_of_ten_bytes(header: str, expected: range | None) -> None:
    found = byte_range(header, 10)
    assert (found is None) == (expected is None)
    assert list(found or ()) == list(expected or ())


def test_a_part_of_a_file(served: tuple[Site, int]) -> None:
    site, port = served
    whole = site.content("index.json")
    assert whole is not None
    status, headers, content = answer(port, INDEX_PATH, {"Range": "bytes=2-11"})
    assert (status, content, headers["content-length"]) == (206, whole[2:12], "10")
    assert headers["content-range"] == f"bytes 2-11/{len(whole)}"
    assert answer(port, INDEX_PATH, {"Range": "bytes=-8"})[::2] == (206, whole[-8:])
    status, headers, _ = answer(port, INDEX_PATH, {"Range": f"bytes={len(whole)}-"})
    assert (status, headers["content-range"]) == (416, f"bytes */{len(whole)}")
    assert answer(port, INDEX_PATH, {"Range": "bytes=5-4"})[::2] == (200, whole)
    assert answer(port, INDEX_PATH, {"Range": "bytes=0-1", "If-Range": '"x"'})[::2] == (200, whole)
    assert answer(port, "/nothing", {"Range": "bytes=0-1"})[0] == 404


def test_the_policy_is_a_header_and_allows_no_text_as_script(served: tuple[Site, int]) -> None:
    headers = answer(served[1], "/", {})[1]
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert "'unsafe-eval'" not in POLICY
    own = POLICY.removesuffix("; frame-ancestors 'none'")
    assert f'content="{own}"'.encode() in (served[0].content("index.html") or b"")


def test_a_client_that_goes_away_is_no_traceback(served: tuple[Site, int], capfd: pytest.CaptureFixture[str]) -> None:
    for request in (b"GET /vendor/vega.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /", b""):
        connection = socket.create_connection(("127.0.0.1", served[1]), timeout=10)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not closed
        connection.sendall(request)
        connection.close()
    assert get(served[1], INDEX_PATH)[0] == 200
    time.sleep(0.2)
    assert capfd.readouterr() == ("", "")


def test_a_taken_port_is_said(served: tuple[Site, int]) -> None:
    with pytest.raises(UserError, match="--port 0 for any free one"):
        bind(served[0], served[1])


def test_ctrl_c_stops_it(lake: Path) -> None:
    command = "from pipelines.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "explorer", "--lake", str(lake), "--serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"The explorer is at http://127\.0\.0\.1:(\d+)/ \(Ctrl-C stops it\)\.\n", line)
    assert found, line
    assert get(int(found[1]), "/")[0] == 200
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "Stopped.\n")
