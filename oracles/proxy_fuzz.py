"""Schemathesis against the governed endpoints of `legato serve`: no 500 of ours, no hang: `make oracles`.

It is told below what requests of each API look like, and sends such ones, and such as break every part of that, through
the proxy to an upstream that takes all. So a status of 500 or more can only be ours, and so can a fault that the proxy
kept to itself: the original went on, as it promises, and the record says so. The windows are small: much has to be cut.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections import Counter
from pathlib import Path
from typing import Any

from accidents import Wire
from loopback import Upstream, says
from proxy_clients import legato_serve
from tables import conclude, say, table

ROOM = Path(__file__).parent.parent / ".oracles" / "schemathesis"
PACKAGE = "schemathesis==4.32.5"
SECONDS = 9
"""For each endpoint."""
HANG = 10
"""Seconds after which a request is said to hang."""
PROFILES = ("openai", "anthropic", "gemini", "mistral", "glm", "strict-template", "deepseek:deepseek-reasoner")
CONFIG = """
records = 1_000_000
policy = "tight"

[policies.tight]
reserve = 16
fold = {{}}

[[upstream]]
url = "{url}"
window = 2_000
max_output = 50
"""

# -- what requests look like -------------------------------------------------------------------------------------------


def record(required: str, **fields: Any) -> Wire:
    return {"type": "object", "properties": fields, "required": required.split()}


def listed(items: Wire, most: int = 6, least: int = 0) -> Wire:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def one_of(*values: str) -> Wire:
    return {"type": "string", "enum": list(values)}


def any_of(*schemas: Wire) -> Wire:
    return {"anyOf": list(schemas)}


TEXT: Wire = {"type": "string", "minLength": 1, "maxLength": 300}
NUMBER: Wire = {"type": "integer", "minimum": 1, "maximum": 300}
ID = one_of("call_1", "call_2", "call_3", "a b")
NAME = one_of("read_file", "grep", "read.file now")
SCHEMA: Wire = {"type": "object", "additionalProperties": True, "maxProperties": 2}
MODEL = one_of("gpt-5", "claude-sonnet-4-5", "gemini-3-pro", "tiny")
ARGUMENTS = any_of(one_of("{}", '{"path": "a.py"}', "[1]"), TEXT)

CALL = record(
    "id type function", id=ID, type=one_of("function"), function=record("name", name=NAME, arguments=ARGUMENTS)
)
PART = any_of(
    record("type text", type=one_of("text"), text=TEXT),
    record(
        "type image_url", type=one_of("image_url"), image_url=record("url", url=one_of("data:image/png;base64,AAAA"))
    ),
)
CHAT_MESSAGE = record(
    "role content",
    role=one_of("system", "developer", "user", "assistant", "tool"),
    content=any_of(TEXT, listed(PART, 3), {"type": "null"}),
    tool_calls=listed(CALL, 3),
    tool_call_id=ID,
    reasoning_content=TEXT,
)
FUNCTION = record("name", name=NAME, description=TEXT, parameters=SCHEMA)
CHAT = record(
    "model messages",
    model=MODEL,
    messages=listed(CHAT_MESSAGE, 12, 2),
    tools=listed(record("type function", type=one_of("function"), function=FUNCTION), 3),
    max_tokens=NUMBER,
    stream={"type": "boolean"},
)
ITEM = any_of(
    record("role content", type=one_of("message"), role=one_of("system", "user", "assistant"), content=TEXT),
    record("type call_id name", type=one_of("function_call"), call_id=ID, name=NAME, arguments=ARGUMENTS),
    record("type call_id output", type=one_of("function_call_output"), call_id=ID, output=TEXT),
    record(
        "type id", type=one_of("reasoning"), id=TEXT, summary=listed(record("type", type=one_of("summary_text")), 1)
    ),
)
RESPONSES = record(
    "model input",
    model=MODEL,
    input=any_of(listed(ITEM, 12, 2), TEXT),
    instructions=TEXT,
    previous_response_id=ID,
    tools=listed(record("type name", type=one_of("function"), name=NAME, parameters=SCHEMA), 3),
    max_output_tokens=NUMBER,
)
BLOCK = any_of(
    record("type text", type=one_of("text"), text=TEXT, cache_control=record("type", type=one_of("ephemeral"))),
    record("type id name input", type=one_of("tool_use"), id=ID, name=NAME, input=SCHEMA),
    record("type tool_use_id", type=one_of("tool_result"), tool_use_id=ID, content=TEXT),
    record("type thinking", type=one_of("thinking"), thinking=TEXT, signature=TEXT),
)
TURN = record("role content", role=one_of("user", "assistant", "system"), content=any_of(TEXT, listed(BLOCK, 4, 1)))
MESSAGES = record(
    "model max_tokens messages",
    model=MODEL,
    max_tokens=NUMBER,
    messages=listed(TURN, 12, 2),
    system=any_of(TEXT, listed(BLOCK, 2)),
    tools=listed(record("name input_schema", name=NAME, input_schema=SCHEMA), 3),
    thinking=record("type", type=one_of("enabled", "adaptive"), budget_tokens=NUMBER),
)
GEMINI_PART = any_of(
    record("text", text=TEXT, thought={"type": "boolean"}),
    record("functionCall", functionCall=record("name", id=ID, name=NAME, args=SCHEMA), thoughtSignature=TEXT),
    record("functionResponse", functionResponse=record("name response", id=ID, name=NAME, response=SCHEMA)),
)
CONTENT = record("role parts", role=one_of("user", "model", "function"), parts=listed(GEMINI_PART, 4, 1))
GEMINI = record(
    "contents",
    contents=listed(CONTENT, 12, 2),
    systemInstruction=record("parts", parts=listed(GEMINI_PART, 2)),
    tools=listed(record("functionDeclarations", functionDeclarations=listed(FUNCTION, 3)), 2),
    generationConfig=record("", maxOutputTokens=NUMBER),
)
CONVERSE_BLOCK = any_of(
    record("text", text=TEXT),
    record("toolUse", toolUse=record("toolUseId name input", toolUseId=ID, name=NAME, input=SCHEMA)),
    record(
        "toolResult", toolResult=record("toolUseId content", toolUseId=ID, content=listed(record("text", text=TEXT), 2))
    ),
)
CONVERSE_TURN = record("role content", role=one_of("user", "assistant"), content=listed(CONVERSE_BLOCK, 4, 1))
CONVERSE = record("messages", messages=listed(CONVERSE_TURN, 12, 2), system=listed(record("text", text=TEXT), 2))

BODIES = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": MESSAGES,
    "/v1beta/models/gemini-3-pro:generateContent": GEMINI,
    "/v1beta/models/gemini-3-pro:streamGenerateContent": GEMINI,
    "/model/amazon.nova-pro/converse": CONVERSE,
}


def description() -> Wire:
    """The endpoints as OpenAPI."""
    header = {"name": "x-legato-profile", "in": "header", "required": False, "schema": one_of(*PROFILES)}
    answers = {"default": {"description": "whatever the upstream says"}}
    paths = {
        path: {
            "post": {
                "parameters": [header],
                "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
                "responses": answers,
            }
        }
        for path, body in BODIES.items()
    }
    return {"openapi": "3.1.0", "info": {"title": "what legato governs", "version": "1"}, "paths": paths}


# -- the run -----------------------------------------------------------------------------------------------------------


def install() -> Path:
    """The program, in an environment of its own: it is a plugin of pytest, too, and our tests are to run without."""
    if not (ROOM / "installed").exists():
        say(f"installing {PACKAGE}")
        venv.create(ROOM, with_pip=True, clear=True)
        subprocess.run([ROOM / "bin" / "pip", "-qq", "install", PACKAGE], check=True)
        (ROOM / "installed").touch()
    return ROOM / "bin" / "schemathesis"


def fuzz(program: Path, base: str, folder: Path, path: str) -> tuple[int, str]:
    """Its exit status and its words about one endpoint: together they would not get the same time."""
    schema = folder / "openapi.json"
    schema.write_text(json.dumps(description()))
    options = {
        "--url": base,
        "--include-path": path,
        "--checks": "not_a_server_error",
        "--phases": "fuzzing",
        "--mode": "all",
        "--max-examples": "100000",
        "--max-time": str(SECONDS),
        "--request-timeout": str(HANG),
        "--seed": "1",
        "--warnings": "off",
        "--generation-database": "none",
    }
    flat = [word for option in options.items() for word in option]
    command = [
        str(program),
        "run",
        *flat,
        "--suppress-health-check=all",
        "--no-color",
        "--continue-on-failure",
        str(schema),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def records(base: str) -> list[Wire]:
    with urllib.request.urlopen(f"{base}/_legato/api/requests?limit=1000000") as answer:
        found: list[Wire] = json.load(answer)["requests"]
        return found


def main() -> int:
    failures: list[str] = []
    program = install()
    with tempfile.TemporaryDirectory() as name, Upstream(says()).serving() as upstream:
        folder = Path(name)
        config = folder / "legato.toml"
        config.write_text(CONFIG.format(url=upstream))
        with legato_serve("--config", str(config)) as base:
            for path in BODIES:
                status, words = fuzz(program, base, folder, path)
                if status != 0:
                    failures.append(f"{path}: schemathesis ends with {status}: {words[-3_000:]}")
            found = records(base)
    failures += [f"a fault at {each['path']}: {each}" for each in found if each["error"] == "fault"]
    tally: dict[str, Counter[str]] = {}
    for each in found:
        tally.setdefault(each["path"], Counter())[each["outcome"]] += 1
    failures += [f"{path} was never asked" for path in BODIES if path not in tally]
    if not any(tally[path]["governed"] for path in tally):
        failures.append("nothing was governed")
    kinds = ("untouched", "governed", "failed", "refused", "passed")
    say(f"{PACKAGE} against the governed endpoints, {SECONDS} seconds each: what became of the requests")
    say(table(("path", *kinds), [(path, *[tally[path][kind] for kind in kinds]) for path in BODIES if path in tally]))
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
