"""The pages fit together: sizes, links from the README, the glossary, and the sections of the model that code cites."""

import re

from schemas.glossary import TERMS, glossary_page
from tests.docs.page import DOCS, README, ROOT, links

#: Where code cites the model: folders, and how a citation is written.
CITING = ("pipelines", "schemas", "transforms", "tests", "data")
CITATION = re.compile(r"model\.md ((?:\d+(?:\.\d+)?(?:, | and | or |-)?)+)")


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert {f"docs/{page.name}" for page in DOCS} <= set(links(text))


def test_the_errors_of_the_readme_are_those_of_the_page_on_accuracy() -> None:
    section = README.read_text(encoding="utf-8").split("## How accurate it is\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    figures = {figure for row in rows for cell in row[2:] for figure in re.findall(r"\d+(?:\.\d)?", cell)}
    accuracy = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert len(figures) >= 12
    assert {figure for figure in figures if not re.search(rf"(?<![\d.]){figure}(?![\d.]\d| points)", accuracy)} == set()


def test_the_glossary_is_the_one_of_the_program() -> None:
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == glossary_page()
    symbols = {word for term in TERMS for word in (*re.split(", ", term.word), *re.split(", ", term.symbol))}
    assert {"R", "Z", "N", "X", "C", "rho", "h", "TTFT", "TPOT", "replica", "turn", "task"} <= symbols


def sections() -> set[str]:
    """Numbers of the headings of the model's page."""
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    return set(re.findall(r"^##+ (\d+(?:\.\d+)?)\. ", page, re.MULTILINE))


def test_every_section_that_is_cited_is_there() -> None:
    known, cited = sections(), dict[str, str]()
    assert {"1", "2", "5.4", "5.10", "12"} <= known
    for folder in CITING:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".js", ".md") and path.is_file():
                text = re.sub(r"\s+#?\s*", " ", path.read_text(encoding="utf-8"))
                assert not re.search(r"\bMODEL (?:sections? )?\d", text), f"{path} cites a page that is not there"
                numbers = re.findall(r"[\d.]*\d", " ".join(CITATION.findall(text)))
                cited |= dict.fromkeys(numbers, str(path.relative_to(ROOT)))
    assert len(cited) > 15
    assert {number: where for number, where in cited.items() if number not in known} == {}
