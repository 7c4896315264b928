"""`legato check` over many files: what it finds there, which codes, for which providers, and in which form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from test_cli import BROKEN, LEGAL, ORPHAN, TWO_USERS, write
from test_cli import called as run

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
UNANSWERED = [*LEGAL, {"role": "assistant", "content": None, "tool_calls": [CALL]}, ORPHAN]
"""PAIR001 and PAIR002; and ROLE004 once both are mended."""


def findings(*arguments: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("check", "--json", *arguments).stdout)["findings"]
    return found


def codes(*arguments: str | Path) -> set[str]:
    return {found["code"] for found in findings(*arguments)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files in folders: two conversations with a fault, one without, and what is none."""
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / "b" / "deep" / "z.jsonl", LEGAL, BROKEN)
    write(tmp_path / "a.json", BROKEN)
    write(tmp_path / "b" / "c.json", LEGAL)
    write(tmp_path / "package.json", {"name": "x", "version": "1"})
    write(tmp_path / "numbers.json", [1, 2, 3])
    write(tmp_path / ".hidden" / "h.json", BROKEN)
    (tmp_path / "readme.md").write_text("no JSON at all", encoding="utf-8")
    return tmp_path


def test_a_folder_is_searched_and_the_order_is_that_of_the_names(folder: Path) -> None:
    found = [(row["file"], row["line"]) for row in findings(folder)]
    assert found == [(str(folder / "a.json"), None), (str(folder / "b" / "deep" / "z.jsonl"), 2)]


def test_a_pattern_finds_files_in_any_depth(folder: Path) -> None:
    assert {row["file"] for row in findings(f"{folder}/**/*.jsonl")} == {str(folder / "b" / "deep" / "z.jsonl")}


def test_a_file_whose_name_looks_like_a_pattern_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a[1].json", BROKEN)
    assert [row["file"] for row in findings(file)] == [str(file)]


def test_a_file_is_checked_once_however_often_it_is_meant(folder: Path) -> None:
    assert len(findings(folder / "a.json", folder, folder / "a.json")) == 2


def test_what_is_no_conversation_is_left_out_of_a_folder_and_named(folder: Path) -> None:
    done = run("check", folder)
    assert done.returncode == 1
    assert "2 files" in done.stdout
    assert "package.json" in done.stdout
    assert done.stderr == ""


def test_what_is_no_conversation_is_an_error_where_it_was_named(folder: Path) -> None:
    assert run("check", folder / "package.json").returncode == 2


def test_broken_json_in_a_folder_is_an_error_and_the_rest_is_checked(folder: Path) -> None:
    (folder / "b" / "cut.json").write_text('[{"role": ', encoding="utf-8")
    done = run("check", folder)
    assert done.returncode == 2
    assert "cut.json:1:11" in done.stderr
    assert "z.jsonl:2" in done.stdout


@pytest.mark.parametrize("name", ["nothing-*.json", "nobody"])
def test_a_name_that_stands_for_no_file_is_an_error(tmp_path: Path, name: str) -> None:
    done = run("check", tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr


def test_select_and_ignore_take_codes_and_their_beginnings(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", UNANSWERED)
    assert {"PAIR001", "PAIR002"} <= codes(file)
    assert codes(file, "--select", "PAIR002") == {"PAIR002"}
    assert codes(file, "--select", "PAIR", "--ignore", "PAIR002") == {"PAIR001"}
    assert codes(file, "--select", "ROLE,PAIR001") - {"PAIR001"} <= {code for code in codes(file) if code[:4] == "ROLE"}
    assert not codes(file, "--ignore", "PAIR", "--ignore", "ROLE")


def test_what_is_not_selected_does_not_count(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", BROKEN)
    assert run("check", file, "--select", "NAME").returncode == 0
    assert run("check", file, "--ignore", "PAIR001").returncode == 0


def test_a_code_that_nothing_starts_with_is_wrong_usage(tmp_path: Path) -> None:
    done = run("check", write(tmp_path / "a.json", BROKEN), "--select", "PAIR001,FOO")
    assert (done.returncode, done.stdout) == (2, "")
    assert "FOO" in done.stderr


def test_several_profiles_are_compared_in_columns(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", TWO_USERS, BROKEN)
    done = run("check", file, "--profile", "openai", "--profile", "portable")
    assert done.returncode == 1
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["openai", "portable"]
    marks = {line.split()[2] + line.split()[3]: line.split()[:2] for line in lines if "a.jsonl:" in line}
    assert marks == {f"{file}:1:messages[1]": ["-", "error"], f"{file}:2:messages[2]": ["error", "error"]}
    assert [line.split()[:3] for line in lines[-2:]] == [["openai", "refuses", "1"], ["portable", "refuses", "2"]]


def test_providers_of_other_formats_are_compared_on_what_the_file_is(tmp_path: Path) -> None:
    profiles = ("openai", "anthropic", "gemini", "openai-responses", "bedrock")
    options = [option for profile in profiles for option in ("--profile", profile)]
    found = findings(write(tmp_path / "a.json", BROKEN), *options)
    assert {row["profile"] for row in found if (row["code"], row["at"]) == ("PAIR001", 2)} == set(profiles)


def test_as_json_the_summary_says_who_refuses(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", TWO_USERS)
    done = run("check", "--json", file, "--profile", "openai", "--profile", "portable")
    summary = json.loads(done.stdout)["summary"]
    assert (summary["files"], summary["conversations"], summary["unread"]) == (1, 1, [])
    assert {row["profile"]: row["refused"] for row in summary["profiles"]} == {"openai": 0, "portable": 1}


def test_warnings_are_counted_and_shown_only_if_asked_for(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", [*TWO_USERS, {"role": "assistant", "content": "yes", "tool_calls": [CALL]}])
    hidden = run("check", file, "--profile", "glm")
    shown = run("check", file, "--profile", "glm", "--warnings")
    assert hidden.returncode == shown.returncode
    assert len(shown.stdout.splitlines()) > len(hidden.stdout.splitlines())
    assert "--warnings shows them" in hidden.stdout
    assert "warning: " in shown.stdout


def test_for_github_a_finding_is_an_annotation_on_one_line(tmp_path: Path) -> None:
    result = {**ORPHAN, "tool_call_id": "a\nb::%,"}
    file = write(tmp_path / "a,b.jsonl", LEGAL, [*LEGAL, result])
    done = run("check", file, "--format", "github")
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    command, _, message = line.removeprefix("::").partition("::")
    assert command == f"error file={str(file).replace(',', '%2C')},line=2,title=PAIR001 orphan-tool-result"
    assert message.startswith("messages[2]: ")
    assert "%25," in message


def test_as_sarif_every_result_has_its_rule_its_place_and_its_level(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", LEGAL, BROKEN)
    (tmp_path / "b.json").write_text("[", encoding="utf-8")
    done = run("check", tmp_path, "--format", "sarif")
    assert done.returncode == 2
    log = json.loads(done.stdout)
    assert log["version"] == "2.1.0"
    (part,) = log["runs"]
    (result,) = part["results"]
    rule = part["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (result["ruleId"], rule["id"], rule["name"]) == ("PAIR001", "PAIR001", "orphan-tool-result")
    assert result["level"] == "error"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (tmp_path / "a.jsonl").as_uri()
    assert place["region"] == {"startLine": 2}
    (invocation,) = part["invocations"]
    assert not invocation["executionSuccessful"]
    assert "b.json:1" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_control_characters_of_a_conversation_do_not_reach_the_terminal(tmp_path: Path) -> None:
    call = {**CALL, "id": "\x1b[31m\n::error::\x07", "function": {"name": "look\x1b]0;x\x07", "arguments": "{}"}}
    file = write(tmp_path / "a.json", [*LEGAL, {"role": "assistant", "content": None, "tool_calls": [call]}])
    for done in (run("check", file), run("govern", file, "--diff", "-o", tmp_path / "out.json")):
        assert all(character.isprintable() or character == "\n" for character in done.stdout + done.stderr)
        assert not any(line.startswith("::") for line in done.stdout.splitlines())


def test_a_long_text_in_a_finding_is_shortened(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", [*LEGAL, {**ORPHAN, "tool_call_id": "x" * 100_000}])
    assert len(run("check", file).stdout) < 2_000
    assert len(findings(file)[0]["message"]) > 100_000
