"""A typed function as a tool: its schema, and that no arguments a model writes can do more than be refused."""

from __future__ import annotations

import asyncio
import enum
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.agent.extra import need
from legato.agent.tool import Output, Tool, ToolError, tool


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclass
class Place:
    city: str
    height: float = 0.0


@tool(reads_only=True)
def weather(
    place: Place, days: int = 1, unit: Unit = Unit.CELSIUS, kind: Literal["rain", "sun"] | None = None
) -> list[str]:
    """The weather of the next days.

    It may be wrong.

    Args:
        place: Where,
            and how high.
        days: How many days, from today on.

    Returns:
        What nobody needs to know.
    """
    return [place.city, str(place.height), str(days), unit.value, str(kind)]


@tool
def echo(text: str, times: int = 1) -> str:
    """Say it again."""
    return text * times


def call(tool: Tool, arguments: object) -> Output:
    return asyncio.run(tool.call(arguments))


# -- the schema --------------------------------------------------------------------------------------------------------


def test_the_signature_and_the_docstring_are_the_definition() -> None:
    assert weather.definition() == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of the next days.\n\nIt may be wrong.",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"$ref": "#/$defs/Place", "description": "Where, and how high."},
                    "days": {"type": "integer", "default": 1, "description": "How many days, from today on."},
                    "unit": {"$ref": "#/$defs/Unit", "default": "c"},
                    "kind": {"anyOf": [{"enum": ["rain", "sun"]}, {"type": "null"}], "default": None},
                },
                "required": ["place"],
                "additionalProperties": False,
                "$defs": {
                    "Place": {
                        "title": "Place",
                        "type": "object",
                        "properties": {"city": {"type": "string"}, "height": {"type": "number", "default": 0.0}},
                        "required": ["city"],
                    },
                    "Unit": {"title": "Unit", "enum": ["c", "f"]},
                },
            },
        },
    }
    assert weather.reads_only
    need("jsonschema").Draft202012Validator.check_schema(weather.parameters)


@pytest.mark.parametrize(
    "docstring",
    [
        "Say.\n\nArgs:\n    word: What to say.",
        "Say.\n\n:param word: What to say.",
        "Say.\n\nParameters\n----------\nword : str\n    What to say.",
    ],
    ids=["google", "rest", "numpy"],
)
def test_arguments_are_described_in_any_of_three_styles(docstring: str) -> None:
    def say(word: str) -> str:
        return word

    say.__doc__ = docstring
    made = tool(say)
    assert made.description == "Say."
    assert made.parameters["properties"]["word"]["description"] == "What to say."


def test_a_function_that_cannot_be_called_by_typed_names_is_refused() -> None:
    def untyped(word) -> str:  # type: ignore[no-untyped-def]
        return str(word)

    def many(*words: str) -> str:
        return "".join(words)

    def hidden(word: str, /) -> str:
        return word

    def strange(word: threading.Lock) -> str:
        return str(word)

    with pytest.raises(TypeError, match="argument word of untyped has no type"):
        tool(untyped)
    with pytest.raises(TypeError, match="argument words of many cannot be given by name"):
        tool(many)
    with pytest.raises(TypeError, match="argument word of hidden cannot be given by name"):
        tool(hidden)
    with pytest.raises(TypeError, match="not supported"):
        tool(strange)


def test_a_method_is_a_tool_without_its_self() -> None:
    class Counter:
        total = 0

        def count(self, by: int = 1) -> int:
            """Count on."""
            self.total += by
            return self.total

    counter = Counter()
    made = tool(counter.count)
    assert list(made.parameters["properties"]) == ["by"]
    assert call(made, {"by": 2}) == Output("2")
    assert counter.total == 2


# -- calls -------------------------------------------------------------------------------------------------------------


def test_values_come_as_the_types_of_the_signature() -> None:
    given = {"place": {"city": "Rome", "height": 20}, "days": 3, "unit": "f", "kind": "sun"}
    for arguments in (given, json.dumps(given), json.dumps(given).encode()):
        assert call(weather, arguments) == Output('["Rome","20.0","3","f","sun"]')


def test_an_integer_may_be_written_as_a_float_and_a_default_as_null() -> None:
    assert call(echo, '{"text": "a", "times": 2.0}') == Output("aa")
    assert call(echo, '{"text": "a", "times": null}') == Output("a")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('{"text": "a"', "its arguments are no JSON"),
        ('{"text": NaN}', "its arguments are no JSON"),
        ("[" * 100_000, "its arguments are no JSON"),
        (b'{"text": "\xff"}', "its arguments are no JSON"),
        ('["a"]', "its arguments must be a JSON object"),
        (None, "'text' is a required property"),
        ("", "'text' is a required property"),
        ({"text": 1}, "text: 1 is not of type 'string'"),
        ({"text": "a", "times": "2"}, "times: '2' is not of type 'integer'"),
        ({"text": "a", "times": True}, "times: True is not of type 'integer'"),
        ({"text": "a", "loud": True}, "('loud' was unexpected)"),
        ({"text": "a", "times": 2.5}, "times: 2.5 is not of type 'integer'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(arguments: object, complaint: str) -> None:
    output = call(echo, arguments)
    assert output.error
    assert output.text.startswith("echo was not run: ")
    assert complaint in output.text
    assert len(output.text) < 2_000


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(arguments=JSONS | st.text() | st.binary() | st.dictionaries(st.sampled_from(["text", "times", "x"]), JSONS))
def test_nothing_that_a_model_writes_raises(arguments: object) -> None:
    output = call(echo_once, arguments)
    assert isinstance(output.text, str)


@tool
def echo_once(text: str, times: int = 1) -> str:
    """Say it, not too often."""
    return text * (times % 5)


def test_what_a_function_raises_is_the_models_to_read() -> None:
    @tool
    def fail(how: str) -> str:
        """Fail."""
        if how == "tool":
            raise ToolError("try it the other way")
        if how == "empty":
            next(iter(()))
        if how == "system":
            raise FileNotFoundError(2, "No such file or directory", "a.txt")
        raise KeyError("secret")

    assert call(fail, {"how": "tool"}) == Output("try it the other way", error=True)
    assert call(fail, {"how": "system"}) == Output("No such file or directory: a.txt", error=True)
    assert call(fail, {"how": "empty"}) == Output("RuntimeError: coroutine raised StopIteration", error=True)
    assert call(fail, {"how": "else"}) == Output("KeyError: 'secret'", error=True)


def test_a_result_that_is_no_text_is_an_error_where_nothing_can_make_it_one() -> None:
    async def run() -> Any:
        return 5

    assert call(Tool("five", "", {"type": "object"}, run), {}) == Output("five returned int, not text", error=True)


def test_cancelling_a_call_cancels_what_runs_and_passes() -> None:
    async def scenario() -> str:
        begun, state = asyncio.Event(), "never began"

        @tool
        async def wait() -> str:
            """Wait."""
            nonlocal state
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                state = "cancelled"
                raise
            return ""

        task = asyncio.create_task(wait.call({}))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return state

    assert asyncio.run(scenario()) == "cancelled"


def test_a_function_that_is_not_async_does_not_hold_up_the_others() -> None:
    async def scenario() -> list[Output]:
        meet = threading.Barrier(2, timeout=60)

        @tool(reads_only=True)
        def both() -> str:
            """Return when two are here."""
            meet.wait()
            return "met"

        return list(await asyncio.gather(both.call({}), both.call({})))

    assert asyncio.run(scenario()) == [Output("met"), Output("met")]


STUCK = """
import asyncio, threading
from legato.agent.tool import tool

begun = threading.Event()

@tool
def stuck() -> str:
    "Never come back."
    begun.set()
    threading.Event().wait()

async def main():
    task = asyncio.create_task(stuck.call({}))
    await asyncio.to_thread(begun.wait)
    task.cancel()

asyncio.run(main())
"""


def test_a_function_that_never_returns_does_not_keep_the_program_from_ending() -> None:
    assert subprocess.run([sys.executable, "-c", STUCK], timeout=300, check=False).returncode == 0


def test_the_question_is_put_about_the_arguments_as_they_will_be_run() -> None:
    async def run(**_: Any) -> str:
        return ""

    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    asking = Tool("do", "", schema, run, asks=lambda arguments: f"Do {arguments['what']}?")
    assert asking.question('{"what": "it"}') == "Do it?"
    assert asking.question({"what": 5}) is None
    assert call(asking, {"what": 5}).error
    assert echo.question({"text": "a"}) is None


def test_a_schema_that_refers_to_an_address_fetches_nothing() -> None:
    async def run(**_: Any) -> str:
        return "run"

    # A warning is an error in these tests, and jsonschema warns before it fetches.
    for reference in ("http://127.0.0.1:9/x", "#/$defs/nowhere"):
        output = call(Tool("t", "", {"type": "object", "properties": {"a": {"$ref": reference}}}, run), {"a": 1})
        assert output.error
        assert "its schema is broken" in output.text
