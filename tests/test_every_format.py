"""The promises of the specification (section 3) over every wire format and every profile.

A damaged chat history is written in the format of a profile, in one of the ways agents write it; then the same is
asked as in `test_promises.py`. Legality is judged by legato's own checker and by the profile's walker in `providers`.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

import legato
from accidents import BACKFILL, History, Wire
from histories import COMPACTABLE, TOOLS, clean_histories, histories
from legato import profiles
from legato.policy import PRESETS as POLICIES
from providers import WALKERS, Walker
from recorded import jsonl
from test_linear import ROOM, SHAPES, SIZE, Shape, Work
from test_promises import AMPLE, budgets
from texts import dump, nothing_to_send, said, strings, without_notes
from walkers import anthropic, bedrock, gemini, responses
from written import FIELDS, KEYS, LIMITS, Place, Style, Written, fields_of, system_field, write

BLOCKS = tuple(name for name in WALKERS if profiles.get(name).format != "openai-chat")
"""The profiles whose format is not that of the histories."""


@dataclass(frozen=True)
class Case:
    """One history, the profile it is for, how it is written and governed. `budget` None: no window.

    `body`: it comes as a whole body, its leading system text in the body's field if there is one.
    """

    messages: History
    profile: str
    style: Style
    policy: str
    budget: int | None
    tools: bool
    body: bool
    thinks: bool

    @cached_property
    def form(self) -> str:
        return profiles.get(self.profile).format

    @cached_property
    def fielded(self) -> int:
        """How many leading messages stand in the system field."""
        roles = [message["role"] in ("system", "developer") for message in self.messages]
        leading = roles.index(False) if False in roles else len(roles)
        return leading if self.body and self.form in FIELDS else 0

    @cached_property
    def written(self) -> Written:
        return write(self.messages[self.fielded :], self.form, self.style)

    @cached_property
    def payload(self) -> Any:
        if not self.body:
            return self.written.items
        text = "\n\n".join(text for message in self.messages[: self.fielded] for text in said(message))
        return {
            **(system_field(text, self.form) if text else {}),
            **(fields_of(TOOLS, self.form) if self.tools else {}),
            **LIMITS[self.form],
            **({"thinking": {"type": "enabled", "budget_tokens": 1024}} if self.thinks_on else {}),
            KEYS[self.form]: self.written.items,
        }

    @property
    def thinks_on(self) -> bool:
        return self.thinks and self.body and self.form == "anthropic"

    @cached_property
    def offered(self) -> Any:
        """The tools of a bare list. Those of Bedrock have an object around them, of which `tools=` takes the list."""
        fields = fields_of(TOOLS, self.form) if self.tools else {}
        return fields.get("tools", fields.get("toolConfig", {}).get("tools"))

    def govern(self, payload: Any = None) -> legato.Governed:
        policy = POLICIES[self.policy]()
        if self.budget is not None:
            policy = structs.replace(policy, window=self.budget + 12, max_output=8, reserve=4)
        given = self.payload if payload is None else payload
        tools = None if isinstance(given, dict) else self.offered
        return legato.govern(given, profile=self.profile, policy=policy, tools=tools)

    def attempt(self) -> legato.Governed | legato.OverBudget | legato.Unrepairable:
        """The result, or the refusal."""
        try:
            return self.govern()
        except (legato.OverBudget, legato.Unrepairable) as error:
            return error

    def governed(self) -> legato.Governed | None:
        """None where it is refused; whether rightly is a promise of its own."""
        outcome = self.attempt()
        return outcome if isinstance(outcome, legato.Governed) else None

    def errors(self, payload: Any) -> list[str]:
        tools = None if isinstance(payload, dict) else self.offered
        found = legato.check(payload, profile=self.profile, tools=tools)
        return [str(violation) for violation in found if violation.severity == "error"]

    def whole(self, payload: Any) -> Wire:
        """As a body, for the walker. What came as a bare list cannot say that there are no tools."""
        fields = {} if self.body else fields_of(TOOLS, self.form)
        return {**fields, **(payload if isinstance(payload, dict) else {KEYS[self.form]: payload})}


styles = st.builds(Style, *[st.booleans()] * 6)
names = st.one_of(st.sampled_from(BLOCKS), st.sampled_from(tuple(WALKERS)))


def cases(messages: st.SearchStrategy[History] | None = None, **fixed: Any) -> st.SearchStrategy[Case]:
    drawn: dict[str, Any] = {
        "messages": histories() if messages is None else messages,
        "profile": names,
        "style": styles,
        "policy": st.sampled_from(tuple(POLICIES)),
        "budget": budgets,
        "tools": st.booleans(),
        "body": st.booleans(),
        "thinks": st.booleans(),
    }
    return st.builds(Case, **{**drawn, **fixed})


# -- 1. Legal ----------------------------------------------------------------------------------------------------------


def test_every_profile_has_a_walker() -> None:
    assert set(profiles.NAMES) <= set(WALKERS)


@given(cases())
def test_the_walker_of_the_provider_finds_nothing_in_what_is_sent(case: Case) -> None:
    if governed := case.governed():
        assert WALKERS[case.profile](case.whole(governed.body)) == []


@given(cases())
def test_the_checker_finds_no_error_in_what_is_sent(case: Case) -> None:
    if governed := case.governed():
        assert case.errors(governed.body) == []


@given(cases())
def test_only_a_history_with_nothing_to_send_is_unrepairable(case: Case) -> None:
    error = case.attempt()
    if isinstance(error, legato.Unrepairable):
        assert error.violations
        assert nothing_to_send(case.messages[case.fielded :])


@given(cases())
def test_the_checker_finds_an_error_wherever_the_walker_does(case: Case) -> None:
    payload = _noteless(case.payload, KEYS[case.form])
    if found := WALKERS[case.profile](case.whole(payload)):
        assert case.errors(payload), found


def _noteless(payload: Any, key: str) -> Any:
    if isinstance(payload, dict):
        return {**payload, key: _noteless(payload[key], key)}
    return [without_notes(item) for item in payload]


MEDIA = ("image", "document", "video")
LOOSE: dict[str, Walker] = {
    "anthropic-messages": partial(anthropic, prefill=True, system_turns=True),
    "bedrock-converse": partial(bedrock, alternates=False, user_first=False, shown=MEDIA),
    "gemini": partial(gemini, signed=False),
    "openai-responses": responses,
}
"""The walkers without what only some models refuse."""


@pytest.mark.parametrize("api", LOOSE)
def test_a_walker_finds_nothing_in_a_request_that_was_accepted(api: str) -> None:
    for row in jsonl(f"provider-requests/{api}.jsonl"):
        body = row["request"]
        is_list = all(isinstance(body.get(key, []), list) for key in KEYS.values())
        continues = body.get("previous_response_id") or body.get("conversation") or "conversation_id" in row["id"]
        if row["status"] == 200 and is_list and not continues and not row["model"].startswith("deepseek"):
            assert LOOSE[api](body) == [], row["id"]


# -- 2. Fits -----------------------------------------------------------------------------------------------------------


@given(cases())
def test_what_is_sent_fits_or_the_error_names_a_need_above_the_budget(case: Case) -> None:
    outcome = case.attempt()
    if isinstance(outcome, legato.OverBudget):
        assert case.budget != AMPLE
        assert outcome.budget < outcome.needed
    elif isinstance(outcome, legato.Governed):
        assert case.budget in (None, outcome.report.budget)
        assert outcome.report.budget is None or outcome.report.tokens_out <= outcome.report.budget


@given(cases())
def test_the_count_of_what_is_sent_is_that_of_counting_it_afresh(case: Case) -> None:
    if governed := case.governed():
        assert case.govern(copy.deepcopy(governed.body)).report.tokens_in == governed.report.tokens_out


# -- 3. Untouched input ------------------------------------------------------------------------------------------------


@given(cases())
def test_the_input_is_never_changed_and_what_no_change_made_is_the_object_that_came_in(case: Case) -> None:
    before = json.dumps(case.payload)
    governed = case.governed()
    rows = contents(governed) if governed else []
    assert json.dumps(case.payload) == before
    if governed:
        kept = {id(item) for item in case.written.items if item == without_notes(item)}
        made = Counter(dump(without_notes(item)) for change in rows for item in change["after"])
        noted = Counter(dump(without_notes(item)) for item in case.written.items if id(item) not in kept)
        new = Counter(dump(item) for item in governed.messages if id(item) not in kept)
        assert new - made - noted == Counter()


CLEAN = Style()
TEMPLATES = ("strict-template", "perplexity", "kimi", "xai", "qwen", "llama.cpp")
"""They refuse what the clean histories hold: parallel calls, null beside calls, parts."""


CLEAN_CASE = {"style": st.just(CLEAN), "tools": st.just(True), "body": st.just(True), "thinks": st.just(False)}


@given(cases(clean_histories(), **CLEAN_CASE, budget=st.just(AMPLE)))
def test_a_clean_history_with_room_comes_back_as_the_same_object(case: Case) -> None:
    assume(case.profile not in TEMPLATES)
    assume(not (case.profile.startswith("deepseek") and case.form == "openai-chat"))
    assume(sum(_compactable(case.messages)) <= 10)
    takes_system = legato.profiles.get(case.profile).system != "none"
    assume(takes_system or not any(message["role"] == "system" for message in case.messages))
    governed = case.govern()
    assert governed.body is case.payload, str(governed.report)
    assert list(governed.report.changes) == []


def _compactable(messages: History) -> Iterator[bool]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            yield call["function"]["name"] in COMPACTABLE


@given(cases(budget=st.none(), policy=st.just("document")))
def test_what_the_checker_finds_nothing_in_comes_back_as_the_same_object(case: Case) -> None:
    payload = _noteless(case.payload, KEYS[case.form])
    if not case.errors(payload):
        assert legato.repair(payload, profile=case.profile, tools=_tools(case, payload)).body is payload


def _tools(case: Case, payload: Any) -> Any:
    return None if isinstance(payload, dict) else case.offered


# -- 4. Idempotent and deterministic -----------------------------------------------------------------------------------


@given(cases())
def test_governing_the_output_again_changes_nothing(case: Case) -> None:
    if governed := case.governed():
        again = case.govern(governed.body)
        assert again.body is governed.body, str(again.report)


@given(cases())
def test_an_equal_history_gives_the_same_bytes(case: Case) -> None:
    if governed := case.governed():
        again = case.govern(copy.deepcopy(case.payload))
        assert json.dumps(again.body) == json.dumps(governed.body)
        assert json.dumps(again.report.to_dict(contents=True)) == json.dumps(governed.report.to_dict(contents=True))


# -- 5. Nothing lost in silence ----------------------------------------------------------------------------------------


STRUCTURE = {
    *("type", "role", "id", "name", "tool_call_id", "tool_use_id", "toolUseId", "call_id", "detail", "format"),
    *("signature", "thoughtSignature", "encrypted_content", "media_type", "mimeType"),
}
"""Fields whose texts nobody said."""


def contents(governed: legato.Governed) -> list[dict[str, Any]]:
    """The changes with the items they took away (`before`) and put in their place (`after`)."""
    changes: list[dict[str, Any]] = governed.report.to_dict(contents=True)["changes"]
    return changes


def leaves(value: Any) -> Iterator[str]:
    """Every text that a model or a person wrote into an item."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in STRUCTURE and not key.startswith("_"):
                yield from leaves(inner)


def pool(value: Any) -> list[str]:
    """All texts in which a leaf may have survived, those inside arguments' JSON too."""
    found = list(strings(value))
    for text in list(found):
        if text.startswith("{"):
            found += strings(_parsed(text))
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@given(cases())
def test_every_text_is_in_the_output_or_under_the_change_that_removed_it(case: Case) -> None:
    if governed := case.governed():
        sent = pool(governed.body)
        changes = contents(governed)
        for at, item in enumerate(case.written.items):
            removed = pool([old for change in changes if change["at"] == at for old in change["before"]])
            for leaf in filter(None, leaves(item)):
                assert any(leaf in text for text in sent) or any(leaf in text for text in removed), (at, leaf[:60])


@given(cases())
def test_nothing_is_said_more_often_than_before(case: Case) -> None:
    if governed := case.governed():
        before, after = (list(strings(value)) for value in (case.payload, governed.body))
        for text in {text for message in case.messages for text in said(message)} - {BACKFILL}:
            times = [sum(other.count(text) for other in found) for found in (before, after)]
            assert times[1] <= times[0], text[:60]


@given(cases())
def test_the_changes_account_for_every_item(case: Case) -> None:
    """In, minus what the changes took away, plus what they put there, is out: item by item."""
    if governed := case.governed():
        expected = Counter(dump(without_notes(item)) for item in case.written.items)
        for change in contents(governed):
            expected.subtract(dump(without_notes(item)) for item in change["before"])
            expected.update(dump(without_notes(item)) for item in change["after"])
        assert {item: n for item, n in expected.items() if n} == Counter(map(dump, governed.messages))


@given(cases())
def test_the_account_of_tokens_balances_and_every_change_has_a_place(case: Case) -> None:
    if governed := case.governed():
        report = governed.report
        assert report.tokens_in + sum(change.tokens for change in report.changes) == report.tokens_out
        for change in report.changes:
            assert change.code
            assert change.reason
            assert change.at is None or 0 <= change.at < len(case.written.items)
        assert str(report)
        assert json.loads(json.dumps(report.to_dict()))


# -- 6. The task survives ----------------------------------------------------------------------------------------------


@given(cases())
def test_every_system_text_survives_in_a_message_or_in_its_field(case: Case) -> None:
    if governed := case.governed():
        sent = pool(governed.body)
        for message in case.messages:
            if message["role"] in ("system", "developer"):
                assert [text for text in said(message) if not any(text in other for other in sent)] == []


@given(st.sampled_from(tuple(WALKERS)), st.permutations(("developer", "developer", "system", "system")))
def test_two_opening_messages_are_both_said_once(profile: str, roles: list[str]) -> None:
    opening = [{"role": role, "content": f"#{number} opening"} for number, role in enumerate(roles[:2])]
    items = write([*opening, {"role": "user", "content": "#2"}], profiles.get(profile).format, CLEAN).items
    sent = dump(legato.govern(items, profile=profile).body)
    assert [sent.count(text) for text in ("#0 opening", "#1 opening")] == [1, 1]


@given(cases())
def test_the_newest_user_text_survives_whole_or_head_and_tail_where_the_report_says_it_was_cut(case: Case) -> None:
    governed = case.governed()
    users = [at for at, message in enumerate(case.messages) if message["role"] == "user" and said(message)]
    if governed is None or not users:
        return
    sent = pool(governed.body)
    places = [[at for at, _ in places] for places in case.written.places]
    own = next(at for at, found in enumerate(places) if users[-1] - case.fielded in found)
    for text in said(case.messages[users[-1]]):
        if not any(text in other for other in sent):
            assert [c for c in governed.report.changes if c.code.startswith("SIZE") and c.at == own], text[:60]
            assert any(text[:4] in other and text[-4:] in other for other in sent)


# -- 8. Linear ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["anthropic", "gemini", "openai-responses"])
@pytest.mark.parametrize("share", [None, 0.1], ids=["no window", "ten times too long"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_twice_the_history_is_twice_the_work(shape: Shape, share: float | None, profile: str) -> None:
    once, twice = (_work(shape(size), share, profile) for size in (SIZE, 2 * SIZE))
    assert twice.characters <= ROOM * once.characters
    assert twice.counts <= ROOM * once.counts
    assert twice.lines <= ROOM * once.lines


def _work(messages: History, share: float | None, profile: str) -> Work:
    items = write(messages, profiles.get(profile).format, Style(together=False)).items
    size = sum(len(str(message)) for message in messages) // 4
    return Work(items, profile, None if share is None else int(share * size))


# -- one judgement in every format -------------------------------------------------------------------------------------

SAME = ("PAIR001", "PAIR002", "PAIR004", "PAIR005")
ADJACENT = "PAIR003"
"""Only where results have to stand directly after their call."""
OTHERS = ("anthropic", "bedrock", "gemini", "openai-responses")


@given(histories())
def test_the_same_damage_gets_the_same_verdicts_on_pairs_in_every_format(messages: History) -> None:
    plain = verdicts(messages, "portable")
    for name in OTHERS:
        if name != "gemini" or not _lacks_arguments(messages):
            found = verdicts(messages, name)
            codes = SAME if name == "openai-responses" else (*SAME, ADJACENT)
            assert found == Counter({key: n for key, n in plain.items() if key[0] in codes}), name


def _lacks_arguments(messages: History) -> bool:
    """In Gemini a call without arguments is a whole call of a tool that takes none."""
    calls = [call["function"] for message in messages for call in message.get("tool_calls") or ()]
    return any(call.get("arguments") is None for call in calls)


def verdicts(messages: History, profile: str) -> Counter[tuple[str, Place]]:
    """The codes of the faults in pairs, each with the message and call of the chat history it is about."""
    form = profiles.get(profile).format
    written = write(messages, form, CLEAN)
    codes = SAME if form == "openai-responses" else (*SAME, ADJACENT)
    found = [fault for fault in legato.check(written.items, profile=profile) if fault.code in codes]
    return Counter((fault.code, _place(fault.place, written, form)) for fault in found)


def _place(path: str, written: Written, form: str) -> Place:
    """What the path of a fault names: an item, and a block or a call in it."""
    parts = re.fullmatch(rf"{KEYS[form]}\[(\d+)\](?:\.(tool_calls|content|parts)\[(\d+)\])?", path)
    assert parts is not None, path
    at, number = int(parts[1]), int(parts[3] or 0)
    if form == "openai-chat":
        return at, number if parts[2] else None
    assert parts[2] == ({"gemini": "parts", "openai-responses": None}.get(form, "content")), path
    return written.places[at][number]


@given(cases(st.just([{"role": "user", "content": "#1"}]), style=st.just(CLEAN), budget=st.none()))
def test_one_question_is_legal_everywhere(case: Case) -> None:
    assert WALKERS[case.profile](case.whole(case.payload)) == []
    assert case.govern().body is case.payload
