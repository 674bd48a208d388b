"""The site: every file of it by its path, from the package and from one release. Nothing is kept in memory but the
index, so that the same files can be written to a folder or served one by one."""

import json
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pipelines.answering.release_contents import ReleaseContents
from pipelines.explorer.columns import encode_for_browser, read_agent_points, read_serving_points
from pipelines.explorer.index import read_index
from pipelines.explorer.turns import Turns
from pipelines.lake.reader import Release, current_release
from schemas.glossary import glossary_html

_PACKAGE = Path(__file__).resolve().parent
#: Parts of ``vendor`` that the page needs or that its licences ask for.
_VENDORED = ("vega.min.js", "hyparquet.min.js", "LICENSES.txt")
INDEX = "index.json"


class Site:
    """The explorer of one release. Paths are relative, with ``/``."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.release: Release = current_release(lake)
        self._turns = Turns(ReleaseContents(self.release))

    @cached_property
    def _index(self) -> dict[str, Any]:
        index = read_index(self._lake, self.release)
        missing = {slug: self._turns.missing_of(slug) for slug in (one["scenario"] for one in index["scenarios"])}
        return index | {"turns_missing": {slug: reason for slug, reason in missing.items() if reason is not None}}

    @cached_property
    def _files(self) -> dict[str, Callable[[], bytes]]:
        """Path -> what makes its content. Files that are made from the same rows follow one another."""
        page = _PACKAGE / "page"
        files: dict[str, Callable[[], bytes]] = {
            path.relative_to(page).as_posix(): path.read_bytes for path in sorted(page.rglob("*")) if path.is_file()
        }
        files |= {f"vendor/{name}": (_PACKAGE / "vendor" / name).read_bytes for name in _VENDORED}
        files["glossary.html"] = lambda: glossary_html().encode()
        files[INDEX] = self._index_bytes
        for model, gpus in self._index["serving_points"].items():
            for gpu in gpus:
                path = f"serving_points/hardware={gpu}/model={model}/part-0.parquet"
                files[path] = partial(self._serving_points, gpu, model)
        for model, scenarios in self._index["agent_points"].items():
            for scenario, rows in scenarios.items():
                has_turns = scenario not in self._index["turns_missing"]
                if has_turns:
                    files[f"turns/model={model}/scenario={scenario}.json"] = partial(self._turns.work, model, scenario)
                for gpu in rows:
                    folder = f"hardware={gpu}/model={model}/scenario={scenario}"
                    files[f"agent_points/{folder}/part-0.parquet"] = partial(self._agent_points, gpu, model, scenario)
                    if has_turns:
                        path = f"turns/{folder}/part-0.parquet"
                        files[path] = partial(self._turns_of_points, gpu, model, scenario)
        return files

    def _index_bytes(self) -> bytes:
        return json.dumps(self._index, ensure_ascii=False, allow_nan=False).encode()

    def _serving_points(self, hardware: str, model: str) -> bytes:
        return encode_for_browser(read_serving_points(self.release.path, hardware, model))

    def _agent_points(self, hardware: str, model: str, scenario: str) -> bytes:
        return encode_for_browser(read_agent_points(self.release.path, hardware, model, scenario))

    def _turns_of_points(self, hardware: str, model: str, scenario: str) -> bytes:
        published = read_agent_points(self.release.path, hardware, model, scenario)
        return encode_for_browser(self._turns.differences(hardware, model, scenario, published))

    def paths(self) -> list[str]:
        """Every file of the site."""
        return list(self._files)

    def content(self, path: str) -> bytes | None:
        """The content of a file; None where the site has no such file. Raises ``UserError`` for a damaged release."""
        make = self._files.get(path)
        return None if make is None else make()

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Every file with its content."""
        for path, make in self._files.items():
            yield path, make()
