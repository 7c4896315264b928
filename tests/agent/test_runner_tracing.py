"""The spans of a run: one tree, by the conventions, and nothing of what was said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from legato import Policy
from legato.agent.events import BeforeRequest, Event, Hook, ToolStarted
from legato.agent.provider import ProviderError
from legato.agent.providers.scripted import Line, Scripted, call, says
from legato.agent.runner import AgentRunner
from legato.agent.tool import Output, Tool
from legato.agent.tracing import Tracing

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")
export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
processors = pytest.importorskip("opentelemetry.sdk.trace.export")

POLICY = Policy(window=32_000, max_output=1_000, counter=len)


async def act(path: str) -> Output:
    await asyncio.sleep(0)
    return Output(f"secret of {path}", error=path == "bad")


TOOLS = [Tool("look", "Look.", {"type": "object"}, act, reads_only=True)]


def spans(script: list[Line], cancel_at: type | None = None) -> list[Any]:
    kept = export.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(processors.SimpleSpanProcessor(kept))
    model = Scripted(script, "anthropic", "anthropic:claude-sonnet-4-5")
    runner: AgentRunner

    def cancel(event: Event) -> None:
        if type(event) is cancel_at:
            runner.cancel()

    hooks: list[Hook] = [Tracing(provider.get_tracer("test")), cancel]
    with AgentRunner(provider=model, tools=TOOLS, policy=POLICY, hooks=hooks) as runner:
        asyncio.run(runner.run("the task itself"))
    return list(kept.get_finished_spans())


def work() -> Line:
    usage = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 2}
    calls = [call("look", "a", path="good"), call("look", "b", path="bad")]
    return says("I look", "anthropic", *calls, usage=usage, finish="tool_use")


def test_requests_and_tools_are_spans_in_the_span_of_the_run() -> None:
    found = spans([work(), "the answer"])
    chat, run = "chat claude-sonnet-4-5", "invoke_agent legato"
    assert sorted(span.name for span in found) == [chat, chat, "execute_tool look", "execute_tool look", run]
    [top] = [span for span in found if span.name == run]
    assert all(span.parent.span_id == top.context.span_id for span in found if span is not top)
    first = next(span for span in found if span.name == chat)
    assert first.attributes["gen_ai.provider.name"] == "anthropic"
    assert first.attributes["gen_ai.usage.input_tokens"] == 10
    assert first.attributes["gen_ai.usage.output_tokens"] == 2
    assert first.attributes["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert first.attributes["gen_ai.request.max_tokens"] == 1_000
    tools = {span.attributes["gen_ai.tool.call.id"]: span.status.is_ok for span in found if "tool" in span.name}
    assert tools == {"a": True, "b": False} or tools["b"] is False
    said = " ".join(str(span.to_json()) for span in found)
    assert not [words for words in ("the task itself", "secret of", "I look", "the answer") if words in said]


@pytest.mark.parametrize("moment", [BeforeRequest, ToolStarted])
def test_a_cancelled_run_leaves_no_span_open(moment: type) -> None:
    found = spans([work(), "the answer"], moment)
    started = {"invoke_agent": 1, "chat": 1, "execute_tool": 0 if moment is BeforeRequest else 1}
    for operation, least in started.items():
        assert sum(span.attributes["gen_ai.operation.name"] == operation for span in found) >= least
    assert all(span.end_time is not None for span in found)
    assert [span for span in found if span.attributes.get("error.type") == "cancelled"]


def test_a_failed_request_is_a_failed_span() -> None:
    found = spans([ProviderError("on fire", status=500)])
    assert [span.attributes["error.type"] for span in found] == ["provider_error", "error"]
