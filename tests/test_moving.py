"""Moving a session: `govern(messages, format=A, profile=P, to=B)`.

A damaged chat history is written in the format A by the tests' own converter, governed into the format B for one of
B's profiles, and read again by the tests' own reader. What it says is what the history repaired in A says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from accidents import IMAGE, History, Wire
from gist import Gist, gist, plain
from histories import TOOLS, histories
from legato import profiles
from providers import WALKERS
from test_every_format import styles
from texts import dump, said, strings
from wire_items import every_pair
from written import FIELDS, KEYS, LIMITS, Style, fields_of, system_field, write

OWN = {
    "openai-chat": "portable",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "bedrock": "bedrock",
}
"""The profile by which a history is repaired in its own format."""
ROOM = legato.Policy(window=10_000_000, max_output=8, microcompact=None)
NINE = ("mistral", "strict-template")
"""The profiles that take ids of nine letters and digits only."""
PICTURE = "iVBORw0KGgo="


@dataclass(frozen=True)
class Move:
    """A history written in the format `source`, on its way to a profile of another format."""

    messages: History
    source: str
    profile: str
    style: Style
    body: bool

    @cached_property
    def to(self) -> str:
        return profiles.get(self.profile).format

    @cached_property
    def payload(self) -> Any:
        leading = [message["role"] in ("system", "developer") for message in self.messages]
        body = leading.index(False) if False in leading else len(leading)
        if not self.body or self.source not in FIELDS:
            body = 0
        items = write(self.messages[body:], self.source, self.style).items
        text = "\n\n".join(text for message in self.messages[:body] for text in said(message))
        if not self.body:
            return items
        field: Wire = system_field(text, self.source) if text else {}
        return {**field, **LIMITS[self.source], **fields_of(TOOLS, self.source), KEYS[self.source]: items}

    def governed(self) -> legato.Governed | None:
        """None where there is nothing to send."""
        try:
            return legato.govern(self.payload, format=self.source, profile=self.profile, to=self.to, policy=ROOM)
        except legato.Unrepairable:
            return None

    def repaired(self) -> legato.Governed | None:
        """The same in the format it is in; None where nothing of it is a message there."""
        try:
            return legato.repair(self.payload, format=self.source, profile=OWN[self.source])
        except legato.Unrepairable:
            return None

    def back(self, governed: legato.Governed) -> legato.Governed:
        return legato.govern(governed.body, format=self.to, profile=OWN[self.source], to=self.source, policy=ROOM)


def moves(messages: st.SearchStrategy[History] | None = None) -> st.SearchStrategy[Move]:
    drawn = st.builds(
        Move,
        messages=histories() if messages is None else messages,
        source=st.sampled_from(tuple(OWN)),
        profile=st.one_of(st.sampled_from(tuple(OWN.values())), st.sampled_from(tuple(WALKERS))),
        style=styles,
        body=st.booleans(),
    )
    return drawn.filter(lambda move: move.source != move.to)


def whole(payload: Any, move: Move) -> Wire:
    """As a body, for the walker. What came as a bare list cannot say that there are no tools."""
    fields = {} if move.body else fields_of(TOOLS, move.to)
    return {**fields, **(payload if isinstance(payload, dict) else {KEYS[move.to]: payload})}


# -- legal -------------------------------------------------------------------------------------------------------------


@given(moves())
def test_what_moved_is_legal_for_checker_and_walker(move: Move) -> None:
    if governed := move.governed():
        assert WALKERS[move.profile](whole(governed.body, move)) == []
        found = legato.check(governed.body, profile=move.profile, format=move.to)
        assert [str(violation) for violation in found if violation.severity == "error"] == []


@given(moves())
def test_governing_what_moved_where_it_is_now_changes_nothing(move: Move) -> None:
    if governed := move.governed():
        again = legato.govern(governed.body, profile=move.profile, format=move.to, policy=ROOM)
        assert again.body is governed.body, str(again.report)


@given(moves())
def test_a_list_stays_a_list_unless_text_needs_a_field_and_a_body_stays_a_body(move: Move) -> None:
    if governed := move.governed():
        fielded = isinstance(governed.body, dict) and FIELDS.get(move.to) in governed.body
        assert isinstance(governed.body, dict) == (move.body or fielded)
        assert governed.messages == (governed.body[KEYS[move.to]] if isinstance(governed.body, dict) else governed.body)


# -- the same is said --------------------------------------------------------------------------------------------------


REMINDER = re.compile(r"<system-reminder>\n(.*?)\n</system-reminder>", re.DOTALL)
"""System text that stands inside a user message; of that only `test_system_text_arrives` asks."""


def lines(texts: list[str]) -> list[str]:
    """The lines that say something. A speaker's name in front is taken off."""
    said = REMINDER.sub("", "\n".join(texts)).splitlines()
    return [line.removeprefix("alice: ").strip() for line in said if line.strip()]


def assert_says(new: Gist, old: Gist, move: Move, *governed: legato.Governed) -> None:
    """The calls with names, arguments and results are the same; every line of the history is there, in order, unless it
    was removed from the end because its provider takes no assistant message there."""
    assert [plain(call.name)[:40] for call in new.calls] == [plain(call.name)[:40] for call in old.calls]
    assert [call.arguments for call in new.calls] == [call.arguments for call in old.calls]
    for now, before in zip(new.calls, old.calls, strict=True):
        assert now.result is not None
        assert (before.result or "") in now.result
    trailing = [change for each in governed for change in each.report.changes if change.code == "ROLE004"]
    gone = set(lines([text for change in trailing for text in change.removed]))
    own = set(lines([text for message in move.messages for text in said(message)])) - gone
    there = iter(lines(new.texts))
    for line in lines(old.texts):
        assert line not in own or line in there, line


@given(moves())
def test_what_moved_says_what_the_history_repaired_where_it_was_says(move: Move) -> None:
    governed, repaired = move.governed(), move.repaired()
    if governed and repaired:
        assert_says(gist(governed.body, move.to), gist(repaired.body, move.source), move, governed)


@given(moves())
def test_what_came_back_still_says_it(move: Move) -> None:
    governed, repaired = move.governed(), move.repaired()
    if governed and repaired:
        back = move.back(governed)
        assert_says(gist(back.body, move.source), gist(repaired.body, move.source), move, governed, back)


@given(moves())
def test_system_text_arrives(move: Move) -> None:
    if governed := move.governed():
        sent = list(strings(governed.body))
        for message in move.messages:
            if message["role"] in ("system", "developer"):
                assert [text for text in said(message) if not any(text in other for other in sent)] == []


@given(moves())
def test_tools_arrive_with_their_schemas_in_a_body(move: Move) -> None:
    governed = move.governed()
    if governed and move.body:
        plain_tools: list[Wire] = fields_of(TOOLS, "gemini")["tools"][0]["functionDeclarations"]
        assert tools(governed.body) == {tool["name"]: (tool["description"], tool["parameters"]) for tool in plain_tools}


def tools(body: Any) -> dict[str, tuple[str, Any]]:
    """The tools that a body of any format offers: name, description and schema."""
    found = body.get("tools") or body["toolConfig"]["tools"]
    found = [inner for item in found for inner in item.get("functionDeclarations", [item])]
    found = [item.get("function", item.get("toolSpec", item)) for item in found]
    keys = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
    schemas = [next(item[key] for key in keys if key in item) for item in found]
    schemas = [schema.get("json", schema) for schema in schemas]
    return {item["name"]: (item["description"], schema) for item, schema in zip(found, schemas, strict=True)}


# -- ids ---------------------------------------------------------------------------------------------------------------


@given(moves())
def test_ids_lead_back_to_those_the_history_had(move: Move) -> None:
    governed, repaired = move.governed(), move.repaired()
    if governed and repaired:
        new, old = gist(governed.body, move.to), gist(repaired.body, move.source)
        had = set(strings(move.payload))
        for now, before in zip(new.calls, old.calls, strict=True):
            original = repaired.ids.get(before.id, before.id)
            if original and original in had:
                assert governed.ids.get(now.id, now.id) == original


@given(moves())
def test_ids_are_those_the_provider_takes(move: Move) -> None:
    governed = move.governed()
    if governed and move.profile in NINE:
        for call in gist(governed.body, move.to).calls:
            assert re.fullmatch("[a-zA-Z0-9]{9}", call.id)


# -- media -------------------------------------------------------------------------------------------------------------


@every_pair
def test_a_picture_that_a_user_shows_is_seen_in_every_format(old: str, new: str) -> None:
    messages: History = [{"role": "user", "content": [{"type": "text", "text": "#1 look"}, IMAGE]}]
    items = write(messages, old, Style()).items
    moved = legato.govern(items, format=old, profile=OWN[new], to=new)
    assert moved.messages == write(messages, new, Style()).items
    assert PICTURE in dump(moved.messages)


@pytest.mark.parametrize("form", OWN)
def test_the_reader_reads_what_the_converter_wrote(form: str) -> None:
    call = {"id": "call00002", "type": "function", "function": {"name": "exec", "arguments": '{"path": "#3"}'}}
    history: History = [
        {"role": "user", "content": "#1"},
        {"role": "assistant", "content": "#2", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00002", "content": "#4"},
    ]
    found = gist(write(history, form, Style()).items, form)
    assert found.texts == ["#1", "#2"]
    assert [(c.id, c.name, c.arguments, c.result) for c in found.calls] == [("call00002", "exec", {"path": "#3"}, "#4")]
