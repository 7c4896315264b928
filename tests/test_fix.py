"""`legato fix`: what is wrong is mended in place, all else keeps its bytes, and the file is never half written."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from legato.rules.pair import BACKFILL
from legato.transcripts import rewrite
from sessions import SAMPLES, Sample, claude_records, document, gemini_records, jsonl, nanobot_records, pi_records
from test_cli import called as run
from test_cli import run as in_a_process
from test_cli import write
from test_session_files import HARMLESS, LINES, NOTHING_LOST

WRITABLE = [name for name, sample in SAMPLES.items() if sample.writable]
RECORDS = [name for name in WRITABLE if SAMPLES[name].result >= 0 and name != "cline-history"]
"""The formats with a record for each result."""
OTHERS = [name for name in SAMPLES if name not in WRITABLE]


def without(sample: Sample, gone: int) -> bytes:
    """The session without one of its records."""
    if sample.lines:
        lines = sample.data.splitlines(keepends=True)
        return b"".join(lines[:gone] + lines[gone + 1 :])
    value = json.loads(sample.data)
    del (value if not sample.container else value[sample.container])[gone]
    return document(value)


def fixed(file: Path, *options: str) -> bytes:
    """The file after it was repaired, which it was, and which leaves nothing to repair."""
    before = file.read_bytes()
    dry = run("fix", file, *options)
    assert dry.returncode == 1, dry
    assert file.read_bytes() == before
    assert sorted(os.listdir(file.parent)) == [file.name]
    done = run("fix", file, "--write", *options)
    assert done.returncode == 0, done
    assert (file.parent / f"{file.name}.bak").read_bytes() == before
    assert sorted(os.listdir(file.parent)) == [file.name, f"{file.name}.bak"]
    again = run("fix", file, *options)
    assert (again.returncode, "nothing to repair" in again.stdout) == (0, True), again
    return file.read_bytes()


def saved(path: Path, data: bytes) -> Path:
    (path / "session").write_bytes(data)
    return path / "session"


@pytest.mark.parametrize("name", SAMPLES)
def test_a_whole_session_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path, SAMPLES[name].data)
    for options in ((), ("--write",)):
        done = run("fix", file, *options)
        assert (done.returncode, "nothing to repair" in done.stdout) == (0, True), done
    assert file.read_bytes() == SAMPLES[name].data
    assert os.listdir(tmp_path) == ["session"]


@pytest.mark.parametrize("name", RECORDS)
def test_a_lost_result_gets_a_record_of_its_own_and_no_other_byte_changes(tmp_path: Path, name: str) -> None:
    broken = without(SAMPLES[name], SAMPLES[name].result)
    new = fixed(saved(tmp_path, broken))
    assert BACKFILL.encode() in new
    assert run("check", tmp_path / "session").returncode == 0
    if SAMPLES[name].lines:
        lines = new.splitlines(keepends=True)
        (added,) = [line for line in lines if BACKFILL.encode() in line]
        kept = [line for line in lines if line in broken.splitlines(keepends=True)]
        relinked = 1 if name in ("claude-code", "pi") else 0
        assert len(kept) == len(broken.splitlines()) - relinked
        assert lines.index(added) == SAMPLES[name].result
    else:
        records = json.loads(new)[SAMPLES[name].container]
        assert BACKFILL in records[SAMPLES[name].result]["content"]


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_made_up_is_the_same_every_time(tmp_path: Path, name: str) -> None:
    results = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        file = saved(tmp_path / folder, without(SAMPLES[name], SAMPLES[name].result))
        results.append(fixed(file))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", RECORDS)
def test_a_result_whose_call_is_lost_is_taken_out(tmp_path: Path, name: str) -> None:
    sample = SAMPLES[name]
    gone = sample.call
    new = fixed(saved(tmp_path, without(sample, gone)))
    assert BACKFILL.encode() not in new
    assert run("check", tmp_path / "session").returncode == 0
    if sample.lines:
        kept = new.splitlines(keepends=True)
        assert len(kept) < len(sample.data.splitlines()) - 1


@pytest.mark.parametrize("name", ["nanobot", "message-lines", "codex"])
def test_a_result_that_stands_too_far_away_is_moved_as_it_is(tmp_path: Path, name: str) -> None:
    lines = SAMPLES[name].data.splitlines(keepends=True)
    at = SAMPLES[name].result
    moved = [*lines[:at], *lines[at + 1 :], lines[at]]
    if name == "codex":  # where an output may stand anywhere after its call
        file = saved(tmp_path, b"".join(moved))
        assert run("fix", file).returncode == 0
        return
    assert fixed(saved(tmp_path, b"".join(moved))) == SAMPLES[name].data


@pytest.mark.parametrize("damage", NOTHING_LOST)
@pytest.mark.parametrize("name", [name for name in LINES if name in WRITABLE])
def test_damage_is_mended_and_what_was_whole_keeps_its_bytes(tmp_path: Path, name: str, damage: str) -> None:
    lines = SAMPLES[name].data.splitlines(keepends=True)
    file = saved(tmp_path, b"".join(NOTHING_LOST[damage](lines)))
    assert fixed(file).splitlines(keepends=True) == lines


@pytest.mark.parametrize("damage", HARMLESS)
@pytest.mark.parametrize("name", [name for name in LINES if name in WRITABLE])
def test_what_is_harmless_is_left_alone(tmp_path: Path, name: str, damage: str) -> None:
    data = b"".join(HARMLESS[damage](SAMPLES[name].data.splitlines(keepends=True)))
    file = saved(tmp_path, data)
    assert run("fix", file, "--write").returncode == 0
    assert file.read_bytes() == data


@pytest.mark.parametrize("name", OTHERS)
def test_a_format_that_is_not_written_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    sample = SAMPLES[name]
    data = sample.data[: len(sample.data) // 2] if name == "inspect" else without(sample, sample.result)
    file = saved(tmp_path, data)
    for options in ((), ("--write",)):
        done = run("fix", file, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert str(file) in done.stderr
        assert "not written" in done.stderr or name == "inspect"
    assert file.read_bytes() == data
    assert os.listdir(tmp_path) == ["session"]


def test_only_fields_that_change_are_written_anew(tmp_path: Path) -> None:
    """A line of Claude Code's that must name another parent keeps its numbers and its escapes as they were written."""
    lines = without(SAMPLES["claude-code"], 6).splitlines(keepends=True)
    new = fixed(saved(tmp_path, b"".join(lines))).splitlines(keepends=True)
    assert new[:6] == lines[:6]
    added, child = json.loads(new[6]), new[7]
    assert child == lines[6].replace(b'"parentUuid":"u5"', f'"parentUuid":"{added["uuid"]}"'.encode())
    assert added["parentUuid"] == "u4"
    assert (added["timestamp"], added["sessionId"]) == (json.loads(lines[4])["timestamp"], "s1")


def chain(data: bytes, key: str = "uuid", above: str = "parentUuid") -> list[str]:
    """The ids from the last record up to the root, every one of them there once."""
    records = [json.loads(line) for line in data.splitlines()]
    known = {record[key]: record for record in records if record.get(key)}
    assert len(known) == sum(bool(record.get(key)) for record in records)
    at, found = records[-1], []
    while True:
        found.append(at[key])
        if at[above] is None:
            return found
        at = known[at[above]]


def test_a_huge_line_keeps_its_bytes(tmp_path: Path) -> None:
    records = claude_records()
    records[5]["toolUseResult"] = "x" * 12_000_000
    lines = jsonl(*records).splitlines(keepends=True)
    new = fixed(saved(tmp_path, b"".join([*lines[:6], *lines[7:], b'{"torn']))).splitlines(keepends=True)
    assert new[:6] == lines[:6]
    assert len(new) == len(lines)


def test_the_chain_of_parents_goes_around_a_line_that_is_gone(tmp_path: Path) -> None:
    records = claude_records()
    empty = {
        **records[4],
        "uuid": "e",
        "parentUuid": "u6",
        "message": {**records[7]["message"], "id": "z", "content": []},
    }
    after = {**records[1], "uuid": "a", "parentUuid": "e"}
    new = fixed(saved(tmp_path, jsonl(*records, empty, after)))
    assert chain(new) == ["a", *(f"u{at}" for at in range(6, -1, -1))]


def test_pi_the_chain_goes_through_what_is_new_and_around_what_is_gone(tmp_path: Path) -> None:
    records = pi_records()
    blank = {**records[5], "id": "b", "parentId": "e4", "message": {**records[5]["message"], "content": []}}
    after = {**records[1], "id": "a", "parentId": "b"}
    (tmp_path / "gone").mkdir()
    new = fixed(saved(tmp_path / "gone", jsonl(*records, blank, after)))
    assert chain(b"".join(new.splitlines(keepends=True)[1:]), "id", "parentId") == ["a", "e4", "e3", "e2", "e1", "e0"]
    (tmp_path / "new").mkdir()
    new = fixed(saved(tmp_path / "new", without(SAMPLES["pi"], 4)))
    result = json.loads(new.splitlines()[4])
    assert result["message"]["toolName"] == "look"
    assert chain(b"".join(new.splitlines(keepends=True)[1:]), "id", "parentId") == [
        "e4",
        result["id"],
        "e2",
        "e1",
        "e0",
    ]


def test_of_two_lines_with_one_id_the_second_gets_another_and_its_children_follow(tmp_path: Path) -> None:
    records = claude_records()
    other = {**records[1], "uuid": "u6", "parentUuid": "u6", "timestamp": "later"}
    child = {**records[7], "uuid": "c", "parentUuid": "u6"}
    new = fixed(saved(tmp_path, jsonl(*records, other, child)))
    ids = chain(new)
    assert ids[0] == "c"
    assert ids[2:] == [f"u{at}" for at in range(6, -1, -1)]


def test_a_line_that_comes_twice_is_taken_out(tmp_path: Path) -> None:
    lines = SAMPLES["claude-code"].data.splitlines(keepends=True)
    assert fixed(saved(tmp_path, b"".join([*lines[:4], lines[3], *lines[4:]]))) == SAMPLES["claude-code"].data


def test_a_count_of_messages_is_kept_right(tmp_path: Path) -> None:
    records = nanobot_records()  # five messages, all of them consolidated
    orphan = {"role": "tool", "tool_call_id": "gone", "content": "x"}
    new = fixed(saved(tmp_path, jsonl(records[0], records[1], orphan, *records[2:])))
    assert json.loads(new.splitlines()[0])["last_consolidated"] == 4
    (tmp_path / "b").mkdir()
    new = fixed(saved(tmp_path / "b", without(SAMPLES["nanobot"], 4)))
    assert json.loads(new.splitlines()[0])["last_consolidated"] == 5
    (tmp_path / "c").mkdir()
    early = {**records[0], "last_consolidated": 1}
    new = fixed(saved(tmp_path / "c", jsonl(early, *records[1:4], *records[5:])))
    assert json.loads(new.splitlines()[0])["last_consolidated"] == 1


def test_gemini_cli_a_lost_result_goes_into_its_call(tmp_path: Path) -> None:
    records = gemini_records()
    broken = records[2]["toolCalls"][1]
    del broken["result"]
    broken["status"] = "executing"
    new = fixed(saved(tmp_path, jsonl(*records))).splitlines(keepends=True)
    call = json.loads(new[2])["toolCalls"][1]
    assert call["result"] == [{"functionResponse": {"id": "look-1", "name": "look", "response": {"error": BACKFILL}}}]
    assert call["status"] == "cancelled"
    assert b"".join(new[:2] + new[3:]) == b"".join(
        jsonl(*records).splitlines(keepends=True)[:2] + jsonl(*records).splitlines(keepends=True)[3:]
    )


def test_cline_results_that_share_a_message_are_completed(tmp_path: Path) -> None:
    value = json.loads(SAMPLES["cline-history"].data)
    kept = value[2]["content"].pop()
    assert kept["tool_use_id"] == "toolu_1"
    new = json.loads(fixed(saved(tmp_path, document(value))))
    assert run("check", tmp_path / "session").returncode == 0
    assert [message["role"] for message in new] == ["user", "assistant", "user", "user", "assistant"]


BEYOND = {"nested": b"[" * 3_000 + b"]" * 3_000, "long": b"9" * 5_000}


@pytest.mark.parametrize("beyond", BEYOND)
@pytest.mark.parametrize("name", ["claude-code", "codex", "nanobot"])
def test_a_line_that_may_be_sound_and_is_more_than_can_be_read_here_is_never_lost(
    tmp_path: Path, name: str, beyond: str
) -> None:
    lines = SAMPLES[name].data.splitlines(keepends=True)
    lines[2] = lines[2].rstrip(b"}\n") + b',"x":' + BEYOND[beyond] + b"}\n"
    file = saved(tmp_path, b"".join([*lines, b'{"torn']))
    for options in ([], ["--write"]):
        done = run("fix", file, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"legato: {file}:3: ")
        assert "it may be sound; the file is left as it is" in done.stderr
    assert file.read_bytes() == b"".join([*lines, b'{"torn'])
    assert run("check", file).returncode == 1


def test_a_byte_order_mark_is_taken_off_any_line(tmp_path: Path) -> None:
    lines = SAMPLES["codex"].data.splitlines(keepends=True)
    file = saved(tmp_path, b"".join([*lines[:3], b"\xef\xbb\xbf" + lines[3], *lines[4:]]))
    assert fixed(file) == SAMPLES["codex"].data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (SAMPLES["codex"].data.decode().encode("utf-16"), "UTF-16"),
        (SAMPLES["codex"].data.decode().encode("utf-16-be"), "UTF-16"),
        (b"\0" * 4_096, "nothing but NUL bytes"),
    ],
)
def test_what_is_no_text_is_said_in_a_word_and_left_alone(tmp_path: Path, data: bytes, said: str) -> None:
    file = saved(tmp_path, data)
    for arguments in (["check"], ["fix"], ["fix", "--write"]):
        done = run(*arguments, file)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert file.read_bytes() == data


# -- plain files -------------------------------------------------------------------------------------------------------

ORPHAN = {"role": "tool", "tool_call_id": "gone", "content": "x"}
HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("body", [False, True])
def test_a_list_and_a_body_keep_their_layout(tmp_path: Path, indent: int | None, body: bool) -> None:
    def text(messages: Any) -> str:
        value = {"model": "m", "messages": messages, "temperature": 1.50} if body else messages
        return json.dumps(value, indent=indent, ensure_ascii=False)

    messages = [*HELLO, {"role": "assistant", "content": "naïve"}, {"role": "user", "content": "go\u2028on"}]
    file = saved(tmp_path, text([*messages[:2], ORPHAN, *messages[2:]]).encode())
    assert fixed(file).decode() == text(messages)
    assert run("check", file).returncode == 0


def test_in_jsonl_only_the_lines_with_faults_change(tmp_path: Path) -> None:
    file = write(
        tmp_path / "session", HELLO, [*HELLO, ORPHAN], {"id": 1, "request": {"messages": [*HELLO, ORPHAN]}}, HELLO
    )
    lines = file.read_bytes().splitlines()
    done = run("fix", file)
    assert [line.split()[0] for line in done.stdout.splitlines()[:2]] == [f"{file}:2:", f"{file}:3:"]
    new = fixed(file).splitlines()
    assert (new[0], new[3]) == (lines[0], lines[3])
    assert json.loads(new[1]) == HELLO
    assert json.loads(new[2]) == {"id": 1, "request": {"messages": HELLO}}


def test_with_a_profile_all_its_rules_apply_and_an_answer_at_the_end_stays(tmp_path: Path) -> None:
    twice = [*nanobot_records()[:2], *nanobot_records()[1:]]
    file = saved(tmp_path, jsonl(*twice))
    assert run("fix", file).returncode == 0
    assert run("check", file, "--profile", "portable").returncode == 1
    new = fixed(file, "--profile", "portable").splitlines()
    assert run("check", file, "--profile", "portable").returncode == 0
    assert len(new) == len(twice) - 1
    assert json.loads(new[-1])["content"] == "a.txt is longer."


def test_what_only_the_caller_can_mend_is_said(tmp_path: Path) -> None:
    file = write(
        tmp_path / "session", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    )
    assert run("fix", file, "--profile", "nobody").returncode == 2
    (tmp_path / "empty").write_bytes(b"")
    for name in ("empty", "absent", "."):
        done = run("fix", tmp_path / name)
        assert (done.returncode, done.stdout) == (2, "")
        assert str(tmp_path) in done.stderr


def test_as_json_every_fault_has_its_line(tmp_path: Path) -> None:
    file = saved(tmp_path, without(SAMPLES["codex"], 7) + b'{"timestamp":"t","ty')
    found = json.loads(run("fix", file, "--json").stdout)
    assert [(fault["line"], fault["code"]) for fault in found["faults"]] == [(6, "PAIR002"), (10, "")]
    assert found["kind"] == "Codex rollout"


# -- writing -----------------------------------------------------------------------------------------------------------


def test_the_permissions_stay_and_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(SAMPLES["nanobot"].data + b"torn")
    os.chmod(tmp_path / "real", 0o640)
    (tmp_path / "link").symlink_to("real")
    assert run("fix", tmp_path / "link", "--write").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == SAMPLES["nanobot"].data
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


def test_every_repair_keeps_what_was_there_before_it(tmp_path: Path) -> None:
    file = saved(tmp_path, SAMPLES["nanobot"].data + b"torn")
    assert run("fix", file, "--write").returncode == 0
    file.write_bytes(SAMPLES["nanobot"].data + b"torn again")
    assert run("fix", file, "--write").returncode == 0
    assert (tmp_path / "session.bak").read_bytes().endswith(b"torn")
    assert (tmp_path / "session.bak1").read_bytes().endswith(b"torn again")


@pytest.mark.parametrize("lock", [fcntl.flock, fcntl.lockf])
def test_a_file_that_another_program_has_locked_is_left_alone(tmp_path: Path, lock: Any) -> None:
    file = saved(tmp_path, SAMPLES["nanobot"].data + b"torn")
    with file.open("r+b") as stream:
        lock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        done = in_a_process("fix", file, "--write")
    assert (done.returncode, done.stdout) == (2, "")
    assert "locked" in done.stderr
    assert file.read_bytes().endswith(b"torn")
    assert os.listdir(tmp_path) == ["session"]


def test_a_file_that_its_agent_wrote_to_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = saved(tmp_path, b"old")

    def pieces() -> Iterator[bytes]:
        yield b"new"
        with file.open("ab") as stream:
            stream.write(b" and more")

    with rewrite.locked(str(file)) as stream:
        seen = os.fstat(stream.fileno())
        with pytest.raises(OSError, match="meanwhile"):
            rewrite.replace(str(file), pieces(), seen)
    assert file.read_bytes() == b"old and more"
    assert [name for name in os.listdir(tmp_path) if "part" in name] == []


def test_a_text_in_which_a_few_lines_happen_to_be_messages_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    shown = ['{"role": "user", "content": "hi"}', '{"role": "assistant", "content": "yes"}']
    file.write_text("\n".join(["# A page", "It shows:", *shown, "and", "much", "more", "text"]), encoding="utf-8")
    before = file.read_bytes()
    for arguments in ([], ["--write"]):
        done = run("fix", str(file), *arguments)
        assert done.returncode == 2
        assert "6 lines are broken and 2 hold a message" in done.stderr
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
