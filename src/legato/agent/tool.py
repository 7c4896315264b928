"""What a model may call: a name, a description, the schema of the arguments, and a function that runs.

    @tool(reads_only=True)
    def weather(city: str, days: int = 1) -> str:
        '''The weather of the next days.

        Args:
            city: Name of the city, in English.
            days: How many days, from today on.
        '''

Nothing that a model writes as arguments raises: what does not fit the schema, and what a function raises, comes back as
an `Output` with `error`, in words that the model can act on. Only cancellation passes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Annotated, Any, overload

import msgspec

from legato.agent.extra import need
from legato.messages import Json

Run = Callable[..., Awaitable["Output | str"]]
Ask = Callable[[dict[str, Json]], str | None]

MUTABLE = (list, dict, set)
LONGEST = 500
"""Characters of a value that a complaint about it repeats."""


class Output(msgspec.Struct, frozen=True):
    """What a call gives the model."""

    text: str
    error: bool = False


class ToolError(Exception):
    """A tool cannot do what was asked of it. Its text is for the model."""


class Tool(msgspec.Struct, frozen=True):
    """A tool and how it is run. `parameters` is the JSON schema of an object; `run` gets its fields as keywords."""

    name: str
    description: str
    parameters: dict[str, Json]
    run: Run
    reads_only: bool = False
    """Changes nothing: it may run at the same time as other such calls of one turn."""
    asks: Ask | None = None
    """The question to put to the person before a call with these arguments runs. None: it needs no leave."""
    bounded: bool = False
    """Its results are short by its own doing, or are read back from a store: they are never put in one."""

    def definition(self) -> dict[str, Json]:
        """The tool as OpenAI's chat API lists it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def question(self, arguments: object) -> str | None:
        """What to ask the person before this call. None: nothing, or the call will be refused for its arguments."""
        if self.asks is None:
            return None
        try:
            return self.asks(self._checked(arguments))
        except ToolError:
            return None

    async def call(self, arguments: object) -> Output:
        """Run it with arguments as the model wrote them: an object, or the JSON text of one."""
        try:
            checked = self._checked(arguments)
        except ToolError as problem:
            return Output(f"{self.name} was not run: {problem}", error=True)
        [result] = await asyncio.gather(self._run(checked), return_exceptions=True)
        if isinstance(result, Output):
            return result
        if isinstance(result, str):
            return Output(result)
        if isinstance(result, Exception):
            return Output(reason(result), error=True)
        if isinstance(result, BaseException):
            raise result
        return Output(f"{self.name} returned {type(result).__name__}, not text", error=True)

    async def _run(self, arguments: dict[str, Json]) -> Output | str:
        return await self.run(**arguments)

    def _checked(self, arguments: object) -> dict[str, Json]:
        """The arguments as an object that fits the schema. Raises `ToolError`."""
        given = _parsed(arguments)
        fields = self.parameters.get("properties", {})
        # Many models write null where they mean the default.
        defaults = {
            name for name, field in fields.items() if isinstance(field, dict) and field.get("default") is not None
        }
        given = {name: value for name, value in given.items() if value is not None or name not in defaults}
        jsonschema, referencing = need("jsonschema"), need("referencing")
        kind = jsonschema.validators.validator_for(self.parameters, default=jsonschema.Draft202012Validator)
        # With a registry of our own a `$ref` to some URL is an error; without it jsonschema would fetch it.
        validator = kind(self.parameters, registry=referencing.Registry())
        try:
            problems = sorted(validator.iter_errors(given), key=lambda problem: problem.json_path)
        except (jsonschema.exceptions.SchemaError, referencing.exceptions.Unresolvable) as problem:
            raise ToolError(f"its schema is broken: {problem}") from None
        except RecursionError:
            raise ToolError("its arguments are nested too deeply") from None
        if problems:
            lines = [f"{problem.json_path[2:] or 'arguments'}: {_short(problem.message)}" for problem in problems[:5]]
            raise ToolError("the arguments do not fit its schema. " + "; ".join(lines))
        return given


@overload
def tool(
    function: Callable[..., Any], *, reads_only: bool = False, asks: Ask | None = None, bounded: bool = False
) -> Tool: ...
@overload
def tool(
    function: None = None, *, reads_only: bool = False, asks: Ask | None = None, bounded: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    reads_only: bool = False,
    asks: Ask | None = None,
    bounded: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function. Its docstring (Google, reST or NumPy style) describes it and its arguments.

    The function returns text, an `Output`, or a value that becomes JSON. One that is not async runs in a thread, which
    goes on when the call is cancelled; the program's end does not wait for it. Raises `TypeError` for an argument
    without a type, or of one that JSON has not.
    """
    if function is None:
        return lambda function: tool(function, reads_only=reads_only, asks=asks, bounded=bounded)
    name = function.__name__
    documented = need("docstring_parser").parse(inspect.getdoc(function) or "")
    struct = _arguments(function, {each.arg_name: each.description for each in documented.params})

    async def run(**arguments: Json) -> Output | str:
        try:
            values = msgspec.convert(arguments, struct, strict=False)  # 5.0 is an integer, to JSON schema too
        except msgspec.ValidationError as problem:
            raise ToolError(f"{name} was not run: {problem}") from None
        given = {each: getattr(values, each) for each in arguments}
        if inspect.iscoroutinefunction(function):
            result = await function(**given)
        else:
            result = await _in_thread(partial(function, **given))
        return result if isinstance(result, str | Output) else msgspec.json.encode(result).decode()

    return Tool(name, (documented.description or "").strip(), _schema(struct), run, reads_only, asks, bounded)


async def _in_thread(work: Callable[[], Any]) -> Any:
    """What it returns, from a thread of its own: one that never ends is in nobody's way, as it would be in a pool."""
    promise: Future[tuple[Any, BaseException | None]] = Future()
    promise.set_running_or_notify_cancel()
    context = copy_context()

    def run() -> None:
        value, failed = None, None
        try:
            value = context.run(work)
        except BaseException as failure:  # noqa: BLE001 -- whatever it is, it is raised where it is waited for
            failed = failure
        promise.set_result((value, failed))  # as an exception of the future StopIteration would never arrive

    Thread(target=run, daemon=True).start()
    value, failed = await asyncio.wrap_future(promise)
    if failed is not None:
        raise failed
    return value


def reason(failure: Exception) -> str:
    """Why a tool failed, in a line or two."""
    if isinstance(failure, ToolError):
        return str(failure)
    if isinstance(failure, OSError) and failure.strerror:
        place = f": {failure.filename}" if isinstance(failure.filename, str) else ""
        return f"{failure.strerror}{place}"
    return f"{type(failure).__name__}: {failure}"


def _parsed(arguments: object) -> dict[str, Json]:
    """The object that a model wrote. Nothing at all is an object without fields. Raises `ToolError`."""
    if isinstance(arguments, str | bytes):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
            raise ToolError(f"its arguments are no JSON ({problem}): {_short(str(arguments))}") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ToolError(f"its arguments must be a JSON object, not {_short(repr(arguments))}")
    return dict(arguments)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def _arguments(function: Callable[..., Any], described: Mapping[str, str | None]) -> type[msgspec.Struct]:
    """The arguments of a function as a struct. Raises `TypeError`."""
    fields: list[Any] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        where = f"argument {parameter.name} of {function.__name__}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where} cannot be given by name")
        if parameter.annotation is parameter.empty:
            raise TypeError(f"{where} has no type")
        description = " ".join((described.get(parameter.name) or "").split())
        kind = parameter.annotation
        if description:
            kind = Annotated[kind, msgspec.Meta(description=description)]
        field = [parameter.name, kind]
        if parameter.default is not parameter.empty:
            field.append(_default(parameter.default))
        fields.append(tuple(field))
    return msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)


def _default(value: Any) -> Any:
    return msgspec.field(default_factory=lambda: value) if isinstance(value, MUTABLE) else value


def _schema(struct: type[msgspec.Struct]) -> dict[str, Json]:
    """The JSON schema of a struct, as one object; types that it names are in `$defs`."""
    (reference,), definitions = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    schema: dict[str, Json] = definitions.pop(reference["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    return {**schema, "$defs": definitions} if definitions else schema
