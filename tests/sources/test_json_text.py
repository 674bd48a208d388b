"""JSON and JSON-lines: what is read, what is refused and what line is named."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.sources.json_text import MAX_DEPTH, Document, first_record, looks_like_json, read_json
from transforms.sources.rows import FileRejectedError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
OBJECT = st.dictionaries(st.text(), PLAIN, max_size=4)


@given(OBJECT, st.sampled_from([None, 1, 2]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_a_document_says_what_pythons_own_reader_says(value: dict[str, object], indent: int | None, to: str) -> None:
    content = json.dumps(value, indent=indent, ensure_ascii=True).encode(to)
    assert [doc.value for doc in read_json(content).documents] == [value]
    assert first_record(content) == value


@given(st.lists(OBJECT, min_size=2, max_size=5), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_lines_are_the_records_of_a_file(values: list[dict[str, object]], line_end: str) -> None:
    file = read_json(line_end.join(json.dumps(value) for value in values).encode())
    assert file.lines
    assert [doc.value for doc in file.documents] == values


def test_a_list_at_the_top_is_a_file_of_records() -> None:
    assert [doc.value for doc in read_json(b'[{"a": 1}, {"a": 2}]').documents] == [{"a": 1}, {"a": 2}]


def test_a_line_that_is_cut_off_is_a_record_with_a_fault_and_its_number() -> None:
    documents = read_json(b'{"a": 1}\n\n{"a": 2}\n{"a": 3, "b').documents
    assert [doc.value for doc in documents] == [{"a": 1}, {"a": 2}, None]
    assert [doc.line for doc in documents] == [1, 3, 4]
    assert documents[2].text == '{"a": 3, "b'
    assert documents[2].fault is not None
    assert documents[2].fault.startswith("line 4 is not valid JSON")
    assert documents[2].fault.endswith("cut off")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{\n "a": 1,\n "b": }', "line 3 is not valid JSON"),
        (b'{\n "a": 1,\n "b": "x', "line 3 is not valid JSON: Unterminated string starting at; the text is cut off"),
        (b'{"a": 1, "a": 2}', "the key 'a' is given twice"),
        (b'[{"a": {"b": 1, "b": 1}}]', "the key 'b' is given twice"),
        (b"[]", "an empty list"),
        (b'{"a": ' + b"1" * 401 + b"}", "more than 400 digits"),
        (b'{"a": ' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested more than 64 deep"),
        (b"[" * 100_000, "nested more than 64 deep"),
        (b'{"a": "\xff"}', "line 1 is not utf-8 text"),
        (b'{"a": 1}\n{"a": 2', None),
    ],
)
def test_what_is_refused(content: bytes, sentence: str | None) -> None:
    if sentence is None:  # the first line is whole: the fault is the second line's own
        assert len(read_json(content).documents) == 2
        return
    with pytest.raises(FileRejectedError, match=sentence):
        read_json(content)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_what_is_no_finite_number_stays_text(literal: str) -> None:
    assert read_json(f'{{"a": {literal}}}'.encode()).first == {"a": literal}


def test_the_deepest_that_is_allowed() -> None:
    content = b'{"a": ' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    assert read_json(content).documents[0].fault is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_sentence(content: bytes) -> None:
    looks_like_json(content)
    first_record(content)
    try:
        documents = read_json(content).documents
    except FileRejectedError:
        return
    assert documents
    assert all(isinstance(doc, Document) for doc in documents)
