"""Reading and writing conversations: what did not change is written as it came in, and a file is whole or untouched."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato import WireError
from legato.transcripts import files

MESSAGE = {"role": "user", "content": "naïve 🙂"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
LISTS = st.lists(st.builds(lambda extra: {**extra, **MESSAGE}, st.dictionaries(st.text(max_size=5), JSON, max_size=2)))
BODIES = st.builds(lambda head, messages: {**head, "messages": messages}, st.dictionaries(st.text(), JSON), LISTS)
VALUES = LISTS | BODIES | st.builds(lambda inner, note: {"id": note, "request": inner}, LISTS | BODIES, JSON)


def written(tmp_path: Path, name: str, data: bytes) -> str:
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


def texts(value: Any) -> st.SearchStrategy[bytes]:
    """The ways to write a JSON value on one line."""
    return st.builds(
        lambda escaped, tight, end: (
            json.dumps(value, ensure_ascii=escaped, separators=(",", ":") if tight else None).encode(
                "utf-8", "backslashreplace"
            )
            + end
        ),
        st.booleans(),
        st.booleans(),
        st.sampled_from([b"\n", b"\r\n", b" \n", b"\n\n"]),
    )


@given(lines=st.lists(VALUES.flatmap(texts), min_size=1, max_size=4), bom=st.booleans())
def test_what_is_put_back_unchanged_is_the_file_byte_for_byte(
    lines: list[bytes], bom: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = (b"\xef\xbb\xbf" if bom else b"") + b"".join(lines)
    name = written(tmp_path_factory.mktemp("files"), "a.jsonl", data)
    read = list(files.read(name))
    assert len(read) == len(lines)
    again = b"".join(conversation.put(conversation.payload) for conversation in read)
    assert data.startswith(again)
    assert not data[len(again) :].strip()


@given(value=VALUES)
def test_a_changed_conversation_keeps_its_envelope_and_its_line(
    value: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = written(tmp_path_factory.mktemp("files"), "a.jsonl", files.dump(value) + b"\n")
    (conversation,) = files.read(name)
    line = conversation.put([MESSAGE])
    assert line.count(b"\n") == 1
    wanted = {**value, "request": [MESSAGE]} if conversation.key else [MESSAGE]
    assert json.dumps(json.loads(line)) == json.dumps(wanted)


@given(text=st.text(st.characters(codec=None)))
def test_any_text_is_written_as_utf8_that_reads_back_equal(text: str) -> None:
    assert json.loads(files.dump([text]).decode("utf-8")) == [text]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.txt", "a"])
def test_one_value_a_line_is_jsonl_whatever_the_name(tmp_path: Path, name: str) -> None:
    data = b"\n" + b'[{"role": "user"}]\r\n\r\n' + b'{"messages": []}'
    read = list(files.read(written(tmp_path, name, data)))
    assert [conversation.line for conversation in read] == [2, 4]
    assert [conversation.payload for conversation in read] == [[{"role": "user"}], {"messages": []}]


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a"])
def test_a_value_over_many_lines_is_a_document(tmp_path: Path, name: str) -> None:
    (read,) = files.read(written(tmp_path, name, json.dumps([MESSAGE], indent=2).encode()))
    assert (read.line, read.payload) == (None, [MESSAGE])


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'[{"role": "user"},\n {"role" "user"}]', "a.json:2:10"),
        (b"\n\n  nope", "a.json:3:3"),
        (b"[\n\n{'role'", "a.json:3:2"),
        ('["é", \n "é\x00"]'.encode(), "a.json:2:4"),
        ('["é",\n "é'.encode() + b"\xff", "a.json:2:4"),
        (b'["NaN",\n NaN]', "a.json:2:2"),
        (b'["\\"NaN", -Infinity]', "a.json:1:11"),
        (b"[]\n[}", "a.json:2:2"),
        ("\ufeff[".encode(), "a.json:1:2"),
    ],
)
def test_what_is_no_json_is_refused_at_its_line_and_column(tmp_path: Path, data: bytes, place: str) -> None:
    with pytest.raises(WireError) as caught:
        list(files.read(written(tmp_path, "a.json", data)))
    assert caught.value.place == str(tmp_path / place)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(WireError, match=encoding[:6].upper()):
        list(files.read(written(tmp_path, "a.json", '[{"role": "user"}]'.encode(encoding))))


@pytest.mark.parametrize("value", [{}, {"role": "user"}, {"request": 5}, {"request": {}}, [1, 2], [{}], "x", None, 5])
def test_sound_json_without_a_conversation_is_told_apart(tmp_path: Path, value: Any) -> None:
    with pytest.raises(files.NoConversation):
        list(files.read(written(tmp_path, "a.json", json.dumps(value).encode())))


def test_only_one_line_of_jsonl_is_held(tmp_path: Path) -> None:
    name = written(tmp_path, "a.jsonl", b'[{"role": "user"}]\n' * 3 + b"broken\n")
    conversations = files.read(name)
    assert [next(conversations).line for _ in range(3)] == [1, 2, 3]
    with pytest.raises(WireError):
        next(conversations)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_failure_half_way_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    name = written(tmp_path, "a.json", b"old")

    def pieces() -> Any:
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write(name, pieces())
    assert (tmp_path / "a.json").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_file_that_is_replaced_keeps_its_permissions_and_a_link_to_it_stays_one(tmp_path: Path) -> None:
    name = written(tmp_path, "a.json", b"old")
    os.chmod(name, 0o640)
    link = tmp_path / "link.json"
    link.symlink_to("a.json")
    files.write(str(link), [b"new", b"er"])
    assert link.is_symlink()
    assert (tmp_path / "a.json").read_bytes() == b"newer"
    assert stat.S_IMODE(os.stat(name).st_mode) == 0o640


def test_a_new_file_has_the_permissions_that_any_new_file_has(tmp_path: Path) -> None:
    files.write(str(tmp_path / "a.json"), [b"x"])
    (tmp_path / "b.json").write_bytes(b"x")
    assert os.stat(tmp_path / "a.json").st_mode == os.stat(tmp_path / "b.json").st_mode
