"""Recorded requests that providers took, through the proxy: each arrives at the upstream byte for byte."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from loopback import proxied
from test_recorded_requests import ACCEPTED, is_exception, requests

FILES = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
    "gemini": "/v1beta/models/{model}:generateContent",
}
AMPLE = {"window": 10**9, "fold": {}}


@pytest.mark.parametrize("name", FILES)
def test_recorded_requests_that_need_nothing_arrive_byte_for_byte(name: str) -> None:
    taken = [request for request in requests(name) if request.status == 200]
    assert len(taken) == ACCEPTED[name]
    with proxied(policies={"ample": AMPLE}, policy="ample", records=10) as running:
        for number, request in enumerate(taken):
            if is_exception(request):
                continue
            body = json.dumps(request.body, indent=1 + number % 3, ensure_ascii=number % 2 == 0).encode()
            model = quote(request.profile.partition(":")[2] or "m", safe="")
            reply = running.ask(FILES[name].format(model=model), body, x_legato_profile=request.profile)
            assert running.upstream.seen[-1].body == body, (request.id, reply.headers)
            assert (reply.status, reply.headers["x-legato-changes"]) == (200, "none"), request.id
