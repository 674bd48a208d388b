"""`agent-pareto explorer --serve`: this machine alone, the same files as written ones, a clean end."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from pipelines.explorer.serve import bind
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
