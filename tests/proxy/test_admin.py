"""What an operator sees: records, their feed, metrics, health, and the headers of each answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopback import CHAT, Running, proxied, says

PATH = "/v1/chat/completions"


def turns(count: int) -> Any:
    messages: list[Any] = [{"role": "user", "content": f"turn {n} " + "word " * 50} for n in range(count)]
    return {"model": "gpt-4o", "messages": messages}


def listed(running: Running, query: str = "") -> list[Any]:
    running.settled()
    found: list[Any] = running.ask(f"/_legato/api/requests{query}", method="GET").json["requests"]
    return found


def test_a_record_says_what_became_of_a_request() -> None:
    orphan = {"role": "tool", "tool_call_id": "x", "content": "?"}
    with proxied(profile="openai") as running:
        broken = turns(2)
        broken["messages"].insert(1, orphan)
        running.ask(PATH, broken)
        running.ask("/v1/models", method="GET")
        governed, passed = listed(running)
        expected = {
            "outcome": "governed",
            "status": 200,
            "api": "chat",
            "model": "gpt-4o",
            "profile": "openai",
            "policy": "cache-friendly",
            "reported": 12,
            "folded": False,
            "retried": False,
            "path": PATH,
        }
        assert {key: governed[key] for key in expected} == expected
        code, (times, tokens) = next(iter(governed["changes"].items()))
        assert (code, times, governed["tokens_in"] + tokens) == ("PAIR001", 1, governed["tokens_out"])
        assert governed["tokens_out"] <= governed["budget"]
        assert 0 < governed["governing"] < governed["milliseconds"]
        assert (passed["outcome"], passed["path"], passed["tokens_in"]) == ("passed", "/v1/models", None)


def test_requests_of_one_conversation_share_a_key_and_say_how_much_prefix_was_kept() -> None:
    with proxied(profile="openai") as running:
        for count in (1, 3, 6):
            running.ask(PATH, turns(count))
        other = turns(2)
        other["messages"][0]["content"] = "something else"
        running.ask(PATH, other)
        running.ask(PATH, turns(1), x_legato_conversation="mine")
        first, second, third, another, named = listed(running)
        assert first["conversation"] == second["conversation"] == third["conversation"] != another["conversation"]
        assert (first["prefix_kept"], second["prefix_kept"], third["prefix_kept"]) == (None, 1.0, 1.0)
        assert another["prefix_kept"] is None
        assert named["conversation"] == "mine"


def test_a_fold_is_named_in_header_and_record_and_breaks_the_prefix_it_says() -> None:
    conversation: list[Any] = [{"role": "user", "content": "start"}]
    folded = []
    with proxied(profile="openai", window=2_600, max_output=100, calibrate=False) as running:
        for turn in range(14):
            conversation.append({"role": "assistant", "content": f"answer {turn} " + "said " * 90})
            conversation.append({"role": "user", "content": f"question {turn} " + "word " * 90})
            reply = running.ask(PATH, {"model": "m", "messages": conversation})
            assert int(reply.headers["x-legato-tokens-out"]) <= 2_600 - 100 - 1_024
            folded.append("now" in reply.headers["x-legato-fold"])
        records = listed(running)
    assert [record["folded"] for record in records] == folded
    assert 0 < sum(folded) < 8
    broke = [record["prefix_kept"] < 1 for record in records[1:]]
    assert broke == folded[1:]


def test_the_header_counts_folds_that_only_clear_results_and_says_where_a_policy_has_none() -> None:
    session: list[Any] = [{"role": "user", "content": "start"}]
    fields: dict[str, Any] = {"profile": "openai", "window": 20_000, "max_output": 500, "calibrate": False}
    said: dict[str, list[str]] = {"cache-friendly": [], "document": []}
    with proxied(**fields) as running:
        for turn in range(70):
            call = {"id": f"c{turn}", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
            session.append({"role": "assistant", "content": None, "tool_calls": [call]})
            session.append({"role": "tool", "tool_call_id": f"c{turn}", "content": "line " * 400})
            for policy, headers in said.items():
                reply = running.ask(PATH, {"model": "m", "messages": session}, x_legato_policy=policy)
                cut = "SIZE" in reply.headers["x-legato-changes"]
                headers.append(reply.headers["x-legato-fold"])
                assert cut == (headers[-1] != "0")
        cleared = next(record["changes"].keys() for record in listed(running) if record["folded"])
    folds = said["cache-friendly"]
    assert "1; now; kept=1" in folds
    assert (
        folds.index("1; now; kept=1") < folds.index("1") < folds.index(next(each for each in folds if each[0] == "2"))
    )
    assert set(said["document"]) == {"0", "each"}
    assert cleared == {"SIZE001"}


def test_the_ring_is_bounded_and_listed_from_where_one_was() -> None:
    with proxied(records=3) as running:
        for _ in range(5):
            running.ask("/v1/models", method="GET")
        assert [row["id"] for row in listed(running)] == [3, 4, 5]
        assert [row["id"] for row in listed(running, "?after=4")] == [5]
        assert [row["id"] for row in listed(running, "?limit=1")] == [5]
        assert listed(running, "?limit=x&after=-1") == listed(running)
        assert listed(running, "?limit=0") == []
        assert running.ask("/_legato/api/requests/1", method="GET").status == 404
        assert running.ask("/_legato/api/requests/99999999999999999999", method="GET").status == 404
        assert running.ask("/_legato/api/requests/5", method="GET").json["id"] == 5


def test_the_feed_sends_each_record_as_it_is_made_and_ends_with_the_server() -> None:
    with proxied() as running, running.connect() as connection, connection.makefile("rb") as reading:
        connection.sendall(b"GET /_legato/api/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert next(line for line in reading if line.startswith(b": legato"))
        running.ask(PATH, turns(1))
        told = next(line for line in reading if line.startswith(b"data: "))
        assert json.loads(told[6:])["path"] == PATH
        running.stopping()
        reading.read()


def test_metrics_count_requests_tokens_and_changes() -> None:
    with proxied(profile="openai") as running:
        broken = turns(2)
        broken["messages"].append({"role": "tool", "tool_call_id": "x", "content": "?"})
        for body in (turns(1), broken, b"{"):
            running.ask(PATH, body)
        running.settled()
        text = running.ask("/metrics", method="GET").body.decode()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        name = running.proxy.config.upstream[0].label
        for outcome in ("untouched", "governed", "failed"):
            row = f'legato_requests_total{{api="chat",outcome="{outcome}",status="200",upstream="{name}"}}'
            assert values[row] == "1.0"
        assert values['legato_changes_total{code="PAIR001"}'] == "1.0"
        assert float(values['legato_tokens_total{side="reported"}']) == 36
        assert values["legato_active_requests"] == "0.0"
        assert values["legato_governing_seconds_count"] == "3.0"


def test_health_readiness_and_what_is_not_there() -> None:
    with proxied() as running:
        assert running.ask("/_legato/health", method="GET").json == {"status": "ok"}
        assert running.ask("/_legato/ready", method="GET").status == 200
        summary = running.ask("/_legato/api/summary", method="GET").json
        assert summary["upstreams"][0]["url"] == running.proxy.config.upstream[0].url
        for path in ("/_legato/../v1", "/_legato/x", "/_legato/rules/X.md", "/_legato/page/style.css"):
            assert running.ask(path, method="GET").status == 404
        assert running.ask("/_legato/api/requests", b"{}").status == 405
        assert running.upstream.seen == []


def test_a_request_becomes_a_span_under_the_client_s_own() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    api = pytest.importorskip("opentelemetry.trace")
    exporter = memory.InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    api.set_tracer_provider(provider)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with proxied(says(CHAT), spans=True, profile="openai") as running:
        running.ask(PATH, turns(1), traceparent=parent)
        running.settled()
        assert running.upstream.seen[0].header("traceparent") == parent
    (span,) = exporter.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == parent[3:35]
    assert span.attributes["legato.outcome"] == "untouched"
    assert span.attributes["gen_ai.usage.input_tokens"] == 12
