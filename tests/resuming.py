"""Which lines of its session file an agent goes on from when it resumes: the rules of each agent's own loader.

What they do is in the docstrings of the readers, with the sources. None of them tells why it leaves a line out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class Refused(Exception):
    """The agent does not load the file, or takes it for an empty one."""


def _parsed(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    """The lines that are JSON objects, by their numbers: others are skipped."""
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append((number, value))
    return found


def _chain(at: Any, entries: dict[Any, dict[str, Any]], above: str) -> list[Any]:
    """The ids from a root down to this one."""
    walk: dict[Any, None] = {}
    while at in entries and at not in walk:
        walk[at] = None
        at = entries[at].get(above)
    return list(walk)[::-1]


def claude_code(data: bytes) -> set[int]:
    numbers = {value["uuid"]: number for number, value in _parsed(data) if value.get("uuid")}
    entries = {value["uuid"]: value for _, value in _parsed(data) if value.get("uuid")}
    parents = {value["parentUuid"] for value in entries.values()}
    leaves = [value for ident, value in entries.items() if ident not in parents]
    if not leaves:
        raise Refused("no leaf")
    chain = _chain(max(leaves, key=lambda value: str(value["timestamp"]))["uuid"], entries, "parentUuid")
    answers = {entries[each]["message"].get("id") for each in chain if entries[each]["type"] == "assistant"}
    parts = {
        each for each, value in entries.items() if value["type"] == "assistant" and value["message"]["id"] in answers
    }
    results = {
        each
        for each, value in entries.items()
        if value["parentUuid"] in parts and "tool_result" in json.dumps(value["message"]["content"])
    }
    return {numbers[each] for each in {*chain, *parts, *results} if entries[each]["type"] in ("user", "assistant")}


def codex(data: bytes) -> set[int]:
    data.decode()  # the whole file is read as text
    lines = _parsed(data)
    if not any(value["type"] == "session_meta" for _, value in lines):
        raise Refused("no session_meta")
    return {number for number, value in lines if value["type"] == "response_item"}


def pi(data: bytes) -> set[int]:
    lines = _parsed(data)
    if not lines or lines[0][1].get("type") != "session":
        raise Refused("written over")
    numbers = {value["id"]: number for number, value in lines[1:]}
    entries = {value["id"]: value for _, value in lines[1:]}
    chain = _chain(lines[-1][1]["id"], entries, "parentId")
    return {numbers[each] for each in chain if entries[each]["type"] == "message"}


def nanobot(data: bytes) -> set[int]:
    lines = [(number, json.loads(line)) for number, line in enumerate(data.decode().split("\n"), 1) if line.strip()]
    return {number for number, value in lines if value.get("_type") is None}


def gemini_cli(data: bytes) -> set[int]:
    lines = _parsed(data)
    if not any({"sessionId", "projectHash"} <= value.keys() for _, value in lines):
        raise Refused("no metadata")
    last = {value["id"]: number for number, value in lines if value.get("type") in ("user", "gemini")}
    return set(last.values())


RESUME: dict[str, Callable[[bytes], set[int]]] = {
    "claude-code": claude_code,
    "codex": codex,
    "pi": pi,
    "nanobot": nanobot,
    "gemini-cli": gemini_cli,
}
