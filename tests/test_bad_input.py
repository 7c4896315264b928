"""What is no history, or cannot be read or written: a `WireError` or one clear line with its place, no traceback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import legato
from test_cli import BROKEN, LEGAL, Run, run, write

USER = {"role": "user", "content": "hello"}
DEEP = 100_000


def nested(depth: int) -> list[Any]:
    """A list in a list in a list, without recursion."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def calling(calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": calls}


WRONG_TYPES: list[tuple[str, Any, str]] = [
    ("a number for a message", [USER, 7], "messages[1]"),
    ("null for a message", [USER, None], "messages[1]"),
    ("a list for a message", [USER, []], "messages[1]"),
    ("a message without a role", [USER, {"content": "x"}], "messages[1]"),
    ("a role that is an object", [USER, USER, USER, {"role": {}, "content": "x"}], "messages[3].role"),
    ("a role that is null", [{"role": None, "content": "x"}], "messages[0].role"),
    ("content that is a number", [USER, {"role": "user", "content": 5}], "messages[1].content"),
    ("content that is an object", [{"role": "user", "content": {"text": "x"}}], "messages[0].content"),
    ("calls that are text", [USER, calling("look")], "messages[1].tool_calls"),
    ("calls that are an object", [USER, calling({"id": "a"})], "messages[1].tool_calls"),
    ("a call that is text", [USER, calling(["look"])], "messages[1].tool_calls[0]"),
    ("a call whose function is text", [USER, calling([{"function": "look"}])], "messages[1].tool_calls[0].function"),
    (
        "a call whose id is a number",
        [USER, calling([{"id": 5, "function": {"name": "a"}}])],
        "messages[1].tool_calls[0]",
    ),
    (
        "a name that is a list",
        [USER, calling([{"id": "a", "function": {"name": []}}])],
        "messages[1].tool_calls[0].function",
    ),
    (
        "a result whose id is an object",
        [USER, {"role": "tool", "tool_call_id": {}, "content": "x"}],
        "messages[1].tool_call_id",
    ),
    ("messages that are a number", {"model": "m", "messages": 5}, "messages"),
    ("messages that are null", {"model": "m", "messages": None}, "messages"),
    ("a body whose third message is text", {"messages": [USER, USER, "hi"]}, "messages[2]"),
]

NOT_HISTORIES: list[tuple[str, Any]] = [
    ("a number", 42),
    ("null", None),
    ("a text", "hello"),
    ("true", True),
    ("an empty object", {}),
    ("an object without a history", {"name": "x", "version": 1}),
]

NOT_JSON: list[tuple[str, bytes, str]] = [
    ("a missing comma", b'[{"role": "user" "content": "x"}]', r"1[678]"),
    ("a file cut off in a text", b'[{"role": "user", "content": "hel', r"\d"),
    ("a file cut off between messages", b'[{"role": "user", "content": "x"},', r"\d"),
    ("a bare word", b"hello", r"\d"),
    ("something after the end", b'[{"role": "user", "content": "x"}] trailing', r"\d"),
    ("a NUL byte between values", b'[{"role": "user",\x00 "content": "x"}]', r"1[678]"),
    ("a NUL byte in a text", b'[{"role": "user", "content": "a\x00b"}]', r"3\d"),
    ("nothing but NUL bytes", b"\x00" * 64, r"\d"),
    ("bytes that are not UTF-8", b'[{"role": "user", "content": "\xff\xfe"}]', r"30|31"),
    ("a raw surrogate in UTF-8", b'[{"role": "user", "content": "\xed\xa0\x80"}]', r"30|31"),
    ("UTF-16 with its mark", json.dumps(LEGAL).encode("utf-16"), r"UTF-?16|UTF-?8|\d"),
    ("a number that is none", b'[{"role": "user", "content": "x", "seed": NaN}]', r"\d"),
    ("an empty file", b"", r"empty"),
    ("a file of white space", b" \n\n ", r"empty"),
    ("brackets nested a hundred thousand deep", b"[" * DEEP + b"]" * DEEP, r"nest|deep"),
    ("an unclosed hundred thousand brackets", b"[" * DEEP, r"nest|deep|\d"),
    (
        "content nested a hundred thousand deep",
        b'[{"role":"user","content":' + b"[" * DEEP + b"]" * DEEP + b"}]",
        r"nest|deep",
    ),
]


def rows(table: list[Any]) -> list[Any]:
    return [pytest.param(*row[1:], id=row[0]) for row in table]


def assert_refused(done: Run, *named: str) -> None:
    """Exit code 2, nothing on stdout, and one line on stderr that has these names in it."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for name in named:
        assert name in done.stderr


# -- the library -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", [legato.check, legato.repair, legato.govern])
@pytest.mark.parametrize(("payload", "place"), rows(WRONG_TYPES))
def test_a_wrong_type_is_a_wire_error_with_its_place(act: Callable[[Any], Any], payload: Any, place: str) -> None:
    with pytest.raises(legato.WireError) as caught:
        act(payload)
    assert caught.value.place.startswith(place)
    assert place in str(caught.value)


@pytest.mark.parametrize("act", [legato.check, legato.repair, legato.govern])
@pytest.mark.parametrize("payload", rows(NOT_HISTORIES))
def test_what_is_no_history_at_all_is_a_wire_error(act: Callable[[Any], Any], payload: Any) -> None:
    with pytest.raises(legato.WireError):
        act(payload)


@pytest.mark.parametrize("make", [lambda: nested(DEEP), circular])
@pytest.mark.parametrize(
    "put",
    [
        pytest.param(lambda value: {"role": "user", "content": value}, id="content"),
        pytest.param(lambda value: {"role": "user", "content": [{"type": "x", "data": value}]}, id="part"),
        pytest.param(
            lambda value: calling([{"id": "a", "function": {"name": "f", "arguments": {"x": value}}}]), id="arguments"
        ),
    ],
)
def test_absurd_nesting_is_a_wire_error_with_the_message(make: Callable[[], Any], put: Callable[[Any], Any]) -> None:
    with pytest.raises(legato.WireError) as caught:
        str(legato.govern([USER, put(make())]).report)
    assert caught.value.place.startswith("messages[1]")


@pytest.mark.parametrize("make", [lambda: nested(DEEP), circular])
def test_absurd_nesting_in_an_unknown_field_is_passed_on_or_refused(make: Callable[[], Any]) -> None:
    messages = [USER, {"role": "user", "content": "x", "extra": make()}]
    with contextlib.suppress(legato.WireError):
        governed = legato.govern(messages, profile="openai")
        assert str(governed.report)
        assert governed.body is messages


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), 1j])
def test_a_value_that_json_cannot_hold_is_a_wire_error_with_the_message(value: Any) -> None:
    with pytest.raises(legato.WireError) as caught:
        str(legato.govern([USER, {"role": "user", "content": [{"type": "x", "data": value}]}]).report)
    assert caught.value.place.startswith("messages[1]")


def test_arguments_nested_a_hundred_thousand_deep_are_kept_as_text() -> None:
    deep = "[" * DEEP + "]" * DEEP
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": deep}}
    governed = legato.govern([USER, calling([call]), {"role": "tool", "tool_call_id": "a", "content": "r"}])
    (sent,) = governed.messages[1]["tool_calls"]
    arguments = json.loads(sent["function"]["arguments"])
    assert isinstance(arguments, dict)
    assert deep in arguments.values()


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "user", "content": "a\ud800b"}, id="text"),
        pytest.param({"role": "user", "content": [{"type": "text", "text": "a\udfffb"}]}, id="part"),
        pytest.param({"role": "system", "content": "\udc00"}, id="system"),
    ],
)
def test_a_lone_surrogate_is_repaired_with_a_report(message: dict[str, Any]) -> None:
    messages = [message] if message["role"] == "user" else [message, USER]
    assert [found.at for found in legato.check(messages) if found.severity == "error"] == [0]
    governed = legato.govern(messages)
    json.dumps(governed.messages, ensure_ascii=False).encode("utf-8")
    assert {change.at for change in governed.report.changes} == {0}
    str(governed.report).encode("utf-8")
    assert legato.govern(governed.messages).body is governed.messages


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "user", "content": "x", "name": "a\ud800b"}, id="name"),
        pytest.param({"role": "user", "content": "x", "note": {"k\ud800": ["v\ud800"]}}, id="unknown field"),
        pytest.param({"role": "user", "content": [{"type": "x", "data": "v\ud800"}]}, id="unknown part"),
        pytest.param(calling([{"id": "a", "function": {"name": "f\ud800", "arguments": "{}"}}]), id="name of a call"),
        pytest.param(calling([{"id": "a\ud800", "function": {"name": "f", "arguments": "{}"}}]), id="id of a call"),
        pytest.param(
            calling([{"id": "a", "function": {"name": "f", "arguments": '{"path": "\ud800"}'}}]), id="text of arguments"
        ),
        pytest.param(
            calling([{"id": "a", "function": {"name": "f", "arguments": {"path": "\ud800"}}}]),
            id="arguments",
        ),
    ],
)
def test_a_lone_surrogate_anywhere_else_is_repaired_or_refused_with_its_place(message: dict[str, Any]) -> None:
    system = {"role": "system", "content": "s"}
    outcome = governed_or_refused([system, message, {"role": "tool", "tool_call_id": "a", "content": "r"}])
    if isinstance(outcome, legato.WireError):
        assert outcome.place.startswith("messages[1]")
        return
    json.dumps(outcome.messages, ensure_ascii=False).encode("utf-8")
    assert 1 in {change.at for change in outcome.report.changes}


def test_a_surrogate_in_an_id_leaves_call_and_result_a_pair_or_is_refused_with_its_place() -> None:
    call = {"id": "a\ud800", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    outcome = governed_or_refused([USER, calling([call]), {"role": "tool", "tool_call_id": "a\ud800", "content": "r"}])
    if isinstance(outcome, legato.WireError):
        assert outcome.place.startswith("messages[1]")
        return
    json.dumps(outcome.messages, ensure_ascii=False).encode("utf-8")
    assert outcome.messages[1]["tool_calls"][0]["id"] == outcome.messages[2]["tool_call_id"]
    assert outcome.messages[2]["content"] == "r"


def governed_or_refused(messages: list[dict[str, Any]]) -> legato.Governed | legato.WireError:
    try:
        return legato.govern(messages)
    except legato.WireError as refused:
        return refused


def test_a_proper_pair_of_surrogates_and_a_nul_are_text_like_any_other() -> None:
    messages = [{"role": "user", "content": "🙂 \x00 \x1b[31m \u2028 \ufeff \ufffd"}]
    assert legato.govern(messages).body is messages


def test_one_endless_word_does_not_hang_the_count() -> None:
    """Quadratic work would take days."""
    assert legato.govern([{"role": "user", "content": "a" * 2_000_000}]).report.tokens_out > 10_000


# -- the command line: what it reads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "govern"])
@pytest.mark.parametrize(("content", "place"), rows(NOT_JSON))
def test_a_file_that_is_not_json_is_refused_in_one_line(
    tmp_path: Path, command: str, content: bytes, place: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    done = run(command, file)
    assert_refused(done, "bad.json")
    assert re.search(place, done.stderr.partition("bad.json")[2]), done.stderr


@pytest.mark.parametrize("content", [row[1] for row in NOT_JSON[:2]])
def test_broken_standard_input_is_refused_in_one_line(content: bytes) -> None:
    assert_refused(run("govern", "-", stdin=content), "-")


@pytest.mark.parametrize("command", ["check", "govern"])
@pytest.mark.parametrize(("payload", "place"), rows(WRONG_TYPES))
def test_a_file_with_a_wrong_type_is_refused_with_its_place(
    tmp_path: Path, command: str, payload: Any, place: str
) -> None:
    assert_refused(run(command, write(tmp_path / "bad.json", payload)), "bad.json", place)


@pytest.mark.parametrize("payload", rows(NOT_HISTORIES))
def test_a_file_that_holds_no_history_is_refused_in_one_line(tmp_path: Path, payload: Any) -> None:
    assert_refused(run("govern", write(tmp_path / "bad.json", payload)), "bad.json")


@pytest.mark.parametrize("bad", [b"{", b'[{"role": 5}]', b"\xff", b"7"])
def test_a_bad_line_of_jsonl_is_refused_with_its_number(tmp_path: Path, bad: bytes) -> None:
    file, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    good = json.dumps(BROKEN).encode()
    file.write_bytes(b"\n".join([good, good, bad, good]) + b"\n")
    assert_refused(run("govern", file, "-o", out), "bad.jsonl:3")
    assert not out.exists()
    assert_refused(run("check", file), "bad.jsonl:3")


def test_a_lone_surrogate_written_as_an_escape_is_repaired(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'[{"role": "user", "content": "a\\ud800b"}]')
    assert run("check", file).returncode == 1
    done = run("govern", file)
    assert done.returncode == 0
    (message,) = json.loads(done.stdout)
    message["content"].encode("utf-8")
    assert (message["content"][0], message["content"][-1]) == ("a", "b")
    assert done.stderr.strip()


def test_an_escaped_nul_comes_out_equal(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", [{"role": "user", "content": "a\x00b\x1b[31m"}])
    done = run("govern", file)
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(file.read_bytes())


def test_a_number_too_long_for_python_is_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'[{"role": "user", "content": "x", "seed": ' + b"9" * 5000 + b"}]")
    assert run("govern", file).returncode in (0, 2)


@pytest.mark.parametrize("command", ["check", "govern"])
def test_a_missing_file_is_refused_in_one_line(tmp_path: Path, command: str) -> None:
    assert_refused(run(command, tmp_path / "none.json"), "none.json")


@pytest.mark.parametrize("command", ["check", "govern"])
def test_a_directory_is_refused_in_one_line(tmp_path: Path, command: str) -> None:
    assert_refused(run(command, tmp_path), str(tmp_path))


@pytest.mark.parametrize("command", ["check", "govern"])
def test_an_unreadable_file_is_refused_in_one_line(tmp_path: Path, command: str) -> None:
    file = write(tmp_path / "secret.json", LEGAL)
    file.chmod(0)
    if os.access(file, os.R_OK):  # root reads everything, except what the kernel refuses
        file = Path("/proc/self/mem")
    assert_refused(run(command, file), file.name)


def test_one_tool_result_of_fifty_megabytes_is_governed(tmp_path: Path) -> None:
    lines = "".join(
        f"2026-01-01T00:00:00Z worker[{at}]: request {at * 7919 % 10_007} done in {at % 977} ms\n"
        for at in range(800_000)
    )
    call = {"id": "a", "type": "function", "function": {"name": "tail", "arguments": "{}"}}
    history = [USER, calling([call]), {"role": "tool", "tool_call_id": "a", "content": lines}]
    file, out = write(tmp_path / "big.json", history), tmp_path / "out.json"
    assert file.stat().st_size > 50_000_000
    assert run("check", file).returncode == 0
    done = run("govern", file, "-o", out, "--window", "16000", "--max-output", "1000")
    assert done.returncode == 0
    sent = json.loads(out.read_bytes())
    assert sent[:2] == history[:2]
    assert 10_000 < len(sent[2]["content"]) < 100_000
    assert sent[2]["content"].startswith(lines[:1000])
    assert sent[2]["content"].endswith(lines[-1000:])


# -- the command line: what it writes ----------------------------------------------------------------------------------


def big(path: Path) -> Path:
    """A history that is larger than any pipe buffer."""
    return write(path, [{"role": "user", "content": "word " * 200_000}])


def test_a_reader_that_stops_early_causes_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "legato", "govern", str(big(tmp_path / "a.json"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read().decode("utf-8")
        process.wait()
    assert "Traceback" not in said
    assert "Exception" not in said
    assert "BrokenPipe" not in said


def test_an_interrupt_while_reading_is_one_line() -> None:
    command = [sys.executable, "-m", "legato", "govern", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b" " * 4_000_000)  # returns when all but a pipe buffer of it was read
        process.send_signal(signal.SIGINT)
        # An interrupt just before a blocking read would wait for the end of it: closing is that end.
        said = process.communicate()[1].decode("utf-8")
    assert process.returncode == 130
    assert said == "legato: interrupted\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [("govern",), ("check",), ("check", "--json")])
def test_a_full_disk_behind_stdout_is_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = write(tmp_path / "a.json", BROKEN)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "legato", *arguments, str(file)], stdout=full, stderr=subprocess.PIPE, check=False
        )
    said = done.stderr.decode("utf-8")
    assert done.returncode == 2
    assert "No space left" in said
    assert "Traceback" not in said
    assert "Exception" not in said


def test_a_disk_that_fills_up_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    """A limit on the size of a file stands for the full disk: the write fails half-way."""
    file, out = big(tmp_path / "a.json"), tmp_path / "out.json"
    out.write_text("precious", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "legato", "govern", str(file), "-o", str(out)],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
        check=False,
    )
    said = done.stderr.decode("utf-8")
    assert done.returncode == 2
    assert "out.json" in said
    assert "Traceback" not in said
    assert out.read_text(encoding="utf-8") == "precious"
    assert sorted(os.listdir(tmp_path)) == ["a.json", "out.json"]


@pytest.mark.parametrize("out", ["none/out.json", "."])
def test_an_output_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path, out: str) -> None:
    file = write(tmp_path / "a.json", LEGAL)
    assert_refused(run("govern", file, "-o", tmp_path / out), str(tmp_path / out))
    assert os.listdir(tmp_path) == ["a.json"]
