"""What of a session was sent: the branch that was active last, without what was taken back, hidden or compacted."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from legato.transcripts.readers import recordings
from legato.transcripts.recording import Recording
from sessions import ASKED, SAMPLES, claude_records, codex_records, gemini_records, jsonl, openhands_events, pi_records


def read(path: Path, *records: Any) -> list[Recording]:
    (path / "session").write_bytes(jsonl(*records))
    return list(recordings(str(path / "session")))


def one(path: Path, *records: Any) -> Recording:
    (found,) = read(path, *records)
    return found


def texts(recording: Recording) -> str:
    return json.dumps(recording.messages, ensure_ascii=False)


def user(uuid: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    """A line of Claude Code's."""
    message = {"role": "user", "content": text}
    line = {"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "message": message}
    return {**line, "timestamp": "2026-03-01T11:00:00Z", **more}


# -- Claude Code -------------------------------------------------------------------------------------------------------


def test_a_question_that_was_asked_anew_takes_the_place_of_the_first(tmp_path: Path) -> None:
    found = one(tmp_path, *claude_records(), user("v", "u5", "Which is newer?"))
    assert [message["role"] for message in found.messages] == ["user", "assistant", "user", "user"]
    assert "Which is newer?" in texts(found)
    assert "is longer." not in texts(found)
    assert [note.text for note in found.notes] == ["1 messages of other branches are left out"]


def test_lines_may_come_in_any_order(tmp_path: Path) -> None:
    head, *lines = claude_records()
    mixed = one(tmp_path, head, *lines[1:3], lines[0], *lines[3:])
    assert mixed.messages == one(tmp_path, head, *lines).messages


def test_parallel_results_that_hang_side_by_side_are_all_read(tmp_path: Path) -> None:
    """Each result names the line of its own call, so that only one of them is on the way to the end."""
    lines = claude_records()
    lines[5]["parentUuid"] = "u2"
    lines[6]["parentUuid"] = "u3"
    found = one(tmp_path, *lines)
    assert found.messages == one(tmp_path, *claude_records()).messages


def test_an_answer_whose_results_came_while_it_was_written_is_one_message(tmp_path: Path) -> None:
    lines = claude_records()
    lines[4], lines[5] = lines[5], lines[4]
    for above, line in pairwise(lines[3:]):
        line["parentUuid"] = above["uuid"]
    found = one(tmp_path, *lines)
    assert found.messages == one(tmp_path, *claude_records()).messages
    assert found.lines[1] == (3, 4, 6)


def test_the_lines_of_sub_agents_are_left_out_unless_there_are_no_others(tmp_path: Path) -> None:
    aside = [{**line, "isSidechain": True, "uuid": f"x{line.get('uuid')}"} for line in claude_records()[1:3]]
    found = one(tmp_path, *claude_records(), *aside)
    assert found.messages == one(tmp_path, *claude_records()).messages
    assert "2 lines of sub-agents" in found.notes[0].text
    alone = one(tmp_path, *({**line, "isSidechain": True} for line in claude_records()))
    assert alone.messages == found.messages


def test_a_failed_request_is_not_sent_again(tmp_path: Path) -> None:
    failed = {**claude_records()[7], "uuid": "f", "parentUuid": "u6", "isApiErrorMessage": True}
    found = one(tmp_path, *claude_records(), failed, user("v", "f", "Go on."))
    assert [message["role"] for message in found.messages] == ["user", "assistant", "user", "assistant", "user"]


def test_after_a_compaction_the_history_starts_anew_and_the_old_one_is_told_apart(tmp_path: Path) -> None:
    boundary = {**user("b", None, ""), "type": "system", "subtype": "compact_boundary", "logicalParentUuid": "u6"}
    summary = user("c", "b", "This session is continued: files were compared.", isCompactSummary=True)
    old, new = read(tmp_path, *claude_records(), boundary, summary)
    assert (old.over, new.over) == (True, False)
    assert old.messages == one(tmp_path, *claude_records()).messages
    assert len(new.messages) == 1


def test_two_sessions_in_one_file_are_two_conversations(tmp_path: Path) -> None:
    other = [
        {**line, "sessionId": "s2", "uuid": f"o{at}", "parentUuid": f"o{at - 1}" if at else None}
        for at, line in enumerate(claude_records()[1:])
    ]
    first, second = read(tmp_path, *claude_records(), *other)
    assert not first.over
    assert (first.label, second.label) == ("s1", "s2")
    assert first.messages == second.messages


def test_a_file_whose_lines_name_no_parents_is_a_list(tmp_path: Path) -> None:
    bare = [{key: value for key, value in line.items() if key != "parentUuid"} for line in claude_records()]
    assert one(tmp_path, *bare).messages == one(tmp_path, *claude_records()).messages


def test_a_line_that_comes_twice_is_read_once(tmp_path: Path) -> None:
    lines = claude_records()
    found = one(tmp_path, *lines[:6], lines[5], *lines[6:])
    assert found.messages == one(tmp_path, *lines).messages
    assert [(note.line, note.damage) for note in found.notes] == [(7, True)]


def test_parents_in_a_circle_end_somewhere(tmp_path: Path) -> None:
    lines = claude_records()
    lines[1]["parentUuid"] = "u6"
    assert len(one(tmp_path, *lines).messages) == SAMPLES["claude-code"].messages


# -- the others --------------------------------------------------------------------------------------------------------


def test_pi_the_last_branch_counts(tmp_path: Path) -> None:
    entry = {**pi_records()[1], "id": "n", "parentId": "e3"}
    found = one(tmp_path, *pi_records(), entry)
    assert [message["role"] for message in found.messages] == ["user", "assistant", "user", "user"]


def test_pi_the_first_version_is_a_list(tmp_path: Path) -> None:
    assert one(tmp_path, *pi_records(version=1)).messages == one(tmp_path, *pi_records()).messages


def test_pi_an_answer_that_was_stopped_is_a_turn_but_no_message(tmp_path: Path) -> None:
    records = pi_records()
    records[-1]["message"]["stopReason"] = "aborted"
    found = one(tmp_path, *records)
    assert len(found.messages) == SAMPLES["pi"].messages - 1
    assert (found.turns[1].at, found.turns[1].end) == (3, 3)


def test_pi_a_compaction_keeps_what_it_says(tmp_path: Path) -> None:
    compaction = {"type": "compaction", "summary": "All so far.", "firstKeptEntryId": "e4", "id": "k", "parentId": "e4"}
    again = {**pi_records()[1], "id": "n", "parentId": "k"}
    old, new = read(tmp_path, *pi_records(), compaction, again)
    assert old.over
    assert [message["role"] for message in new.messages] == ["user", "assistant", "user"]
    assert new.messages[0]["content"] == "All so far."
    assert new.turns == ()  # what is kept was answered before


def test_pi_a_compaction_that_keeps_from_nowhere_is_noted(tmp_path: Path) -> None:
    compaction = {
        "type": "compaction",
        "summary": "All so far.",
        "firstKeptEntryId": "gone",
        "id": "k",
        "parentId": "e4",
    }
    _, new = read(tmp_path, *pi_records(), compaction)
    assert len(new.messages) == 1
    assert [note.line for note in new.notes] == [7]


def test_codex_turns_that_were_taken_back_are_left_out(tmp_path: Path) -> None:
    rollback = {"timestamp": "t", "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    more = codex_records()[2:]
    found = one(tmp_path, *codex_records(), *more, rollback)
    assert found.messages == one(tmp_path, *codex_records()).messages
    assert one(tmp_path, *codex_records()[:2], rollback, *codex_records()[2:]).messages == found.messages


def test_codex_what_replaces_the_history_is_the_history(tmp_path: Path) -> None:
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Only this."}]}]
    compacted = {"timestamp": "t", "type": "compacted", "payload": {"message": "x", "replacement_history": kept}}
    old, new = read(tmp_path, *codex_records(), compacted)
    assert old.over
    assert new.messages == kept


def test_codex_without_a_replacement_the_users_messages_and_the_summary_stay(tmp_path: Path) -> None:
    compacted = {"timestamp": "t", "type": "compacted", "payload": {"message": "They compared files."}}
    _, new = read(tmp_path, *codex_records(), compacted)
    assert [message["content"][0]["text"] for message in new.messages] == [ASKED, "They compared files."]


def test_gemini_cli_a_later_record_of_an_id_takes_the_place_of_the_earlier(tmp_path: Path) -> None:
    early = {**gemini_records()[2], "toolCalls": [], "content": "wait"}
    found = one(tmp_path, *gemini_records()[:2], early, *gemini_records()[2:])
    assert found.messages == one(tmp_path, *gemini_records()).messages


def test_gemini_cli_what_was_rewound_is_gone(tmp_path: Path) -> None:
    records = gemini_records()
    assert len(one(tmp_path, *records, {"$rewindTo": "m1"}).messages) == 1
    assert one(tmp_path, *records, {"$rewindTo": "nobody"}).messages == []
    replaced = {"$set": {"messages": records[1:2]}}
    assert len(one(tmp_path, *records, replaced, records[4]).messages) == 2


def test_gemini_cli_the_older_document_is_the_same_chat(tmp_path: Path) -> None:
    head, *messages = gemini_records()
    (tmp_path / "old.json").write_text(json.dumps({**head, "messages": messages}, indent=1))
    (found,) = recordings(str(tmp_path / "old.json"))
    assert found.messages == one(tmp_path, *gemini_records()).messages


def test_openhands_what_was_condensed_is_a_summary(tmp_path: Path) -> None:
    about = {"kind": "Condensation", "id": "k", "source": "environment", "timestamp": "t"}
    forgotten = {**about, "forgotten_event_ids": ["v2", "v3", "v4", "v5"], "summary": "They looked."}
    found = one(tmp_path, *openhands_events(), forgotten)
    assert [message["role"] for message in found.messages] == ["system", "user", "user", "assistant"]
    assert found.messages[2]["content"] == "They looked."
