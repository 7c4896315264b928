"""A real llama.cpp server, with real templates, answers what is governed and refuses what was not: `make oracles`.

The server is in the wheel of xllamacpp; the model is `tiny_model`, whose answers are noise and are not looked at. Asked
are three things: damaged histories, as they are and governed; known faults, each under the template that refuses it;
and histories too long for the server's context.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import xllamacpp

import legato
import tiny_model
from accidents import History, Wire
from damage import damaged_histories, smallest
from histories import TOOLS, long_history
from tables import conclude, say, table
from templates import Features, features, fetch, twin

HISTORIES = 84
BETWEEN = 2**31 - 1
"""A token's number that is past every vocabulary."""
ROOMY, NARROW = 65_536, 2_048
"""Tokens of context: more than any of the short histories has, and less than a long one."""
LONG = tuple(range(20, 120, 10))
"""Messages of the long histories."""
PROFILES = {
    "template_chatml": "llama.cpp",
    "google-gemma-2-2b-it": "llama.cpp:gemma-2-2b-it",
    "google-gemma-4-31B-it": "llama.cpp:gemma-4-31b-it",
    "Mistral-Small-3.2-24B-Instruct-2506": "llama.cpp:mistral-small-3.2-24b",
    "mistralai-Mistral-Nemo-Instruct-2407": "llama.cpp:mistral-nemo-instruct-2407",
    "mistralai-Ministral-3-14B-Reasoning-2512": "llama.cpp:ministral-3-14b",
    "Qwen-Qwen3-0.6B": "llama.cpp:qwen3-0.6b",
    "Qwen3.5-4B": "llama.cpp:qwen3.5-4b",
    "meta-llama-Llama-3.1-8B-Instruct": "llama.cpp:llama-3.1-8b-instruct",
    "Apertus-8B-Instruct": "llama.cpp:apertus-8b-instruct",
    "openai-gpt-oss-120b": "llama.cpp:gpt-oss-120b",
    "MiniMax-M2": "llama.cpp:minimax-m2",
}
"""The templates that are asked, and the profile for a server that has them."""


# -- the server --------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def is_error(self) -> bool:
        return self.status != 200


class Server:
    """One server on a free port of this machine, with one template; it stops with the object."""

    def __init__(self, model: Path, template: str, context: int) -> None:
        options = xllamacpp.CommonParams()
        options.model.path, options.chat_template, options.n_ctx = str(model), template, context
        options.hostnames, options.port, options.offline = ["127.0.0.1"], 0, True
        options.n_parallel, options.n_gpu_layers, options.warmup, options.verbosity = 1, 0, False, -1
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1  # more would wait for each other, spinning
        options.use_jinja = True
        options.force_pure_content_parser = True  # the noise it answers is not looked into for calls
        self.running = xllamacpp.Server(options)

    def ask(self, messages: History, tools: Any = None) -> Answer:
        body = {"messages": messages, "max_tokens": 1} | ({} if tools is None else {"tools": tools})
        return self.post("/v1/chat/completions", body)

    def count(self, text: str) -> int:
        """The tokens of a text, as the server itself cuts it."""
        return len(self.post("/tokenize", {"content": text}).body["tokens"])

    def count_each(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each of the texts, in one request: a token that no text has stands between them."""
        content = [part for text in texts for part in (text, BETWEEN)]
        counts = [0]
        for token in self.post("/tokenize", {"content": content}).body["tokens"]:
            if token == BETWEEN:
                counts.append(0)
            else:
                counts[-1] += 1
        return counts[:-1]

    def post(self, path: str, body: Wire) -> Answer:
        address = self.running.listening_address + path
        request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(200, json.load(answer))
        except urllib.error.HTTPError as error:
            return Answer(error.code, json.load(error))


# -- damaged histories -------------------------------------------------------------------------------------------------


def judge(server: Server, profile: str, failures: list[str]) -> Counter[str]:
    """The same histories as they are and governed; a template that refuses the legal twin says nothing."""
    tally: Counter[str] = Counter()
    takes: dict[Features, bool] = {}
    for at, history in enumerate(damaged_histories(HISTORIES, media=False)):
        tools = TOOLS if at % 2 else None
        tally["refused as it is"] += server.ask(history, tools).is_error
        governed = legato.govern(history, profile=profile, tools=tools).messages
        kind = features(governed, tools)
        if kind not in takes:
            takes[kind] = not server.ask(twin(*kind[:2]), tools).is_error
        if not takes[kind]:
            tally["twin refused"] += 1
            continue
        answer = server.ask(governed, tools)
        tally["refused governed" if answer.is_error else "answered governed"] += 1
        if answer.is_error:
            failures.append(f"{profile}: {_words(answer)}: {_smallest(server, profile, history, tools)}")
    return tally


def _smallest(server: Server, profile: str, history: History, tools: Any) -> str:
    def fails(fewer: History) -> bool:
        return server.ask(legato.govern(fewer, profile=profile, tools=tools).messages, tools).is_error

    return json.dumps(smallest(history, fails), ensure_ascii=False)[:800]


def _words(answer: Answer) -> str:
    """The last line of an error: templates say where they stand before they say what is wrong."""
    return str(answer.body["error"]["message"]).strip().splitlines()[-1]


# -- known faults ------------------------------------------------------------------------------------------------------

SYSTEM: Wire = {"role": "system", "content": "You are terse."}
USER: Wire = {"role": "user", "content": "What does a.py say?"}
ANSWER: Wire = {"role": "assistant", "content": "It sets x."}


def _turn(*ids: str, arguments: str = "{}") -> Wire:
    calls = [{"id": i, "type": "function", "function": {"name": "read_file", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _result(call: str) -> Wire:
    return {"role": "tool", "tool_call_id": call, "content": "x = 1"}


A, B = "abcDEF123", "abcDEF124"
FAULTS: tuple[tuple[str, str, History], ...] = (
    ("two users in a row", "google-gemma-2-2b-it", [USER, USER]),
    ("two users in a row", "mistralai-Mistral-Nemo-Instruct-2407", [USER, USER]),
    ("two assistants in a row", "Mistral-Small-3.2-24B-Instruct-2506", [USER, ANSWER, ANSWER, USER]),
    ("starts with assistant", "mistralai-Ministral-3-14B-Reasoning-2512", [ANSWER, USER]),
    ("user straight after a result", "mistralai-Mistral-Nemo-Instruct-2407", [USER, _turn(A), _result(A), USER]),
    ("an id not of nine letters", "Mistral-Small-3.2-24B-Instruct-2506", [USER, _turn("call_1"), _result("call_1")]),
    ("system in the middle", "Qwen3.5-4B", [USER, ANSWER, SYSTEM, USER]),
    ("two systems", "Apertus-8B-Instruct", [SYSTEM, SYSTEM, USER]),
    ("no user at all", "Qwen3.5-4B", [SYSTEM]),
    ("two calls in a turn", "meta-llama-Llama-3.1-8B-Instruct", [USER, _turn(A, B), _result(A), _result(B)]),
    ("a result without its call", "openai-gpt-oss-120b", [USER, _result(A), ANSWER, USER]),
    ("a result without its call", "MiniMax-M2", [USER, _result(A), ANSWER, USER]),
    ("nothing but an assistant", "google-gemma-4-31B-it", [ANSWER]),
    ("two assistants at the end", "template_chatml", [USER, ANSWER, ANSWER]),
    ("ends with a call", "template_chatml", [USER, _turn(A)]),
    ("arguments that are no JSON", "Qwen3.5-4B", [USER, _turn(A, arguments='{"path": "a.p'), _result(A)]),
    ("a user without content", "template_chatml", [{"role": "user"}, ANSWER, USER]),
    ("an assistant without content", "template_chatml", [USER, {"role": "assistant"}, USER]),
)
"""What is wrong, the template (or the server, with any) that refuses it, and the history."""


def judge_faults(servers: dict[str, Server], failures: list[str]) -> Iterator[tuple[object, ...]]:
    for fault, template, history in FAULTS:
        governed = legato.govern(history, profile=PROFILES[template]).messages
        before, after = servers[template].ask(history), servers[template].ask(governed)
        if not before.is_error:
            failures.append(f"the server no longer refuses {fault}, with {template}")
        if after.is_error:
            failures.append(f"{fault}, with {template}: {json.dumps(governed)}: {_words(after)}")
        yield fault, template, before.status, after.status


# -- histories too long ------------------------------------------------------------------------------------------------


def opening(server: Server) -> int:
    """The tokens that a template adds to a lone question; some bring a system prompt of their own."""
    return int(server.ask([USER]).body["usage"]["prompt_tokens"]) - server.count(USER["content"])


def judge_length(server: Server, profile: str, added: int, failures: list[str]) -> Counter[str]:
    """Long histories, counted by the server itself. What a template adds around messages is left to the reserve."""
    tally: Counter[str] = Counter()
    usual = legato.Policy()
    policy = legato.Policy(window=NARROW + added, max_output=16, reserve=usual.reserve + added, counter=server.count)
    for seed, size in enumerate(LONG):
        history = [texts_only(message) for message in long_history(size, seed)]
        legal = legato.govern(history, profile=profile).messages
        kind = features(legal, None)
        if server.ask(twin(*kind[:2])).is_error:
            tally["twin refused"] += 1
            continue
        whole = server.ask(legal)
        if whole.is_error:
            tally["too long"] += 1
            said, read = whole.body["error"], legato.overflow(whole.status, whole.body)
            if read is None or (read.limit, read.used) != (said.get("n_ctx"), said.get("n_prompt_tokens")):
                failures.append(f"legato.overflow reads {read} out of {said}")
        try:
            governed = legato.govern(history, profile=profile, policy=policy)
        except legato.OverBudget:
            tally["OverBudget"] += 1
            continue
        answer = server.ask(governed.messages)
        tally["refused governed" if answer.is_error else "answered governed"] += 1
        if answer.is_error:
            failures.append(f"{profile}, {size} messages of seed {seed}, {NARROW + added} tokens: {_words(answer)}")
        else:
            filled = 100 * answer.body["usage"]["prompt_tokens"] // (NARROW + added)
            tally["fullest, %"] = max(tally["fullest, %"], filled)
    return tally


def texts_only(message: Wire) -> Wire:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [part for part in content if part["type"] == "text"]}


# -- all of it ---------------------------------------------------------------------------------------------------------


def show(title: str, columns: tuple[str, ...], rows: dict[str, Counter[str]]) -> None:
    say(title)
    say(table(("template", *columns), [(name, *[tally[column] for column in columns]) for name, tally in rows.items()]))
    say()


def main() -> int:
    failures: list[str] = []
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(fetch().glob("*/*.jinja"))}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tiny.gguf"
        tiny_model.write(model)
        servers = {name: Server(model, sources[name], ROOMY) for name in PROFILES}
        show(
            "llama.cpp's server: damaged histories, as they are and governed for it",
            ("refused as it is", "refused governed", "answered governed", "twin refused"),
            {name: judge(servers[name], profile, failures) for name, profile in PROFILES.items()},
        )
        say("Known faults: the answer to them, and to what legato makes of them")
        say(table(("fault", "template", "as it is", "governed"), judge_faults(servers, failures)))
        say()
        adds = {name: opening(server) for name, server in servers.items()}
        servers.clear()
        narrow = {name: Server(model, sources[name], NARROW + added) for name, added in adds.items()}
        show(
            f"Histories of {min(LONG)} to {max(LONG)} messages for a server with {NARROW:,} tokens of context",
            ("too long", "answered governed", "refused governed", "OverBudget", "twin refused", "fullest, %"),
            {name: judge_length(narrow[name], PROFILES[name], added, failures) for name, added in adds.items()},
        )
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
