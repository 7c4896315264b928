"""Two judges on npm, if node is there: the AI SDK on calls and results, @firebase/ai on the turns of a Gemini chat.

The AI SDK refuses a call without its result. Google's client wants turns to alternate, which its API does not: it is
asked about the histories that already do, once governed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import legato
from accidents import History, Wire
from damage import damaged_histories
from tables import conclude, say, table
from written import Style, write

HERE = Path(__file__).parent
ROOM = HERE.parent / ".oracles" / "node"
PACKAGES = ("ai@6", "@firebase/ai@2", "@firebase/app@0")
HISTORIES = 420


def install(npm: str) -> None:
    """The packages, into a folder outside git, with the scripts beside them, for node looks for packages from there."""
    ROOM.mkdir(parents=True, exist_ok=True)
    if not (ROOM / "node_modules" / "ai").exists():
        say(f"installing {' '.join(PACKAGES)}")
        (ROOM / "package.json").write_text("{}\n")
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        subprocess.run(command, cwd=ROOM, check=True)
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, ROOM)


def verdicts(node: str, script: str, lists: Sequence[Any]) -> list[str]:
    lines = "".join(json.dumps(messages) + "\n" for messages in lists)
    done = subprocess.run([node, script], cwd=ROOM, input=lines, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


# -- the AI SDK --------------------------------------------------------------------------------------------------------


def model_messages(history: History) -> list[Wire]:
    """The same messages in the AI SDK's own words; a result without a call has no tool's name to carry."""
    names = {call.get("id"): call["function"].get("name") for m in history for call in m.get("tool_calls") or ()}
    return [_model_message(message, names) for message in history]


def _model_message(message: Wire, names: dict[Any, Any]) -> Wire:
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part["text"] for part in content or ()]
    parts: list[Wire] = [{"type": "text", "text": text} for text in texts]
    match message["role"]:
        case "system" | "developer":
            return {"role": "system", "content": "\n".join(texts)}
        case "tool":
            call = message.get("tool_call_id")
            output = {"type": "text", "value": "\n".join(texts)}
            made = {"toolCallId": call, "toolName": names.get(call) or "none", "output": output}
            return {"role": "tool", "content": [{"type": "tool-result", **made}]}
        case "assistant":
            return {"role": "assistant", "content": [*parts, *map(_tool_call, message.get("tool_calls") or ())]}
        case role:
            return {"role": role, "content": parts}


def _tool_call(call: Wire) -> Wire:
    function = call["function"]
    made = {"toolCallId": call.get("id"), "toolName": function.get("name"), "input": function.get("arguments")}
    return {"type": "tool-call", **made}


def ai_sdk() -> Iterator[tuple[list[Wire], list[Wire]]]:
    for history in damaged_histories(HISTORIES, media=False):
        governed = legato.govern(history, profile="portable").messages
        yield model_messages(history), model_messages(governed)


# -- @firebase/ai ------------------------------------------------------------------------------------------------------


def turns(contents: list[Wire]) -> list[Wire]:
    """With the role that this client gives to results."""
    return [content | {"role": "function"} if _answers(content) else content for content in contents]


def _answers(content: Wire) -> bool:
    parts = content.get("parts") or ()
    return bool(parts) and all("functionResponse" in part for part in parts)


def _alternates(contents: list[Wire]) -> bool:
    """What this client can say at all: it mixes nothing with results, and no two turns in a row are not the model's."""
    mixed = any("functionResponse" in part for c in contents if not _answers(c) for part in c.get("parts") or ())
    models = [content.get("role") == "model" for content in contents]
    return not mixed and not models[0] and all(before != after for before, after in pairwise(models))


def firebase() -> Iterator[tuple[list[Wire], list[Wire]]]:
    for history in damaged_histories(HISTORIES, media=False):
        body = {"contents": write(history, "gemini", Style()).items}
        governed = legato.govern(body, profile="gemini", format="gemini").messages
        if _alternates(governed):
            yield turns(body["contents"]), turns(governed)


# -- both --------------------------------------------------------------------------------------------------------------

JUDGES: dict[str, Callable[[], Iterator[tuple[list[Wire], list[Wire]]]]] = {"ai_sdk": ai_sdk, "firebase": firebase}
"""By script: the histories, as they are and governed."""


def main() -> int:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        say("no node here: the AI SDK and @firebase/ai are not asked")
        return conclude([])
    install(npm)
    failures, rows = [], []
    for name, histories in JUDGES.items():
        before, after = zip(*histories(), strict=True)
        refused = [verdict != "taken" for verdict in verdicts(node, f"{name}.mjs", before)]
        found = [(v, m) for v, m in zip(verdicts(node, f"{name}.mjs", after), after, strict=True) if v != "taken"]
        failures += [f"{name}: {verdict[:200]}: {json.dumps(messages)[:600]}" for verdict, messages in found]
        rows.append((name, len(before), sum(refused), len(found)))
    say("Clients on npm: damaged histories, refused as they are and governed")
    say(table(("client", "histories", "as they are", "governed"), rows))
    return conclude(failures)


if __name__ == "__main__":
    sys.exit(main())
