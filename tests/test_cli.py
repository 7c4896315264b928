"""The command line as its users meet it: real processes, exit codes, what stands on which stream."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from legato.cli import main

Run: TypeAlias = "subprocess.CompletedProcess[str]"

PATIENCE = 600
"""Seconds after which a command hangs: no claim on how long one takes, on whatever machine."""

COMMANDS = ("check", "govern", "fix", "rule", "profiles", "serve", "run", "replay")
PAGES = Path(__file__).parent.parent / "docs" / "rules"

QUESTION = {"role": "user", "content": "What is in a.txt? – naïve 🙂"}
ORPHAN = {"role": "tool", "tool_call_id": "gone", "content": "the lost result"}
LEGAL = [{"role": "system", "content": "You help."}, QUESTION]
BROKEN = [*LEGAL, ORPHAN]
TWO_USERS = [QUESTION, {"role": "user", "content": "Well?"}]
LOOP = [
    QUESTION,
    *(
        message
        for at in range(6)
        for message in (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{at}", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": f"c{at}", "content": f"result {at}: " + " ".join(["word"] * 400)},
        )
    ),
]


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Run:
    """Run the command with this text on its standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "legato", *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin or b"",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    assert "\x1b" not in out + err, "colour where there is no terminal"
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def called(*arguments: str | Path, stdin: str | bytes | None = None) -> Run:
    """The same within this process, in a fifth of the time: for what is not about processes."""
    given = stdin.encode() if isinstance(stdin, str) else stdin or b""
    before, written = sys.stdin, (io.BytesIO(), io.BytesIO())
    out, err = (io.TextIOWrapper(stream, encoding="utf-8", write_through=True) for stream in written)
    sys.stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*map(str, arguments)])
    finally:
        sys.stdin = before
    said = [stream.getvalue().decode("utf-8") for stream in written]
    assert "\x1b" not in "".join(said), "colour where there is no terminal"
    return subprocess.CompletedProcess(["legato", *map(str, arguments)], code, *said)


def write(path: Path, *values: Any) -> Path:
    """One value as a JSON file, several as JSONL."""
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path


def objects(value: Any) -> list[dict[str, Any]]:
    """Every object in a JSON value, however deep."""
    if isinstance(value, list):
        return [found for item in value for found in objects(item)]
    if isinstance(value, dict):
        return [value, *(found for item in value.values() for found in objects(item))]
    return []


def same(text: str, value: Any) -> bool:
    """Whether a JSON text holds the value, with its keys in the same order."""
    return json.dumps(json.loads(text)) == json.dumps(value)


# -- check -------------------------------------------------------------------------------------------------------------


def test_check_of_a_clean_history_exits_0(tmp_path: Path) -> None:
    done = run("check", write(tmp_path / "a.json", LEGAL))
    assert (done.returncode, done.stderr) == (0, "")


def test_check_names_file_code_and_place_and_exits_1(tmp_path: Path) -> None:
    done = run("check", write(tmp_path / "a.json", BROKEN))
    assert done.returncode == 1
    assert "a.json" in done.stdout
    assert "PAIR001" in done.stdout
    assert "[2]" in done.stdout


def test_check_reads_every_file_that_it_is_given(tmp_path: Path) -> None:
    clean, broken = write(tmp_path / "clean.json", LEGAL), write(tmp_path / "broken.json", BROKEN)
    done = run("check", clean, broken)
    assert done.returncode == 1
    assert "broken.json" in done.stdout
    assert run("check", clean, clean).returncode == 0


def test_check_exits_2_if_one_of_its_files_cannot_be_read(tmp_path: Path) -> None:
    done = run("check", write(tmp_path / "broken.json", BROKEN), tmp_path / "missing.json")
    assert done.returncode == 2
    assert "missing.json" in done.stderr


def test_check_reads_a_body_like_its_list(tmp_path: Path) -> None:
    done = run("check", write(tmp_path / "a.json", {"model": "m", "messages": BROKEN}))
    assert done.returncode == 1
    assert "PAIR001" in done.stdout


def test_check_reads_standard_input() -> None:
    assert run("check", "-", stdin=json.dumps(LEGAL)).returncode == 0
    assert run("check", "-", stdin=json.dumps(BROKEN)).returncode == 1


def test_check_of_jsonl_names_the_line(tmp_path: Path) -> None:
    lines = [LEGAL, {"id": "x", "messages": LEGAL}, {"id": "y", "request": {"model": "m", "messages": BROKEN}}]
    done = run("check", write(tmp_path / "a.jsonl", *lines))
    assert done.returncode == 1
    (found,) = [line for line in done.stdout.splitlines() if "PAIR001" in line]
    assert "a.jsonl:3" in found


def test_check_as_json_holds_each_violation(tmp_path: Path) -> None:
    done = run("check", "--json", write(tmp_path / "a.json", BROKEN))
    assert done.returncode == 1
    (found,) = [item for item in objects(json.loads(done.stdout)) if "code" in item]
    assert (found["code"], found["at"], found["severity"]) == ("PAIR001", 2, "error")
    assert found["message"]
    assert found["fix"]


def test_check_as_json_of_a_clean_history_holds_none(tmp_path: Path) -> None:
    done = run("check", "--json", write(tmp_path / "a.json", LEGAL))
    assert done.returncode == 0
    assert [item for item in objects(json.loads(done.stdout)) if "code" in item] == []


def test_check_judges_by_the_profile(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", TWO_USERS)
    assert run("check", file).returncode == 1
    assert run("check", file, "--profile", "portable").returncode == 1
    assert run("check", file, "--profile", "openai").returncode == 0


def test_check_shows_warnings_only_when_asked_and_never_exits_1_for_them(tmp_path: Path) -> None:
    """Ollama leaves out what does not fit and says nothing: no request is refused for it."""
    file = write(tmp_path / "a.json", LEGAL)
    quiet, loud = run("check", file, "--profile", "ollama"), run("check", file, "--profile", "ollama", "--warnings")
    assert (quiet.returncode, loud.returncode) == (0, 0)
    assert "SIZE005" not in quiet.stdout
    assert "SIZE005" in loud.stdout


# -- govern ------------------------------------------------------------------------------------------------------------


def test_govern_writes_the_list_to_stdout_and_the_report_to_stderr(tmp_path: Path) -> None:
    done = run("govern", write(tmp_path / "a.json", BROKEN))
    assert done.returncode == 0
    assert same(done.stdout, LEGAL)
    assert "PAIR001" in done.stderr


def test_govern_keeps_the_other_fields_of_a_body(tmp_path: Path) -> None:
    done = run("govern", write(tmp_path / "a.json", {"model": "m", "messages": BROKEN, "seed": 7}))
    assert done.returncode == 0
    assert same(done.stdout, {"model": "m", "messages": LEGAL, "seed": 7})


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(LEGAL),
        json.dumps({"messages": LEGAL, "seed": 12345678901234567890123, "temperature": 1.0, "top_p": 0.1}),
        '[ {"content" : "na\\u00efve \\ud83d\\ude42","role":"user", "x": 1.50e2, "y": -0}\n]',
        json.dumps({"max_tokens": 5, "messages": [QUESTION], "system": "s", "metadata": {"z": 1, "a": [None, True]}}),
    ],
)
def test_govern_leaves_an_accepted_input_byte_for_byte(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text, encoding="utf-8")
    done = run("govern", file)
    assert done.returncode == 0
    assert done.stdout.removesuffix("\n") == text
    assert run("govern", "-", stdin=text).stdout.removesuffix("\n") == text


def test_govern_keeps_jsonl_jsonl_and_every_envelope(tmp_path: Path) -> None:
    lines = [
        BROKEN,
        {"id": 1, "messages": BROKEN, "note": "n"},
        {"id": 2, "request": {"model": "m", "messages": BROKEN}, "reply": {"role": "assistant", "content": "x"}},
        {"id": 3, "request": BROKEN},
    ]
    wanted = [
        LEGAL,
        {"id": 1, "messages": LEGAL, "note": "n"},
        {"id": 2, "request": {"model": "m", "messages": LEGAL}, "reply": {"role": "assistant", "content": "x"}},
        {"id": 3, "request": LEGAL},
    ]
    file = write(tmp_path / "a.jsonl", *lines)
    for done in (run("govern", file), run("govern", "-", stdin=file.read_text(encoding="utf-8"))):
        assert done.returncode == 0
        assert done.stdout.endswith("\n")
        assert all(same(line, value) for line, value in zip(done.stdout.splitlines(), wanted, strict=True))


def test_govern_keeps_jsonl_of_one_conversation_one_line(tmp_path: Path) -> None:
    done = run("govern", write(tmp_path / "a.jsonl", BROKEN))
    assert done.stdout.count("\n") == 1
    assert same(done.stdout, LEGAL)


def test_govern_writes_nothing_if_one_line_cannot_be_governed(tmp_path: Path) -> None:
    file, out = write(tmp_path / "a.jsonl", LEGAL, [], BROKEN), tmp_path / "out.jsonl"
    done = run("govern", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a.jsonl:2" in done.stderr
    assert run("govern", file, "-o", out).returncode == 2
    assert not out.exists()


def test_govern_writes_to_the_named_file(tmp_path: Path) -> None:
    file, out = write(tmp_path / "a.json", BROKEN), tmp_path / "out.json"
    done = run("govern", file, "-o", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert same(out.read_text(encoding="utf-8"), LEGAL)
    assert "PAIR001" in done.stderr
    assert json.loads(file.read_text(encoding="utf-8")) == BROKEN
    assert sorted(os.listdir(tmp_path)) == ["a.json", "out.json"]


def test_govern_can_write_over_its_own_input(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", BROKEN)
    assert run("govern", file, "-o", file).returncode == 0
    assert same(file.read_text(encoding="utf-8"), LEGAL)


def test_govern_leaves_an_existing_output_intact_when_it_fails(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("precious", encoding="utf-8")
    assert run("govern", write(tmp_path / "a.json", []), "-o", out).returncode == 2
    assert out.read_text(encoding="utf-8") == "precious"
    assert sorted(os.listdir(tmp_path)) == ["a.json", "out.json"]


def test_govern_writes_into_a_pipe_or_device_and_does_not_replace_it(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    assert run("govern", write(tmp_path / "a.json", BROKEN), "-o", pipe).returncode == 0
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(timeout=PATIENCE)
    assert same(read[0], LEGAL)


def test_govern_judges_by_the_profile(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", TWO_USERS)
    merged = [{"role": "user", "content": f"{QUESTION['content']}\n\nWell?"}]
    assert same(run("govern", file).stdout, merged)
    assert same(run("govern", file, "--profile", "openai").stdout, TWO_USERS)


def test_govern_fits_the_window_less_the_output(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", LOOP)
    wide = run("govern", file, "--window", "8000", "--max-output", "500")
    narrow = run("govern", file, "--window", "2800", "--max-output", "500")
    assert (wide.returncode, narrow.returncode) == (0, 0)
    assert same(wide.stdout, LOOP)
    kept = json.loads(narrow.stdout)
    assert kept[0] == QUESTION
    assert kept[-2:] == LOOP[-2:]
    assert len(kept) < len(LOOP)


def test_govern_refuses_a_window_that_holds_no_more_than_the_reserves(tmp_path: Path) -> None:
    done = run("govern", write(tmp_path / "a.json", LEGAL), "--window", "1000", "--max-output", "500")
    assert (done.returncode, done.stdout) == (2, "")
    assert "window" in done.stderr


def test_govern_refuses_what_cannot_fit_and_says_where_the_tokens_are(tmp_path: Path) -> None:
    huge = [{"role": "system", "content": " ".join(["word"] * 5000)}, QUESTION]
    done = run("govern", write(tmp_path / "a.json", huge), "--window", "3000", "--max-output", "500")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a.json" in done.stderr
    assert "system 5,0" in done.stderr
    assert "budget is 1,476" in done.stderr


def test_govern_takes_a_policy_by_name_or_file(tmp_path: Path) -> None:
    file, policy = write(tmp_path / "a.json", LOOP), tmp_path / "policy.toml"
    policy.write_text("window = 2800\nmax_output = 500\n", encoding="utf-8")
    assert len(json.loads(run("govern", file, "--policy", policy).stdout)) < len(LOOP)
    named = run("govern", file, "--policy", "document", "--window", "2800", "--max-output", "500")
    assert named.returncode == 0
    assert len(json.loads(named.stdout)) < len(LOOP)
    policy.write_text("window = 2800\nmax_output = 500\n[fold]\ntarget = 0.4\n", encoding="utf-8")
    folded = run("govern", file, "--policy", policy)
    assert "cache: folded" in folded.stderr
    policy.write_text("window = 2800\n[fold]\ntaget = 0.4\n", encoding="utf-8")
    misspelt = run("govern", file, "--policy", policy)
    assert (misspelt.returncode, misspelt.stdout) == (2, "")
    assert "taget" in misspelt.stderr
    unknown = run("govern", file, "--policy", "no-such-policy")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no-such-policy" in unknown.stderr


def test_govern_reports_as_json_on_stderr(tmp_path: Path) -> None:
    done = run("govern", "--json", write(tmp_path / "a.json", BROKEN), "--window", "8000", "--max-output", "500")
    assert same(done.stdout, LEGAL)
    report = json.loads(done.stderr)
    (change,) = [item for item in objects(report) if item.get("code") == "PAIR001"]
    assert change["at"] == 2
    (account,) = [item for item in objects(report) if "tokens_in" in item]
    assert account["tokens_in"] + change["tokens"] == account["tokens_out"] <= account["budget"] == 6476


def test_govern_shows_a_diff(tmp_path: Path) -> None:
    done = run("govern", "--diff", write(tmp_path / "a.json", BROKEN), "-o", tmp_path / "out.json")
    assert done.returncode == 0
    shown = (done.stdout + done.stderr).splitlines()
    assert any(line.lstrip().startswith("-") and "the lost result" in line for line in shown)
    assert not any(line.lstrip().startswith("+") for line in shown)


# -- rule and profiles -------------------------------------------------------------------------------------------------


def test_rule_prints_the_page_of_a_code() -> None:
    done = run("rule", "PAIR001")
    assert done.returncode == 0
    assert done.stdout.strip() == (PAGES / "PAIR001.md").read_text(encoding="utf-8").strip()


def test_rule_lists_every_code_that_has_a_page() -> None:
    done = run("rule")
    assert done.returncode == 0
    codes = {page.stem for page in PAGES.glob("*.md") if page.stem[-3:].isdigit()}
    assert codes
    assert codes <= set(done.stdout.split())


def test_rule_of_an_unknown_code_exits_2_with_the_known_ones() -> None:
    done = run("rule", "PAIR999")
    assert (done.returncode, done.stdout) == (2, "")
    assert "PAIR999" in done.stderr
    assert "PAIR001" in done.stderr


def test_profiles_lists_them_and_shows_one() -> None:
    done = run("profiles")
    assert done.returncode == 0
    assert {"portable", "openai", "mistral", "glm"} <= set(done.stdout.split())
    one = run("profiles", "portable")
    assert one.returncode == 0
    assert "alternates" in one.stdout


@pytest.mark.parametrize("arguments", [("profiles", "nobody"), ("check", "-", "--profile", "nobody")])
def test_an_unknown_profile_exits_2_with_the_known_ones(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, stdin="[]")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nobody" in done.stderr
    assert "portable" in done.stderr


# -- usage -------------------------------------------------------------------------------------------------------------


def test_help_lists_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert set(COMMANDS) <= set(done.stdout.replace(",", " ").split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"legato {command}" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("check",),
        ("govern",),
        ("check", "-", "--frobnicate"),
        ("govern", "-", "--window", "many"),
        ("govern", "-", "--window", "-5"),
        ("govern", "-", "-o"),
    ],
)
def test_wrong_usage_exits_2_and_says_so_on_stderr(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, stdin=json.dumps(LEGAL))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()


def test_to_moves_a_conversation_to_another_wire_format(tmp_path: Path) -> None:
    call = {"id": "c.1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c.1", "content": "done"},
    ]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(history), encoding="utf-8")
    moved = run("govern", file, "--to", "anthropic", "--profile", "anthropic")
    assert moved.returncode == 0, moved.stderr
    sent = json.loads(moved.stdout)
    assert [block["type"] for block in sent[1]["content"]] == ["tool_use"]
    assert [block["type"] for block in sent[2]["content"]] == ["tool_result"]
    assert "moved from openai-chat to anthropic" in moved.stderr
    unknown = run("govern", file, "--to", "telegraph")
    assert unknown.returncode == 2
    assert "anthropic" in unknown.stderr
    mismatch = run("govern", file, "--profile", "anthropic")
    assert mismatch.returncode == 2
    assert "looks like openai-chat" in mismatch.stderr
