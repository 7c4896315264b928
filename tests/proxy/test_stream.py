"""What is read off an answer, and how names come back in it, however it is cut into pieces and compressed."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.proxy import bodies
from legato.proxy.stream import Renamer, Tap
from loopback import CHAT, END, Seen, chunk, events, proxied, start

SQUEEZES: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]),
    "deflate": zlib.compress,
    "br": brotli.compress,
}
USAGES = [
    ("text/event-stream", b"".join(events([{"choices": [{"delta": {"content": "a token"}}]}, CHAT], done=True)), 12),
    ("text/event-stream", b"".join(events([{"type": "message_start", "message": {"usage": {"input_tokens": 3}}}])), 3),
    (
        "text/event-stream",
        b"event: response.completed\r\n" + events([{"response": {"usage": {"input_tokens": 8}}}])[0].strip(),
        8,
    ),
    ("application/json", json.dumps(CHAT, indent=2).encode(), 12),
    ("application/json", json.dumps([{"usageMetadata": {"promptTokenCount": n}} for n in (4, 4)]).encode(), 4),
    ("application/json", b'{"usage": {"prompt_tokens"', None),
    ("text/plain", json.dumps(CHAT).encode(), None),
    ("text/event-stream", b"data: tokens\n\ndata: [DONE]\n\n", None),
]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("encoding", SQUEEZES)
@pytest.mark.parametrize("kind", range(len(USAGES)))
@given(places=st.lists(st.integers(0, 400), max_size=6))
def test_usage_is_read_whatever_the_pieces_and_the_encoding(kind: int, encoding: str, places: list[int]) -> None:
    content_type, data, reported = USAGES[kind]
    tap = Tap(content_type, encoding)
    for piece in cut(SQUEEZES[encoding](data), places):
        tap.feed(piece)
    assert tap.end() == reported


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "?"])
def test_rubbish_in_an_answer_teaches_nothing_and_harms_nothing(encoding: str) -> None:
    tap = Tap("application/json", encoding)
    for piece in (b"\x1f\x8b rubbish", b"more"):
        tap.feed(piece)
    assert tap.end() is None


def test_of_an_endless_line_no_more_is_held_than_its_bound() -> None:
    tap = Tap("text/event-stream", "")
    for _ in range(40):
        tap.feed(b"x" * 2**20)
    assert len(tap._rest) == 0
    assert tap.end() is None


IDS, NAMES = {"abcdefghi": "functions.read:0"}, {"read_file": "read.file now"}
CALLS: list[Any] = [
    {"choices": [{"delta": {"tool_calls": [{"id": "abcdefghi", "function": {"name": "read_file", "arguments": ""}}]}}]},
    {
        "type": "content_block_start",
        "content_block": {"type": "tool_use", "id": "abcdefghi", "name": "read_file", "input": {}},
    },
    {
        "type": "response.output_item.added",
        "item": {"call_id": "abcdefghi", "name": "read_file", "arguments": "read_file"},
    },
    {
        "response": {
            "object": "response",
            "output": [{"type": "function_call", "name": "read_file", "call_id": "abcdefghi"}],
        }
    },
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "read_file", "args": {"name": "read_file"}}}]}}]},
    {"output": {"message": {"content": [{"text": "read_file abcdefghi"}]}}},
    {"choices": [{"delta": {"content": "read_file é abcdefghi"}}]},
]
EXPECTED: list[Any] = [
    {
        "choices": [
            {
                "delta": {
                    "tool_calls": [{"id": IDS["abcdefghi"], "function": {"name": "read.file now", "arguments": ""}}]
                }
            }
        ]
    },
    {
        "type": "content_block_start",
        "content_block": {"type": "tool_use", "id": IDS["abcdefghi"], "name": "read.file now", "input": {}},
    },
    {
        "type": "response.output_item.added",
        "item": {"call_id": IDS["abcdefghi"], "name": "read.file now", "arguments": "read_file"},
    },
    {
        "response": {
            "object": "response",
            "output": [{"type": "function_call", "name": "read.file now", "call_id": IDS["abcdefghi"]}],
        }
    },
    {
        "candidates": [
            {"content": {"parts": [{"functionCall": {"name": "read.file now", "args": {"name": "read_file"}}}]}}
        ]
    },
    CALLS[5],
    CALLS[6],
]


@pytest.mark.parametrize("encoding", SQUEEZES)
@given(places=st.lists(st.integers(0, 1_500), max_size=6))
def test_names_come_back_in_a_stream_and_all_else_stays(encoding: str, places: list[int]) -> None:
    data = b": note\n\n" + b"".join(events(CALLS, done=True))
    renamer = Renamer("text/event-stream", encoding, IDS, NAMES)
    passed = b"".join([renamer.feed(piece) for piece in cut(SQUEEZES[encoding](data), places)]) + renamer.end()
    lines = passed.decode().split("\n")
    assert (lines[0], lines[-3:]) == (": note", ["data: [DONE]", "", ""])
    assert [json.loads(line[6:]) for line in lines[2:-3] if line] == EXPECTED


@pytest.mark.parametrize("at", range(len(CALLS)))
def test_names_come_back_in_a_whole_answer(at: int) -> None:
    renamer = Renamer("application/json", "", IDS, NAMES)
    data = json.dumps(CALLS[at]).encode()
    assert json.loads(renamer.feed(data[:9]) + renamer.feed(data[9:]) + renamer.end()) == EXPECTED[at]


def test_an_event_passes_as_soon_as_it_is_whole() -> None:
    renamer = Renamer("text/event-stream", "", IDS, NAMES)
    first, second = events(CALLS[:2])
    assert renamer.feed(first + second[:20]).count(b"\n\n") == 1
    assert renamer.feed(second[20:]).count(b"\n\n") == 1


@given(data=st.binary(max_size=3_000), most=st.integers(0, 3_000), encoding=st.sampled_from(["gzip", "deflate"]))
def test_a_body_is_inflated_whole_or_refused_for_its_size(data: bytes, most: int, encoding: str) -> None:
    squeezed = SQUEEZES[encoding](data)
    if len(data) > most:
        with pytest.raises(bodies.TooLarge):
            bodies.inflate(squeezed, encoding, most)
    else:
        assert bodies.inflate(squeezed, encoding, most) == data


@given(data=st.binary(max_size=200), encoding=st.sampled_from(["gzip", "deflate", "br", "x"]))
def test_whatever_is_sent_as_compressed_is_inflated_or_refused(data: bytes, encoding: str) -> None:
    with suppress(bodies.Unreadable, bodies.TooLarge):
        bodies.inflate(data, encoding, 1_000)


@pytest.mark.parametrize("encoding", SQUEEZES)
def test_the_bytes_of_a_stream_pass_untouched_as_they_arrive(encoding: str) -> None:
    data = SQUEEZES[encoding](b"".join(events([CHAT] * 30, done=True)))
    pieces = cut(data, list(range(0, len(data), 97)))

    def script(_: Seen) -> list[bytes]:
        named: dict[str, Any] = {"content_encoding": encoding} if encoding else {}
        return [start(**named), *(chunk(piece) for piece in pieces if piece), END]

    plain = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    with proxied(script) as running:
        reply = running.ask("/v1/chat/completions", plain, accept_encoding="br, gzip")
        assert (reply.body, reply.whole) == (data, True)
        assert reply.headers.get("content-encoding", "") == encoding
        assert running.upstream.seen[0].header("accept-encoding") == "br, gzip"
        record = running.settled()
        assert (record.reported, record.stream) == (12, True)
