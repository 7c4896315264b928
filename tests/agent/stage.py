"""What the runner's tests share: tools, scripts in any wire format, and the judges of what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from legato.agent.events import BeforeRequest, Event
from legato.agent.providers.scripted import Line, call, says
from legato.agent.tool import Tool, tool
from legato.messages import ToolCall
from providers import WALKERS

PROFILES = {
    "openai-chat": "portable",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
FORMATS = list(PROFILES)
KEYS = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "gemini": "contents"}
WORDS = "the cat of a night under every stone is still there and nobody has asked for it yet\n"


def prose(size: int, seed: int) -> str:
    """Text of so many characters, which is like no other text."""
    line = f"{seed * 7919 % 10007} {WORDS}"
    return (line * (size // len(line) + 1))[:size]


def reader(sizes: Callable[[int], int], name: str = "read_file") -> Tool:
    """A tool whose result for part `n` is so many characters long."""

    async def read(part: int) -> str:
        """Read a part."""
        return prose(sizes(part), part)

    read.__name__ = name
    return tool(read, reads_only=True)


def faults(body: Any, form: str) -> list[str]:
    """What the second opinion on this format would refuse in a body."""
    found: list[str] = WALKERS[PROFILES[form]](body)
    return found


class Log:
    """A hook that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def requests(self) -> list[BeforeRequest]:
        return self.of(BeforeRequest)


def rounds(turns: Iterable[list[ToolCall]], form: str, end: str = "done") -> Iterator[Line]:
    """A turn of calls for each list, and then a final answer."""
    for calls in turns:
        yield says("", form, *calls)
    yield end


def reading(turn: int, parts: int = 1) -> list[ToolCall]:
    """Calls that read so many parts at the same time, under ids that come again in every turn."""
    return [call("read_file", f"call_{nth}", part=turn * 10 + nth) for nth in range(parts)]


def texts(value: Any) -> list[str]:
    """Every text inside a wire value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inner for text in texts(part)]
