"""What a page of Markdown says: commands with the output shown for them, code in the text, links, headings."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = tuple(sorted((ROOT / "docs").glob("*.md")))
#: The README and the pages it sends its readers to.
PAGES = (README, *DOCS, *(ROOT / folder / "README.md" for folder in ("data", "transforms/sources")))
#: All that the README and the pages of ``docs`` say.
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in (README, *DOCS))
#: The same without line breaks.
PROSE = " ".join(TEXT.split())

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A command of a console block; ``shown`` are the lines below it, ``None`` where the block shows no output."""

    text: str
    shown: tuple[str, ...] | None = None

    @property
    def words(self) -> list[str]:
        """As a shell splits it; the program by its name alone."""
        program, *arguments = shlex.split(self.text.replace("\\\n", " "))
        return [Path(program).name, *arguments]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return [content for name, content in _BLOCK.findall(text) if name == language]


def commands(text: str) -> list[Command]:
    """All commands of the console blocks. Where a block shows output, its commands begin with ``$``."""
    return [command for block in blocks(text, "console") for command in commands_of(block.splitlines())]


def commands_of(lines: list[str]) -> list[Command]:
    """The commands of the lines of one console block."""
    prompted = any(line.startswith("$ ") for line in lines)
    found: list[tuple[str, list[str]]] = []
    waiting = iter(lines)
    for line in waiting:
        if prompted and not line.startswith("$ "):
            found[-1][1].append(line)
            continue
        text = line.removeprefix("$ ")
        while not _is_whole(text):
            text += "\n" + next(waiting)
        found.append((text, []))
    return [Command(text, lines_of("\n".join(shown)) or None) for text, shown in found]


def _is_whole(text: str) -> bool:
    """Whether a shell would run it: no open quotation, no line that goes on."""
    try:
        shlex.split(text)
    except ValueError:
        return False
    return not text.endswith("\\")


def lines_of(output: str) -> tuple[str, ...]:
    """The lines that say something, without the spaces at their ends."""
    return tuple(line.rstrip() for line in output.splitlines() if line.strip())


def spans(text: str) -> list[str]:
    """Code in the text, outside the blocks; one line each."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", _BLOCK.sub("", text))]


def links(text: str) -> list[str]:
    """Where links and pictures lead."""
    return re.findall(r"\]\(([^)\s]+)\)", _BLOCK.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
