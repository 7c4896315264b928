"""Every code has a page in `docs/rules/`, and what a page shows is what legato does.

The fenced JSON blocks of a page are run: `before` with the `after` that follows it, or `refused`. Their info strings
say how; `docs/rules/README.md` explains them. `python tests/test_rule_pages.py` writes the index in that file anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import legato
from legato import profiles, wire
from legato.fit.clear import Clearing
from legato.fit.fold import Fold
from legato.fit.microcompact import Microcompact
from legato.report import CODES
from legato.summary import Omitted, Summary

PAGES = Path(__file__).parents[1] / "docs" / "rules"
INDEX = PAGES / "README.md"

SECTIONS = ("What it finds", "Who refuses it", "The fix", "What the fix costs", "Before and after")
COSTS = ("Cache prefix", "Content", "Tokens")
GRADES = ("recorded", "source code", "documentation", "adapter", "public code", "not verified", "legato's choice")
SAFETIES = ("safe", "lossy", "manual")
BUDGETS = ("window", "max_output", "reserve")
STALE = ("keep", "min_chars")
SUMMARY = "summary"
"""The first and last message that a summary stands for."""
FOLD = ("newest", "target", "min_tokens")
"""Any of these, and the policy is the cache-friendly one."""
FLAGS = ("warning", "by-a-fix")
FACTS = {field.name for field in msgspec.structs.fields(profiles.Profile)} - {*BUDGETS, "name", "title", "format"}

FORMATS = {
    "openai-chat": "Chat",
    "openai-responses": "Responses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "bedrock": "Bedrock",
}
SCHEMA = {"type": "object", "properties": {}}


class Example(NamedTuple):
    """One `before` or `refused` block of a page, with the `after` that follows it, if any."""

    code: str
    line: int
    kind: str
    options: dict[str, str]
    text: str
    after: Any

    def __str__(self) -> str:
        return f"{self.code}:{self.line}"

    @property
    def payload(self) -> Any:
        return json.loads(self.text)

    @property
    def profile(self) -> str | profiles.Profile:
        """The named profile; with the facts that the info string sets, if it sets any."""
        named = self.options["profile"]
        facts = {key: json.loads(value) for key, value in self.options.items() if key in FACTS}
        facts = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
        return msgspec.structs.replace(profiles.get(named), **facts) if facts else named

    @property
    def format(self) -> str:
        return profiles.get(self.options["profile"]).format

    @property
    def policy(self) -> legato.Policy:
        numbers: dict[str, Any] = {key: int(self.options[key]) for key in (*BUDGETS, *STALE) if key in self.options}
        stale = {key: numbers.pop(key) for key in STALE if key in numbers}
        fold: dict[str, Any] = {key: json.loads(self.options[key]) for key in FOLD if key in self.options}
        if fold:
            clearing = Clearing(min_tokens=fold.pop("min_tokens", 100))
            return legato.Policy.cache_friendly(**numbers, fold=Fold(**fold, clearing=clearing))
        return legato.Policy(**numbers, microcompact=Microcompact(**stale))

    @property
    def fits(self) -> bool:
        """Whether it is about the budget, which only `govern` looks at."""
        return any(key in self.options for key in (*BUDGETS, *STALE, SUMMARY))

    def check(self, payload: Any) -> list[legato.Violation]:
        return legato.check(payload, self.profile, tools=self.tools(payload))

    def govern(self, payload: Any) -> legato.Governed:
        tools, summary = self.tools(payload), self.summary(payload)
        return legato.govern(payload, profile=self.profile, policy=self.policy, tools=tools, summary=summary)

    def summary(self, payload: Any) -> Summary | None:
        if SUMMARY not in self.options or payload == self.after:
            return None
        first, last = map(int, self.options[SUMMARY].split("-"))
        gone = Omitted(wire.read(payload, self.format), ((first, last),), "", 0)
        return gone.summary("They agreed on A.")

    def tools(self, payload: Any) -> list[Any] | None:
        """Definitions of the tools that the info string names, for a bare list; a body has its own."""
        if "tools" not in self.options or isinstance(payload, dict):
            return None
        return [defined(name, self.format) for name in self.options["tools"].split(",")]


def defined(name: str, form: str) -> Any:
    match form:
        case "anthropic":
            return {"name": name, "input_schema": SCHEMA}
        case "bedrock":
            return {"toolSpec": {"name": name, "inputSchema": {"json": SCHEMA}}}
        case "gemini":
            return {"functionDeclarations": [{"name": name}]}
        case "openai-responses":
            return {"type": "function", "name": name, "parameters": SCHEMA}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


@cache
def page(code: str) -> str:
    return (PAGES / f"{code}.md").read_text(encoding="utf-8")


@cache
def sections(code: str) -> dict[str, str]:
    """The text under each heading of a page, in the order of the page."""
    _, *parts = re.split(r"^## (.*)\n", page(code), flags=re.M)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def examples(code: str) -> Iterator[Example]:
    """The examples of a page. A block or an option that is not understood fails, so that none is passed over."""
    blocks = list(re.finditer(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", page(code), flags=re.M | re.S))
    for block, following in zip_longest(blocks, blocks[1:]):
        after = json.loads(following[3]) if following is not None and following[2] == "after" else None
        if block[2] != "after":
            yield example(code, block, after)


def example(code: str, block: re.Match[str], after: Any) -> Example:
    language, (kind, *words) = block[1], block[2].split(" ")
    options = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    line = block.string.count("\n", 0, block.start()) + 1
    unknown = set(options) - {"profile", "tools", *FLAGS, *BUDGETS, *STALE, *FOLD, *FACTS, SUMMARY}
    assert (language, kind) in (("json", "before"), ("json", "refused")), f"{code}:{line}: a {language} {kind} block"
    assert "profile" in options, f"{code}:{line}: under which profile?"
    assert not unknown, f"{code}:{line}: what is {unknown}?"
    mended = kind == "before" and "warning" not in options
    assert (after is not None) == mended, f"{code}:{line}: an `after` belongs to a fault that is mended, and only there"
    return Example(code, line, kind, options, block[3], after)


WRITTEN = sorted(file.stem for file in PAGES.glob("*.md") if file != INDEX)
EXAMPLES = [found for code in WRITTEN for found in examples(code)]
MENDED = [found for found in EXAMPLES if found.after is not None]
WARNED = [found for found in EXAMPLES if "warning" in found.options]
REFUSED = [found for found in EXAMPLES if found.kind == "refused"]


def safeties(code: str) -> set[str]:
    """The safeties that the page says the fix has: the words it prints in bold."""
    return {word.lower() for word in re.findall(r"\*\*(\w+)\.?\*\*", sections(code)["The fix"])}


def index() -> str:
    """The table of the index, from the table of codes and the pages."""
    rows = ["| Code | Name | What it finds | Fix | Examples for |", "|---|---|---|---|---|"]
    for code, rule in sorted(CODES.items()):
        forms = {found.format for found in EXAMPLES if found.code == code}
        where = ", ".join(FORMATS[form] for form in FORMATS if form in forms)
        fix = ", ".join(safety for safety in SAFETIES if safety in safeties(code))
        rows.append(f"| [{code}]({code}.md) | {rule.name} | {rule.summary} | {fix} | {where} |")
    return "\n".join(rows) + "\n"


def with_index(text: str) -> str:
    """The text with its table replaced by the one that is right."""
    return re.sub(r"^\| Code \|.*\n(?:\|.*\n)*", lambda _: index(), text, flags=re.M)


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert set(WRITTEN) == set(CODES)


@pytest.mark.parametrize("code", WRITTEN)
def test_a_page_begins_with_the_code_and_the_name(code: str) -> None:
    assert page(code).startswith(f"# {code} {CODES[code].name}\n\n## ")


@pytest.mark.parametrize("code", WRITTEN)
def test_a_page_has_its_sections_in_order(code: str) -> None:
    assert tuple(sections(code)) == SECTIONS
    assert all(text.strip() for text in sections(code).values())


@pytest.mark.parametrize("code", WRITTEN)
def test_a_page_says_who_refuses_it_and_how_well_that_is_known(code: str) -> None:
    lines = sections(code)["Who refuses it"].strip().splitlines()
    assert lines[:2] == ["| Provider | Error text | Source |", "|---|---|---|"]
    rows = [line.strip("|").split("|") for line in lines[2:] if line.startswith("|")]
    assert rows
    for row in rows:
        assert len(row) == 3
        assert row[2].strip().startswith(GRADES), row


@pytest.mark.parametrize("code", WRITTEN)
def test_a_page_says_what_the_fix_costs(code: str) -> None:
    assert tuple(re.findall(r"^- (.*?): ", sections(code)["What the fix costs"], flags=re.M)) == COSTS


@pytest.mark.parametrize("code", WRITTEN)
def test_a_page_calls_the_fix_as_safe_as_it_is(code: str) -> None:
    """What only another fix brings about, and what only the fit does, `check` does not show; there it is lossy."""
    found = [violation for each in examples(code) for violation in each.check(each.payload) if violation.code == code]
    real = {violation.fix.safety if violation.fix else "manual" for violation in found}
    assert safeties(code) == (real or {"lossy"})


@pytest.mark.parametrize("example", MENDED, ids=str)
def test_check_finds_the_fault(example: Example) -> None:
    found = {violation.code: violation.severity for violation in example.check(example.payload)}
    if example.fits or "by-a-fix" in example.options:
        assert example.code not in found
    else:
        assert found.get(example.code) == "error"


@pytest.mark.parametrize("example", MENDED, ids=str)
def test_govern_makes_the_after_of_the_before_and_reports_the_code(example: Example) -> None:
    payload = example.payload
    governed = example.govern(payload)
    assert governed.body == example.after
    assert example.code in {change.code for change in governed.report.changes}
    assert payload == example.payload


@pytest.mark.parametrize("example", [each for each in MENDED if not each.fits], ids=str)
def test_repair_makes_the_same(example: Example) -> None:
    payload = example.payload
    repaired = legato.repair(payload, example.profile, tools=example.tools(payload))
    assert repaired.body == example.after
    assert example.code in {change.code for change in repaired.report.changes}


@pytest.mark.parametrize("example", MENDED, ids=str)
def test_nothing_is_refused_in_the_after_and_nothing_changes_it(example: Example) -> None:
    assert [violation for violation in example.check(example.after) if violation.severity == "error"] == []
    assert example.govern(example.after).body is example.after


@pytest.mark.parametrize("example", WARNED, ids=str)
def test_what_nobody_verified_only_warns_and_changes_nothing(example: Example) -> None:
    payload = example.payload
    found = {violation.code: violation.severity for violation in example.check(payload)}
    assert found.get(example.code) == "warning"
    assert example.govern(payload).body is payload


@pytest.mark.parametrize("example", [each for each in REFUSED if not each.fits], ids=str)
def test_what_the_caller_must_decide_is_refused_by_its_code(example: Example) -> None:
    with pytest.raises(legato.Unrepairable, match=example.code) as raised:
        example.govern(example.payload)
    assert example.code in {getattr(violation, "code", None) for violation in raised.value.violations}
    with pytest.raises(legato.Unrepairable, match=example.code):
        legato.repair(example.payload, example.profile, tools=example.tools(example.payload))


@pytest.mark.parametrize("example", [each for each in REFUSED if each.fits], ids=str)
def test_what_cannot_be_made_to_fit_is_refused(example: Example) -> None:
    with pytest.raises(legato.OverBudget):
        example.govern(example.payload)


def test_the_index_is_up_to_date() -> None:
    text = INDEX.read_text(encoding="utf-8")
    assert index() in text
    assert text == with_index(text)


if __name__ == "__main__":
    INDEX.write_text(with_index(INDEX.read_text(encoding="utf-8")), encoding="utf-8")
