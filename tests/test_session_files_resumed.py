"""What legato reads is what the agent goes on from, and a repaired file is one that the agent resumes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import legato
from legato.rules.pair import BACKFILL
from legato.transcripts.readers import recordings
from legato.transcripts.recording import Recording
from resuming import RESUME, Refused
from sessions import SAMPLES, TIMES, claude_records, codex_records, gemini_records, inspect_sample, jsonl, pi_records
from test_cli import called as run
from test_fix import chain, fixed, saved, without
from test_session_files import NOTHING_LOST

every = pytest.mark.parametrize("name", RESUME)


def live(file: Path) -> Recording:
    return [recording for recording in recordings(str(file)) if not recording.over][-1]


def sent(recording: Recording) -> set[int]:
    return {line for lines in recording.lines for line in lines}


@every
def test_it_reads_the_lines_that_the_agent_would(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path, SAMPLES[name].data)
    assert sent(live(file)) == RESUME[name](file.read_bytes())


@every
@pytest.mark.parametrize("damage", NOTHING_LOST)
def test_of_a_repaired_file_the_agent_goes_on_from_all_that_was_whole(tmp_path: Path, name: str, damage: str) -> None:
    broken = NOTHING_LOST[damage](SAMPLES[name].data.splitlines(keepends=True))
    new = fixed(saved(tmp_path, b"".join(broken)))
    assert RESUME[name](new) == RESUME[name](SAMPLES[name].data)


@every
@pytest.mark.parametrize("gone", range(1, 8))
def test_without_any_one_line_it_is_repaired_to_one_that_the_agent_resumes(
    tmp_path: Path, name: str, gone: int
) -> None:
    if gone >= len(SAMPLES[name].data.splitlines()):
        return
    file = saved(tmp_path, without(SAMPLES[name], gone))
    done = run("fix", file, "--write")
    assert done.returncode == 0
    found = live(file)
    assert sent(found) == RESUME[name](file.read_bytes())
    assert not [each for each in legato.check(found.payload, format=found.format) if each.code.startswith("PAIR")]


LOST = {"codex": codex_records, "pi": pi_records, "gemini-cli": gemini_records}


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("torn", [False, True])
def test_what_an_agent_would_not_load_without_its_first_line_is_refused_with_the_remedy(
    tmp_path: Path, name: str, torn: bool
) -> None:
    first, *rest = jsonl(*LOST[name]()).splitlines(keepends=True)
    data = b"".join([first[:25] + b"\n" if torn else b"", *rest])
    with pytest.raises(Refused):
        RESUME[name](data)
    file = saved(tmp_path, data + b'{"torn')
    for options in ([], ["--write"]):
        done = run("fix", file, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{file}:1: its " in done.stderr
        assert "put " in done.stderr
    assert file.read_bytes() == data + b'{"torn'
    assert run("check", file).returncode == 1
    file.write_bytes(first + data)
    assert run("fix", file, "--write").returncode == 0
    assert RESUME[name](file.read_bytes()) == RESUME[name](SAMPLES[name].data)


# -- Claude Code -------------------------------------------------------------------------------------------------------


def test_claude_code_parallel_calls_side_by_side_are_put_together(tmp_path: Path) -> None:
    """Each call and its result on a branch of their own, and the session goes on from only one of them."""
    records = claude_records()
    _, _, _, first, second, one, other, last = records
    one["parentUuid"], other["parentUuid"], last["parentUuid"] = first["uuid"], second["uuid"], one["uuid"]
    last["timestamp"] = "2026-03-01T10:00:06.000Z"
    file = saved(tmp_path, jsonl(*records))
    found = live(file)
    assert sent(found) == RESUME["claude-code"](file.read_bytes()) == set(range(2, 9))
    assert [block["type"] for block in found.messages[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert run("check", file, "--profile", "anthropic").returncode == 0
    assert run("fix", file).returncode == 0


def test_claude_code_a_call_open_at_the_end_is_answered_where_the_session_goes_on(tmp_path: Path) -> None:
    records = claude_records()[:6]
    new = fixed(saved(tmp_path, jsonl(*records)))
    assert len(chain(new)) == 6
    assert RESUME["claude-code"](new) == set(range(2, 8))
    assert all(line.startswith(b'{"parentUuid":') for line in new.splitlines()[1:])


# -- Codex -------------------------------------------------------------------------------------------------------------


def user(text: str) -> dict[str, Any]:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"timestamp": TIMES[3], "type": "response_item", "payload": item}


def test_codex_the_first_session_meta_is_its_own_and_later_ones_those_of_what_it_was_forked_from(
    tmp_path: Path,
) -> None:
    meta, *rest = codex_records()
    other = {**meta, "payload": {**meta["payload"], "id": "older", "instructions": "Other."}}
    assert live(saved(tmp_path, jsonl(meta, other, *rest))).head == {"instructions": "You help."}


def test_codex_a_notice_of_the_program_is_no_turn_that_is_taken_back(tmp_path: Path) -> None:
    rolled = {"timestamp": TIMES[4], "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    notice = user("<turn_aborted>The user interrupted.</turn_aborted>")
    records = [*codex_records(), user("Do more."), notice, rolled]
    assert live(saved(tmp_path, jsonl(*records))).messages == live(saved(tmp_path, SAMPLES["codex"].data)).messages


def test_codex_what_another_agent_wrote_is_read_and_the_state_of_the_world_is_not(tmp_path: Path) -> None:
    mail = {"author": "/root", "recipient": "/root/a", "content": "Look at c.txt.", "trigger_turn": True}
    lines = [
        {"timestamp": TIMES[3], "type": "inter_agent_communication", "payload": mail},
        {"timestamp": TIMES[3], "type": "world_state", "payload": {}},
    ]
    found = live(saved(tmp_path, jsonl(*codex_records(), *lines)))
    assert found.messages[-1]["content"][0]["text"] == "Look at c.txt."
    assert found.notes == ()


def test_codex_lines_that_are_numbered_stay_as_many_as_they_are(tmp_path: Path) -> None:
    records = [{**record, "ordinal": at} for at, record in enumerate(codex_records())]
    file = saved(tmp_path, jsonl(*records[:7], *records[8:]))
    done = run("fix", file, "--write")
    assert (done.returncode, done.stdout) == (2, "")
    assert "numbered (`ordinal`)" in done.stderr
    file.write_bytes(jsonl(*records) + b'{"torn')
    assert run("fix", file, "--write").returncode == 0
    assert file.read_bytes() == jsonl(*records)


# -- pi ----------------------------------------------------------------------------------------------------------------


def test_pi_goes_on_from_the_last_entry_of_any_type(tmp_path: Path) -> None:
    back = {"type": "model_change", "id": "m", "parentId": "e3", "timestamp": TIMES[5], "modelId": "other"}
    file = saved(tmp_path, jsonl(*pi_records(), back))
    found = live(file)
    assert sent(found) == RESUME["pi"](file.read_bytes()) == {2, 3, 4, 5}


def test_pi_a_second_compaction_may_keep_what_is_before_the_first(tmp_path: Path) -> None:
    first = {"type": "compaction", "summary": "One.", "firstKeptEntryId": "e4", "id": "k", "parentId": "e4"}
    second = {"type": "compaction", "summary": "Two.", "firstKeptEntryId": "e4", "id": "l", "parentId": "k"}
    found = live(saved(tmp_path, jsonl(*pi_records(), first, second)))
    assert [message["role"] for message in found.messages] == ["user", "assistant"]
    assert found.messages[0]["content"] == "Two."


def test_pi_version_1_counts_the_entries_that_a_compaction_keeps(tmp_path: Path) -> None:
    compaction = {"type": "compaction", "summary": "All so far.", "firstKeptEntryIndex": 5}
    found = live(saved(tmp_path, jsonl(*pi_records(version=1), compaction)))
    assert [message["role"] for message in found.messages] == ["user", "assistant"]
    assert found.lines[1] == (6,)


def test_pi_a_compaction_goes_on_keeping_what_is_after_a_record_that_is_taken_out(tmp_path: Path) -> None:
    records = pi_records()
    blank = {**records[5], "id": "b", "parentId": "e3", "message": {**records[5]["message"], "content": []}}
    last = {**records[5], "parentId": "b"}
    compaction = {"type": "compaction", "summary": "One.", "firstKeptEntryId": "b", "id": "k", "parentId": "e4"}
    new = fixed(saved(tmp_path, jsonl(*records[:5], blank, last, compaction)))
    assert json.loads(new.splitlines()[-1])["firstKeptEntryId"] == "e4"
    assert len(live(tmp_path / "session").messages) == 2


def test_pi_a_branch_without_a_summary_says_nothing(tmp_path: Path) -> None:
    branch = {"type": "branch_summary", "id": "b", "parentId": "e4", "timestamp": TIMES[5], "summary": ""}
    assert len(live(saved(tmp_path, jsonl(*pi_records(), branch))).messages) == SAMPLES["pi"].messages


# -- gemini-cli --------------------------------------------------------------------------------------------------------


def modern() -> list[dict[str, Any]]:
    """The calls stand in the content, and again in `toolCalls`."""
    records = gemini_records()
    calls = [{"functionCall": {key: call[key] for key in ("id", "name", "args")}} for call in records[2]["toolCalls"]]
    records[2]["content"] = [{"text": "I think.", "thought": True}, {"text": "I look at both."}, *calls]
    return records


def test_gemini_cli_calls_that_stand_in_the_content_too_are_one_call(tmp_path: Path) -> None:
    file = saved(tmp_path, jsonl(*modern()))
    parts = live(file).messages[1]["parts"]
    assert [key for part in parts for key in part if key != "thought"] == ["text", "text", *["functionCall"] * 2]
    assert run("check", file).returncode == 0


def test_gemini_cli_results_that_come_again_as_a_record_of_the_users_are_one_result(tmp_path: Path) -> None:
    records = modern()
    results = [part for call in records[2]["toolCalls"] for part in call["result"]]
    again = {"id": "r", "timestamp": TIMES[2], "type": "user", "content": results}
    messages = [record for record in (*records[1:3], again, *records[3:]) if "id" in record]
    file = saved(tmp_path, jsonl(records[0], {"$set": {"messages": messages}}))
    assert len(live(file).messages) == 4
    assert run("check", file).returncode == 0


@pytest.mark.parametrize("text", ["/compress", "?", " ", "<session_context>\nToday is Monday.\n</session_context>"])
def test_gemini_cli_commands_and_notices_are_not_sent_again(tmp_path: Path, text: str) -> None:
    record = {"id": "c", "timestamp": TIMES[4], "type": "user", "content": [{"text": text}]}
    assert len(live(saved(tmp_path, jsonl(*gemini_records(), record))).messages) == SAMPLES["gemini-cli"].messages


def test_gemini_cli_a_lost_result_of_a_call_in_the_content_gets_an_entry_of_its_own(tmp_path: Path) -> None:
    records = modern()
    del records[2]["toolCalls"][1]
    new = fixed(saved(tmp_path, jsonl(*records)))
    kept, added = json.loads(new.splitlines()[2])["toolCalls"]
    assert kept == records[2]["toolCalls"][0]
    assert (added["id"], added["status"]) == ("look-1", "cancelled")
    assert BACKFILL in json.dumps(added["result"], ensure_ascii=False)
    assert json.loads(new.splitlines()[2])["content"] == records[2]["content"]


# -- Inspect -----------------------------------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["backports.zstd.zipfile"] = None
from legato.cli import main
sys.exit(main(["check", sys.argv[1]]))
"""


def test_inspect_a_log_that_is_compressed_with_zstd_is_read_or_it_says_what_is_missing(tmp_path: Path) -> None:
    compressed = pytest.importorskip("backports.zstd.zipfile", reason="newer logs need backports.zstd")
    with compressed.ZipFile(tmp_path / "log.eval", "w", compressed.ZIP_ZSTANDARD) as archive:
        archive.writestr("samples/q_epoch_1.json", json.dumps(inspect_sample()))
    (found,) = recordings(str(tmp_path / "log.eval"))
    (plain,) = recordings(str(saved(tmp_path, SAMPLES["inspect"].data)))
    assert found.messages == plain.messages
    whole = (tmp_path / "log.eval").read_bytes()
    for broken in (whole[:-30], whole[:60] + b"\0" * 60 + whole[120:]):
        done = run("check", saved(tmp_path, broken))
        assert (done.returncode, "`inspect log recover` may mend it" in done.stderr) == (2, True)
    if sys.version_info < (3, 14):
        command = [sys.executable, "-c", WITHOUT, str(tmp_path / "log.eval")]
        failed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (failed.returncode, failed.stdout) == (2, "")
        assert "pip install backports.zstd" in failed.stderr
