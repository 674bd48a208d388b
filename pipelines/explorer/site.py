"""The site: every file of it by its path, from the package and from one release. Nothing is kept in memory but the
index, so that the same files can be written to a folder or served one by one."""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from pipelines.explorer.columns import agent_partition, serving_partition
from pipelines.explorer.index import read_index
from pipelines.lake.reader import Release, current_release

_PACKAGE = Path(__file__).resolve().parent
#: Parts of ``vendor`` that the page needs or that its licences ask for.
_VENDORED = ("vega.min.js", "hyparquet.min.js", "LICENSES.txt")
INDEX = "index.json"


class Site:
    """The explorer of one release. Paths are relative, with ``/``."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.release: Release = current_release(lake)

    @cached_property
    def _index(self) -> dict[str, object]:
        return read_index(self._lake, self.release)

    @cached_property
    def _page(self) -> dict[str, Path]:
        page = _PACKAGE / "page"
        files = {path.relative_to(page).as_posix(): path for path in sorted(page.rglob("*")) if path.is_file()}
        return files | {f"vendor/{name}": _PACKAGE / "vendor" / name for name in _VENDORED}

    @cached_property
    def _partitions(self) -> dict[str, tuple[str, ...]]:
        """Path of each data file -> its partition: hardware and model, and scenario where there is one."""
        agents, serving = self._index["agent_points"], self._index["serving_points"]
        assert isinstance(agents, dict)
        assert isinstance(serving, dict)
        paths: dict[str, tuple[str, ...]] = {}
        for model, of_model in agents.items():
            for scenario, of_scenario in of_model.items():
                for gpu in of_scenario:
                    path = f"agent_points/hardware={gpu}/model={model}/scenario={scenario}/part-0.parquet"
                    paths[path] = (gpu, model, scenario)
        for model, gpus in serving.items():
            for gpu in gpus:
                paths[f"serving_points/hardware={gpu}/model={model}/part-0.parquet"] = (gpu, model)
        return paths

    def paths(self) -> list[str]:
        """Every file of the site."""
        return [*self._page, INDEX, *self._partitions]

    def content(self, path: str) -> bytes | None:
        """The content of a file; None where the site has no such file. Raises ``UserError`` for a damaged release."""
        if path in self._page:
            return self._page[path].read_bytes()
        if path == INDEX:
            return json.dumps(self._index, ensure_ascii=False, allow_nan=False).encode()
        partition = self._partitions.get(path)
        if partition is None:
            return None
        if path.startswith("agent_points/"):
            hardware, model, scenario = partition
            return agent_partition(self.release.path, hardware, model, scenario)
        hardware, model = partition
        return serving_partition(self.release.path, hardware, model)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Every file with its content."""
        for path in self.paths():
            content = self.content(path)
            assert content is not None
            yield path, content
