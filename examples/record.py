"""Makes `coding-session.json`: an agent session whose steps are written down and whose tool results are real.

    python examples/record.py [STEPS] [OUT]

The steps file says what the user and the agent say and which tools the agent calls; this script carries the calls out
on a copy of this repository and writes the conversation as an OpenAI Chat request. In a steps file a line
`## user` or `## agent` starts a message, and in an agent's message every line that starts with `> ` is a call:
the tool and its arguments in order, for `exec` a command that goes on in the lines indented below it.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
STEPS = ROOT / "examples" / "coding-session.steps"
OUT = ROOT / "examples" / "coding-session.json"
SKIPPED = (".venv", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", OUT.name)

LONGEST = 16_000
"""Characters of a result; a longer one is cut in the middle."""
MOST_LINES = 400
MOST_HITS = 150
SECONDS = 120

SYSTEM = """\
You are a coding agent. You work in the repository that is your current directory, with the tools you are given and \
nothing else. Look before you conclude: read the code, run it, measure it. Say in a sentence what you do next and why, \
call several tools at once where the calls do not depend on each other, and keep what you tell the user short. Change \
no file you were not asked to change."""


class Workspace:
    """A folder the tools work in. Each method is a tool."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root.parent / "home"
        self.home.mkdir()
        self._paths = [(str(self.home), "/home/agent"), (str(root), "/repo"), (sys.prefix, "/repo/.venv")]
        self._paths += [(str(ROOT), "/repo"), (sys.base_prefix, "/usr")]

    def read_file(self, path: str, first: str = "1", last: str = "") -> str:
        lines = (self.root / path).read_text(encoding="utf-8").splitlines()
        start, end = int(first), min(int(last or len(lines)), int(first) + MOST_LINES - 1)
        shown = [f"{number:>4}  {lines[number - 1]}" for number in range(start, min(end, len(lines)) + 1)]
        more = [f"({len(lines) - end} more lines)"] if end < len(lines) else []
        return "\n".join(shown + more)

    def grep(self, pattern: str, path: str = ".") -> str:
        found = re.compile(pattern)
        hits = [
            f"{file.relative_to(self.root)}:{number}: {line.strip()}"
            for file in self._files(path)
            for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
            if found.search(line)
        ]
        more = [f"({len(hits) - MOST_HITS} more matches)"] if len(hits) > MOST_HITS else []
        return "\n".join(hits[:MOST_HITS] + more) or "no matches"

    def find_files(self, pattern: str, path: str = ".") -> str:
        names = [str(file.relative_to(self.root)) for file in self._files(path)]
        return "\n".join(name for name in names if fnmatch.fnmatch(name.rpartition("/")[2], pattern)) or "no files"

    def list_dir(self, path: str = ".") -> str:
        entries = sorted((self.root / path).iterdir())
        return "\n".join(entry.name + ("/" if entry.is_dir() else f"  {entry.stat().st_size}") for entry in entries)

    def exec(self, command: str) -> str:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.root / "src"),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        started = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            printed, _ = started.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            printed, _ = started.communicate()
            return f"{printed.decode('utf-8', 'replace')}\n[stopped after {SECONDS} seconds]".lstrip("\n")
        output = printed.decode("utf-8", "replace").rstrip("\n")
        code = started.returncode
        return output if code == 0 else f"{output}\n[exit code {code}]".lstrip("\n")

    def run(self, tool: str, arguments: dict[str, str]) -> str:
        """The result of a call as the model sees it: bounded, and without this machine's paths."""
        text: str
        try:
            text = TOOLS[tool][0](self, **arguments)
        except (OSError, re.error, ValueError) as problem:
            text = f"Error: {problem}"
        for path, name in self._paths:
            text = text.replace(path, name)
        if len(text) > LONGEST:
            cut = len(text) - LONGEST
            text = f"{text[: LONGEST // 2]}\n[… {cut} characters left out …]\n{text[-LONGEST // 2 :]}"
        return text or "(no output)"

    def _files(self, path: str) -> Iterator[Path]:
        start = self.root / path
        for file in sorted(start.rglob("*")) if start.is_dir() else [start]:
            if file.is_file() and ".git" not in file.parts and file.suffix not in (".json", ".gz", ".steps"):
                yield file


TOOLS: dict[str, tuple[Callable[..., str], str, tuple[str, ...], int]] = {
    "read_file": (Workspace.read_file, "Read a text file, or some of its lines.", ("path", "first", "last"), 1),
    "grep": (Workspace.grep, "Search the files below a path for a regular expression.", ("pattern", "path"), 1),
    "find_files": (Workspace.find_files, "Find files by name, with wildcards.", ("pattern", "path"), 1),
    "list_dir": (Workspace.list_dir, "List a folder.", ("path",), 0),
    "exec": (Workspace.exec, "Run a shell command in the repository; what it prints comes back.", ("command",), 1),
}
"""What each tool does, its description, its parameters, and how many of them are required."""


def schema(tool: str) -> dict[str, Any]:
    """A tool's definition as the request declares it."""
    _, description, parameters, required = TOOLS[tool]
    properties = {name: {"type": "string"} for name in parameters}
    function = {
        "name": tool,
        "description": description,
        "parameters": {"type": "object", "properties": properties, "required": list(parameters[:required])},
    }
    return {"type": "function", "function": function}


def steps(text: str) -> Iterator[tuple[str, str, list[tuple[str, dict[str, str]]]]]:
    """The messages of a steps file: role, text, calls."""
    for block in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        role, _, body = block.partition("\n")
        said, *calls = re.split(r"^> ", body, flags=re.MULTILINE)
        yield role.strip(), said.strip(), [call(line) for line in calls]


def call(text: str) -> tuple[str, dict[str, str]]:
    """A call: the tool's name and its arguments by name."""
    tool, _, rest = text.rstrip().partition(" ")
    if tool == "exec":
        first, *more = rest.splitlines()
        values = ["\n".join([first, *[line.removeprefix("  ") for line in more]])]
    else:
        values = shlex.split(rest)
    return tool, dict(zip(TOOLS[tool][2], values, strict=False))


def conversation(text: str, workspace: Workspace) -> list[dict[str, Any]]:
    """The steps carried out one after the other, as messages."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for role, said, calls in steps(text):
        if role == "user":
            messages.append({"role": "user", "content": said})
            continue
        message: dict[str, Any] = {"role": "assistant", "content": said or None}
        messages.append(message)
        for tool, arguments in calls:
            call_id = "call_" + hashlib.sha256(str(len(messages)).encode()).hexdigest()[:24]
            function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
            message.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
            messages.append({"role": "tool", "tool_call_id": call_id, "content": workspace.run(tool, arguments)})
    return messages


def main(source: Path = STEPS, out: Path = OUT) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "repo"
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*SKIPPED))
        messages = conversation(source.read_text(encoding="utf-8"), Workspace(root))
    body = {"messages": messages, "tools": [schema(tool) for tool in TOOLS], "max_tokens": 4096}
    out.write_text(json.dumps(body, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{out.name}: {len(messages)} messages, {out.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
