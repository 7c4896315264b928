"""Official clients, told what to send and heard what they understood of the answer: SDKs for Python, SDKs on npm."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
import pydantic
from google import genai

from accidents import Wire
from tables import say

HERE = Path(__file__).parent
ROOM = HERE.parent / ".oracles" / "clients"
PACKAGES = ("openai@7", "@anthropic-ai/sdk@1", "ai@6", "@ai-sdk/openai@3", "@ai-sdk/anthropic@3")


class Ask(NamedTuple):
    """A request as a client is told to send it. `client` and `api` are the row it counts in."""

    client: str
    api: str
    stream: bool
    body: Wire


class Said(NamedTuple):
    """What a client understood: the status (0: it broke off), the text, the calls, and the words of an error."""

    status: int
    text: str
    calls: list[list[Any]]
    words: str


# -- SDKs for Python ---------------------------------------------------------------------------------------------------


def chat(base: str, ask: Ask) -> Said:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        if not ask.stream:
            message = client.chat.completions.create(**ask.body).choices[0].message
            calls = [[call.function.name, json.loads(call.function.arguments)] for call in message.tool_calls or ()]
            return Said(200, message.content or "", calls, "")
        text, names, arguments = "", [], ""
        for event in client.chat.completions.create(**ask.body, stream=True):
            for choice in event.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    names += [call.function.name] if call.function.name else []
                    arguments += call.function.arguments or ""
        return Said(200, text, [[name, json.loads(arguments)] for name in names], "")


def responses(base: str, ask: Ask) -> Said:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        answer = client.responses.create(**ask.body, stream=ask.stream)
        if ask.stream:
            events = [event for event in answer if event.type == "response.completed"]
            answer = events[-1].response
        called = [item for item in answer.output if item.type == "function_call"]
        return Said(200, answer.output_text, [[item.name, json.loads(item.arguments)] for item in called], "")


def messages(base: str, ask: Ask) -> Said:
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        answer = client.messages.create(**ask.body, stream=ask.stream)
        if not ask.stream:
            text = "".join(block.text for block in answer.content if block.type == "text")
            return Said(200, text, [[b.name, b.input] for b in answer.content if b.type == "tool_use"], "")
        # Not gathered by the SDK: llama.cpp starts no message for an answer without a token.
        text, names, arguments = "", [], ""
        for event in answer:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                names.append(event.content_block.name)
            elif event.type == "content_block_delta":
                text += event.delta.text if event.delta.type == "text_delta" else ""
                arguments += event.delta.partial_json if event.delta.type == "input_json_delta" else ""
        return Said(200, text, [[name, json.loads(arguments)] for name in names], "")


def gemini(base: str, ask: Ask) -> Said:
    client = genai.Client(api_key="none", http_options=genai.types.HttpOptions(base_url=base))
    models, config = client.models, {"tools": ask.body.get("tools", [])}
    asked = {"model": "gemini-2.5-flash", "contents": ask.body["contents"], "config": config}
    answers = list(models.generate_content_stream(**asked)) if ask.stream else [models.generate_content(**asked)]
    client.close()
    calls = [[call.name, call.args] for answer in answers for call in answer.function_calls or ()]
    return Said(200, "" if calls else "".join(answer.text or "" for answer in answers), calls, "")


PYTHON: dict[tuple[str, str], Callable[[str, Ask], Said]] = {
    ("openai (Python)", "openai-chat"): chat,
    ("openai (Python)", "openai-responses"): responses,
    ("anthropic (Python)", "anthropic"): messages,
    ("google-genai (Python)", "gemini"): gemini,
}


def ask_all(asks: Sequence[Ask], base: str) -> list[Said]:
    """What comes back for each, from that address. Those for clients on npm have to be the last."""
    ours = [ask for ask in asks if (ask.client, ask.api) in PYTHON]
    return [*[ask_python(ask, base) for ask in ours], *ask_node(asks[len(ours) :], base)]


def ask_python(ask: Ask, base: str) -> Said:
    try:
        return PYTHON[ask.client, ask.api](base, ask)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return Said(error.status_code, "", [], str(error))
    except genai.errors.APIError as error:
        return Said(error.code, "", [], str(error))
    except pydantic.ValidationError as error:  # the client does not send it
        return Said(0, "", [], str(error))


# -- clients on npm ----------------------------------------------------------------------------------------------------

NPM = (
    ("openai", "openai-chat"),
    ("openai", "openai-responses"),
    ("@anthropic-ai/sdk", "anthropic"),
    ("ai", "openai-chat"),
    ("ai", "openai-responses"),
    ("ai", "anthropic"),
)


def npm_clients() -> tuple[tuple[str, str], ...]:
    return NPM if shutil.which("node") and shutil.which("npm") else ()


def ask_node(asks: Sequence[Ask], base: str) -> list[Said]:
    if not asks:
        return []
    lines = "".join(json.dumps({**ask._asdict(), "base": base}) + "\n" for ask in asks)
    command = ["node", "proxy_clients.mjs"]
    done = subprocess.run(command, cwd=ROOM, input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [Said(**json.loads(line)) for line in done.stdout.splitlines()]


def install(npm: str) -> None:
    """The packages, into a folder outside git, with the script beside them, for node looks for packages from there."""
    ROOM.mkdir(parents=True, exist_ok=True)
    if not (ROOM / "node_modules" / "openai").exists():
        say(f"installing {' '.join(PACKAGES)}")
        (ROOM / "package.json").write_text("{}\n")
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        subprocess.run(command, cwd=ROOM, check=True)
    shutil.copy(HERE / "proxy_clients.mjs", ROOM)
