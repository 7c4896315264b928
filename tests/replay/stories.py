"""Small sessions whose every token is known, and random ones."""

from __future__ import annotations

from random import Random
from typing import Any

from legato.transcripts.recording import Recording, Turn

Wire = dict[str, Any]


def recording(messages: list[Wire], times: list[float] | None = None, model: str | None = None) -> Recording:
    """A recording in which each assistant message is an answer."""
    spots = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    turns = [Turn(at, at + 1, None, model, times[nth] if times is not None else None) for nth, at in enumerate(spots)]
    return Recording("story", "test", "openai-chat", messages, tuple((1,) for _ in messages), {}, tuple(turns), (), "")


def call(ident: str, name: str = "read", arguments: str = "{}", text: str | None = None) -> Wire:
    """An assistant message with one call."""
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": ident, "type": "function", "function": function}],
    }


def result(ident: str, text: str) -> Wire:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def system(text: str) -> Wire:
    return {"role": "system", "content": text}


def user(text: str) -> Wire:
    return {"role": "user", "content": text}


def random_story(seed: int, turns: int = 5) -> Recording:
    """Calls and results of random length; later calls name what earlier results held."""
    chance = Random(seed)
    names = [f"item_{nth}" for nth in range(8)]
    messages = [system("You look things up."), user(f"Find {names[0]}.")]
    for turn in range(turns):
        named = chance.choice(names)
        messages.append(call(f"c{turn}", arguments=f'{{"name": "{named}"}}'))
        held = " ".join(chance.choice(names) for _ in range(chance.randrange(2, 5)))
        messages.append(result(f"c{turn}", f"{held} {'word ' * chance.randrange(20, 400)}"))
    messages.append({"role": "assistant", "content": f"It is {chance.choice(names)}."})
    return recording(messages)
