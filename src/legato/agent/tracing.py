"""OpenTelemetry spans of a run, by the semantic conventions for generative AI (1.38, 2025).

    runner = AgentRunner(provider=provider, tools=tools, hooks=[Tracing()])

`invoke_agent` is the run, `chat` a request in it, `execute_tool` a call. What was said is in none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from legato import wire
from legato.agent.events import (
    AfterRequest,
    BeforeRequest,
    Event,
    RequestFailed,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from legato.calibration import input_tokens
from legato.messages import Json

OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count")
"""The fields of a provider's usage that hold the tokens of the answer."""


class Tracing:
    """A hook for one runner at a time. `tracer` is OpenTelemetry's; the global one where none is given.

    Raises `ImportError` that says what to install where OpenTelemetry is missing.
    """

    def __init__(self, tracer: Any = None) -> None:
        try:
            self._trace: Any = import_module("opentelemetry.trace")
        except ImportError:
            raise ImportError("tracing needs opentelemetry-api: pip install 'legato[tracing]'") from None
        self._tracer = tracer or self._trace.get_tracer("legato")
        self._run: Any = None
        self._request: Any = None
        self._tools: dict[tuple[int, int], Any] = {}
        self._names: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                provider, _, model = event.profile.partition(":")
                self._names = {"gen_ai.provider.name": provider, **({"gen_ai.request.model": model} if model else {})}
                self._run = self._span("invoke_agent", "legato", {})
            case BeforeRequest():
                self._request = self._span("chat", self._names.get("gen_ai.request.model", ""), _of_request(event))
            case AfterRequest():
                self._end(self._request, _of_reply(event))
            case RequestFailed():
                self._fail(self._request, event.error, "overflow" if event.overflow else "provider_error")
            case ToolStarted():
                found = {"gen_ai.tool.name": event.name, "gen_ai.tool.type": "function"}
                found.update({"gen_ai.tool.call.id": event.id} if event.id else {})
                self._tools[event.request, event.nth] = self._span("execute_tool", event.name, found)
            case ToolFinished() if event.ran:
                span = self._tools.pop((event.request, event.nth))
                if event.error:
                    self._fail(span, "the tool failed", "tool_error")
                else:
                    self._end(span, {})
            case RunEnded():
                self._over(event)

    def _over(self, event: RunEnded) -> None:
        """End what a cancelled run has left open, and the run."""
        left = [*self._tools.values(), *([self._request] if self._request is not None else [])]
        for span in left:
            if span.is_recording():
                self._fail(span, "the run ended", event.result.stop)
        found = {"legato.stop": event.result.stop, "legato.requests": len(event.result.iterations)}
        if event.result.stop == "completed":
            self._end(self._run, found)
        else:
            self._run.set_attributes(found)
            self._fail(self._run, event.result.error or event.result.stop, event.result.stop)
        self._run, self._request, self._tools = None, None, {}

    def _span(self, operation: str, name: str, attributes: dict[str, Json]) -> Any:
        """A span in the run's, or the run's own in whatever is current."""
        kind = self._trace.SpanKind.CLIENT if operation == "chat" else self._trace.SpanKind.INTERNAL
        context = None if self._run is None else self._trace.set_span_in_context(self._run)
        named = self._names if operation != "execute_tool" else {}
        whole = {"gen_ai.operation.name": operation, **named, **attributes}
        return self._tracer.start_span(f"{operation} {name}".strip(), context=context, kind=kind, attributes=whole)

    def _end(self, span: Any, attributes: dict[str, Json]) -> None:
        span.set_attributes(attributes)
        span.end()

    def _fail(self, span: Any, words: str, kind: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.StatusCode.ERROR, words)
        span.end()


def _of_request(event: BeforeRequest) -> dict[str, Json]:
    report = event.iteration.report
    found: dict[str, Json] = {
        "gen_ai.request.max_tokens": wire.limits.output(event.body),
        "legato.purpose": event.iteration.purpose,
        "legato.tokens_in": report.tokens_in,
        "legato.tokens_out": report.tokens_out,
        "legato.budget": report.budget,
        "legato.changes": len(report.changes),
        "legato.context_share": event.context_share,
        "legato.prefix_share": event.iteration.prefix_share,
    }
    return {key: value for key, value in found.items() if value is not None}


def _of_reply(event: AfterRequest) -> dict[str, Json]:
    usage = event.reply.usage if isinstance(event.reply.usage, dict) else {}
    found: dict[str, Json] = {
        "gen_ai.usage.input_tokens": input_tokens(event.reply.usage),
        "gen_ai.usage.output_tokens": next((usage[key] for key in OUTPUT if isinstance(usage.get(key), int)), None),
    }
    found["gen_ai.response.finish_reasons"] = [event.reply.finish or event.reply.stop]
    return {key: value for key, value in found.items() if value is not None}
