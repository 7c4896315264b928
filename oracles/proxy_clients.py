"""Real clients through `legato serve`: the official SDKs for Python and on npm, and Vercel's AI SDK: `make oracles`.

Each sends the same requests twice: straight to an upstream, and with nothing but its base URL changed. There are two
upstreams: one on loopback that enforces the API's rules as the walkers of the tests know them, and answers with a text
or the call of a tool; and a real llama.cpp server with a real template and a real limit. Histories are damaged, or too
long for that server, and tools have names that the API refuses. Every other request is streamed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import provider_answers
import tiny_model
from accidents import History, Wire
from clients import PYTHON, Ask, Said, ask_all, install, npm_clients
from damage import damaged_histories
from histories import TOOLS
from javascript import model_messages
from llama_server import ANSWER, PROFILES, USER, A, Server, _result, _turn
from loopback import END, Seen, Upstream, chunk, start
from loopback import answer as http
from providers import WALKERS
from tables import conclude, say, table
from templates import fetch
from written import KEYS, Style, fields_of, write

TEMPLATE = "mistralai-Mistral-Nemo-Instruct-2407"
CONTEXT, OUTPUT = 6_144, 8
"""Tokens of the llama.cpp server: a token of the tiny model is a byte."""
HISTORIES = 28
"""Damaged histories for each client and API, besides the known faults."""
STYLE = Style(signed=False)
NAME = "read.file now"
"""A tool's name that is refused."""


# -- what is asked -----------------------------------------------------------------------------------------------------

FAULTS: tuple[History, ...] = (
    [USER, _turn(A)],
    [USER, USER],
    [USER, _turn(A), USER],
    [USER, _result(A), ANSWER, USER],
)
"""A call without its result at the end and before it, two users, a result without its call."""


MODELS = {"openai-chat": "tiny", "openai-responses": "tiny", "anthropic": "claude-sonnet-4-5"}
"""Of Anthropic one that takes no system messages among the others, as a model that is not known may."""
LIMITS = {"openai-chat": "max_tokens", "openai-responses": "max_output_tokens", "anthropic": "max_tokens"}


def long_one(turns: int) -> History:
    """More than the llama.cpp server takes."""
    return [turn for n in range(turns) for turn in ({**USER, "content": f"{n}: {'and then? ' * 12}"}, ANSWER)] + [USER]


def body(api: str, client: str, history: History, tools: History) -> Wire:
    """A request of that API; for the AI SDK the messages are in its own words, as tools are."""
    if client == "ai":
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        return {"model": MODELS[api], "messages": model_messages(history), "tools": schemas}
    head: Wire = {} if api == "gemini" else {"model": MODELS[api], LIMITS[api]: OUTPUT}
    return {**head, **(fields_of(tools, api) if tools else {}), KEYS[api]: write(history, api, STYLE).items}


def asks(histories: Sequence[tuple[History, History]], apis: Sequence[str]) -> list[Ask]:
    """Each history with its tools, for each client, every other one streamed. System text alone is no prompt (`ai`)."""
    rows = [row for row in (*PYTHON, *npm_clients()) if row[1] in apis]
    return [
        Ask(client, api, bool(at % 2), body(api, client, history, tools))
        for client, api in rows
        for at, (history, tools) in enumerate(histories)
        if client != "ai" or any(message["role"] not in ("system", "developer") for message in history)
    ]


# -- the upstream that enforces ----------------------------------------------------------------------------------------

FORMATS = {"/chat/completions": "openai-chat", "/responses": "openai-responses", "/messages": "anthropic"}
WALKED = {
    "openai-chat": "openai",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini:gemini-2.5-pro",
}
"""Whose walker enforces the rules of a format."""
NAMES = {
    "openai-chat": "[a-zA-Z0-9_-]+",
    "anthropic": "[a-zA-Z0-9_-]{1,128}",
    "gemini": "[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
}
"""Names of tools that are taken; no refusal of one by Responses is recorded."""


def enforce(seen: Seen) -> list[bytes]:
    """An answer in the API's shape, or the API's refusal."""
    form = next((form for end, form in FORMATS.items() if seen.target.endswith(end)), "gemini")
    request = seen.json
    names = list(tool_names(request.get("tools") or ()))
    pattern = NAMES.get(form, ".*")
    found = [f"tool name {name}" for name in names if not re.fullmatch(pattern, name)]
    found += WALKERS[WALKED[form]](request)
    if found:
        error = {"type": "invalid_request_error", "message": found[0], "code": 400, "status": "INVALID_ARGUMENT"}
        return [http({"type": "error", "error": error}, 400)]
    name = names[0] if names and is_first(request) else None
    if request.get("stream") or ":stream" in seen.target:
        return [start(), *map(chunk, provider_answers.stream(form, name)), END]
    return [http(provider_answers.answer(form, name))]


def is_first(request: Wire) -> bool:
    """Whether nothing was said yet but the question: it is answered with a call."""
    return any(len(request.get(key) or ()) == 1 for key in KEYS.values())


def tool_names(tools: Sequence[Wire]) -> Iterator[str]:
    for tool in tools:
        for inner in tool.get("functionDeclarations") or (tool.get("function") or tool,):
            yield inner["name"]


CONFIG = """
[[upstream]]
name = "chat"
url = "{url}/v1/chat"
path = "/v1/chat"
profile = "openai"

[[upstream]]
name = "others"
url = "{url}"
"""
"""No host tells that the rules for chat are those of OpenAI. The other APIs' own rules hold without being named."""


# -- the proxy ---------------------------------------------------------------------------------------------------------


@contextmanager
def legato_serve(*arguments: str) -> Iterator[str]:
    """`legato serve` with these arguments, on a free port; its address."""
    command = [sys.executable, "-m", "legato", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        port = json.loads(process.stderr.readline())["port"]
        drain = threading.Thread(target=lambda: [None for _ in process.stderr or ()])
        drain.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            drain.join()


def retried(base: str) -> int:
    """How many of the newest requests were answered after a refusal for length, with a smaller one."""
    with urllib.request.urlopen(f"{base}/_legato/api/requests?limit=500") as answer:
        return sum(record["retried"] for record in json.load(answer)["requests"])


# -- the verdict -------------------------------------------------------------------------------------------------------


def judge(
    title: str, wanted: Sequence[Ask], straight: Sequence[Said], through: Sequence[Said], failures: list[str]
) -> None:
    """Counts and shows. What a client itself refuses to send, straight, says nothing of the proxy."""
    rows: dict[str, Counter[str]] = {}
    for ask, before, after in zip(wanted, straight, through, strict=True):
        tally = rows.setdefault(f"{ask.client}, {ask.api}", Counter())
        if before.status == 0:
            tally["unsent"] += 1
            continue
        tally["asked"] += 1
        tally[str(before.status)] += 1
        if after.status == 200:
            tally["answered"] += 1
            tally["streamed"] += ask.stream
        else:
            tally["refused"] += 1
            failures.append(f"{ask.client}, {ask.api}: {after.words[:200]}: {json.dumps(ask.body)[:600]}")
    failures += [f"{name}: nothing is refused straight" for name, tally in rows.items() if not tally["400"]]
    say(title)
    columns = ("asked", "400", "500", "answered", "streamed", "refused", "unsent")
    headings = (
        "client, API",
        "asked",
        "400 straight",
        "500 straight",
        "answered",
        "of it streamed",
        "refused",
        "unsent",
    )
    say(table(headings, [(name, *[tally[column] for column in columns]) for name, tally in rows.items()]))


def loopback(failures: list[str]) -> None:
    histories = [*FAULTS, *damaged_histories(HISTORIES, media=False)]
    function: Any = TOOLS[0]["function"]
    tool = {"type": "function", "function": {**function, "name": NAME}}
    wanted = asks([(history, []) for history in histories] + [([USER], [tool])] * 2, tuple(WALKED))
    with Upstream(enforce).serving() as address, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "legato.toml"
        file.write_text(CONFIG.format(url=address))
        with legato_serve("--config", str(file)) as base:
            straight, through = ask_all(wanted, address), ask_all(wanted, base)
    judge("An upstream on loopback that enforces the rules", wanted, straight, through, failures)
    called = [[NAME, json.loads(provider_answers.ARGUMENTS)]]
    for ask, said in zip(wanted, through, strict=True):
        expected = ("", called) if ask.body.get("tools") else (provider_answers.TEXT, [])
        if said.status == 200 and (said.text, said.calls) != expected:
            failures.append(f"{ask.client}, {ask.api}, stream={ask.stream}: {said} instead of {expected}")


UNREADABLE = ("ai", "openai-responses")
"""The AI SDK does not read this server's events of Responses, nor the server the AI SDK's assistant items."""


def llama(failures: list[str]) -> None:
    histories = [*FAULTS, long_one(80), long_one(120), *damaged_histories(HISTORIES, media=False)]
    pairs = [(history, TOOLS if at // 2 % 2 else []) for at, history in enumerate(histories)]
    wanted = [ask for ask in asks(pairs, tuple(LIMITS)) if (ask.client, ask.api) != UNREADABLE]
    source = next(fetch().glob(f"*/{TEMPLATE}.jinja")).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tiny.gguf"
        tiny_model.write(file)
        server = Server(file, source, CONTEXT)
        address = server.running.listening_address
        with legato_serve("--upstream", address, "--profile", PROFILES[TEMPLATE]) as base:
            straight, through = ask_all(wanted, address), ask_all(wanted, base)
            smaller = retried(base)
    judge(f"llama.cpp's server with the template {TEMPLATE}", wanted, straight, through, failures)
    say(f"{smaller} of the newest 500 were answered after a refusal for length, with one smaller request")
    if not smaller:
        failures.append("no refusal for length was answered with a smaller request")


def main() -> int:
    failures: list[str] = []
    if npm_clients():
        install("npm")
    else:
        say("no node here: the clients on npm are not asked")
    say("Requests that clients send straight to an upstream, and through the proxy")
    say()
    loopback(failures)
    say()
    llama(failures)
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
