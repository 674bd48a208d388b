"""The answers so far, kept in a folder by the content of their questions: an interrupted run goes on where it was."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.parquet

from pipelines.live.questions import Question
from pipelines.live.resident import ResidentWorker

#: Raised where the same question is put to AIConfigurator in another way: older answers are then asked anew.
ASKED_AS: Final = 1


@dataclass(frozen=True)
class Answers:
    """What a folder holds of one version of AIConfigurator."""

    folder: Path
    version: str

    def table(self, question: Question) -> Path | None:
        """The table that answers the question; None where it was refused or not asked yet."""
        table = self._path(question, ".parquet")
        return table if table.is_file() else None

    def refused(self, question: Question) -> str | None:
        """Why AIConfigurator has no answer; None where it has one or was not asked yet."""
        refusal = self._path(question, ".json")
        return json.loads(refusal.read_text(encoding="utf-8"))["reason"] if refusal.is_file() else None

    def is_asked(self, question: Question) -> bool:
        """Whether there is an answer, a table or a refusal."""
        return self.table(question) is not None or self._path(question, ".json").is_file()

    def kv_dtype(self, question: Question) -> str | None:
        """The KV precision of an answer; None where there is no table."""
        table = self.table(question)
        if table is None:
            return None
        name = "kvcache" if question.serving_mode == "agg" else "(d)kvcache"
        return str(pyarrow.parquet.read_table(table, columns=[name])[name][0])

    def ask(self, question: Question, worker: ResidentWorker) -> None:
        """Has the question answered and the answer kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        table = self._path(question, ".parquet")
        aside = table.with_name(f"aside-{os.getpid()}.parquet")
        reason = worker.why_not(question, aside)
        if reason is None:
            os.replace(aside, table)
        else:
            refusal = {"question": question.to_json(), "reason": reason}
            self._path(question, ".json").write_text(json.dumps(refusal, indent=1), encoding="utf-8")

    def _path(self, question: Question, suffix: str) -> Path:
        content = {"question": question.to_json(), "aiconfigurator": self.version, "asked_as": ASKED_AS}
        key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return self.folder / f"{key[:32]}{suffix}"
