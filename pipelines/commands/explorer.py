"""`agent-pareto explorer`: the static page that shows a release in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.shared_options import DEFAULT_LAKE, LakeOption
from pipelines.terminal import say


def explorer_command(
    lake: LakeOption = DEFAULT_LAKE,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the page and its data into this folder, for any static web server."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on this machine (127.0.0.1) until Ctrl-C; writes nothing.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of --serve; 0: any free one.")] = 8765,
) -> None:
    """Explore a release in the browser: frontiers of several GPUs, the KV wall, limits, and what-if sliders.

    The page reads the newest release's rows as Parquet and asks no other server for anything. `--out` writes a
    folder that works from any static web server; `--serve` shows the release at once, without writing.
    """
    from pipelines.explorer.serve import bind, serve_until_stopped
    from pipelines.explorer.site import Site
    from pipelines.explorer.write import write_site
    from pipelines.progress import shown_progress
    from schemas.errors import UserError

    if out is None and not serve:
        raise UserError("Say what to do with the page: --out DIR writes it, --serve shows it.")
    site = Site(lake)
    if out is not None:
        with shown_progress():
            files, size = write_site(site, out)
        say(f"{files:,} files, {size / 1e6:,.1f} MB in {out}: release {site.release.id}.")
    if serve:
        server = bind(site, port)
        site.paths()  # reads the index before somebody waits for it
        host, bound = server.server_address[:2]
        say(f"The explorer is at http://{host!s}:{bound}/ (Ctrl-C stops it).")
        serve_until_stopped(server)
