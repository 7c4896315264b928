"""A request that is governed: judged, sent, and if the upstream finds it too long, sent once more and smaller."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic, perf_counter

from legato import overflow
from legato.errors import GovernanceError
from legato.proxy import bodies, headers, logs, opening, routes
from legato.proxy.account import Account
from legato.proxy.config import Upstream, profile_of
from legato.proxy.core import NESTING, Ask, Decision, Verdict, is_smaller, shrink
from legato.proxy.exchange import Exchange
from legato.proxy.refusals import Refusal
from legato.proxy.upstream import Answer, UpstreamError
from legato.rules import RULES

ERROR = 2**20
"""Bytes of an error that are read to see whether it says "too long"."""
OTHERWISE = frozenset((401, 403, 404, 405, 407, 408))
"""Statuses of errors that never say so."""
WHY = 200
"""Characters of a reason that records hold."""
SOON = 0.002
"""Seconds after which the account of a request is made, while its answer is waited for."""


async def serve(exchange: Exchange, api: routes.Api, model: str) -> None:
    """Governs a request of an API; `model` is what its path names, if anything."""
    exchange.record.api = api.name
    raw = await exchange.read()
    plain, unread = await _inflated(exchange, raw)
    body_model = "" if model else routes.model_in(plain)
    upstream, url = exchange.choose(model or body_model)
    policy_name = headers.told(exchange.headers, "policy")
    exchange.record.policy = (policy_name or upstream.policy or exchange.config.policy)[:100]
    exchange.record.profile = (headers.told(exchange.headers, "profile") or profile_of(upstream) or "")[:100]
    began = perf_counter()
    ask = None
    try:
        ask = _asked(exchange, upstream, api, plain, model, body_model)
        if ask is None:
            await _send_untouched(exchange, url, raw)
            return
        verdict = await exchange.proxy.governors.judge(ask) if not unread else _failed(unread, "Unreadable")
    except GovernanceError as problem:
        verdict = _failed(str(problem), type(problem).__name__)
    if not api.renames and (verdict.decision.ids or verdict.decision.tool_names):
        verdict = _failed("a name has to change, and could not be changed back in the answer", "Unreadable")
    exchange.record.governing = (perf_counter() - began) * 1_000
    _note(exchange, verdict.decision)
    await _exchanged(exchange, url, raw, ask, verdict)


async def _inflated(exchange: Exchange, raw: bytes) -> tuple[bytes, str]:
    """The plain body, or none and why. Raises `Refusal` where it inflates to too much."""
    encoding = headers.get(exchange.headers, b"content-encoding").decode("latin-1").strip().lower()
    if encoding in ("", "identity"):
        return raw, ""
    most = exchange.config.limits.body
    try:
        # In a thread: a small body may inflate to a large one, and others need not wait for that.
        return await asyncio.to_thread(bodies.inflate, raw, encoding, most), ""
    except bodies.TooLarge:
        raise Refusal(413, "body-too-large", f"the body inflates to more than {most:,} bytes") from None
    except bodies.Unreadable as problem:
        return b"", str(problem)


def _asked(
    exchange: Exchange, upstream: Upstream, api: routes.Api, plain: bytes, model: str, body_model: str
) -> Ask | None:
    """What the core is asked, None where the policy is `off`. Raises `PolicyError` for a name that is none."""
    policy = exchange.config.policy_of(upstream, headers.told(exchange.headers, "policy"))
    if policy is None:
        return None
    known = exchange.proxy.learnt.of(exchange.record.upstream, model or body_model, monotonic())
    return Ask(
        body=plain,
        format=api.format,
        policy=policy,
        profile=exchange.record.profile or None,
        model=model,
        calibration=known if exchange.config.calibrate else None,
        contents=exchange.config.contents,
    )


def _note(exchange: Exchange, decision: Decision) -> None:
    """What was decided, into the record. Raises `Refusal` where the operator wants one for a failure."""
    record = exchange.record
    record.model, record.stream = decision.model[:200], decision.stream
    named = headers.told(exchange.headers, "conversation")
    record.conversation = named[:64] if named else decision.conversation
    record.outcome = "untouched" if decision.body is None else "governed"
    if decision.failure == NESTING:
        raise Refusal(400, "nested-too-deeply", NESTING)
    if decision.failure:
        record.outcome, record.error = "failed", decision.kind
        record.why = decision.failure.removeprefix(f"{decision.kind}: ")[:WHY]
        if decision.fault:
            logs.say("fault", logging.ERROR, where=decision.fault)
        if exchange.config.on_failure == "refuse":
            raise Refusal(422, "not-governed", headers.reason(decision.failure), decision.failure[:WHY])


def _failed(words: str, kind: str) -> Verdict:
    return Verdict(Decision(failure=words, kind=kind))


async def _send_untouched(exchange: Exchange, url: str, raw: bytes) -> None:
    """Under the policy `off` a request is not even looked at."""
    exchange.record.bytes_out = len(raw)
    sent = headers.forwarded(exchange.headers)
    answer = await exchange.proxy.client.send(exchange.record.method, url, sent, raw)
    exchange.release()
    await exchange.relay(answer)


async def _exchanged(exchange: Exchange, url: str, raw: bytes, ask: Ask | None, verdict: Verdict) -> None:
    """The answer to what was decided, passed on, and learnt from."""
    record = exchange.record
    try:
        answer = await _sent(exchange, url, raw, verdict)
    finally:
        exchange.account = verdict.decision.account
        record.take(exchange.account)
    decision = verdict.decision
    try:
        if ask is not None:
            answer, verdict = await _retried(exchange, url, answer, ask, verdict)
            decision = verdict.decision
    except BaseException:
        answer.close()
        raise
    exchange.release()
    account = exchange.account
    record.take(account)
    if decision.stream:
        exchange.prints = verdict.prints()  # a stream may be long, and is not to hold what was governed
    await exchange.relay(answer, _added(decision, account, record.retried), decision)
    exchange.prints = verdict.prints()
    if not exchange.config.calibrate or account is None or decision.unseen:
        return
    if record.reported and answer.status < 300:
        exchange.proxy.learnt.answered(
            record.upstream, decision.model, account, record.reported, decision.messages, monotonic()
        )


async def _sent(exchange: Exchange, url: str, raw: bytes, verdict: Verdict) -> Answer:
    """The answer when its headers are there. While it is waited for, the account is made. Raises `UpstreamError`."""
    decision = verdict.decision
    body = raw if decision.body is None else decision.body
    exchange.record.bytes_out = len(body)
    sent = headers.forwarded(
        exchange.headers,
        length=None if decision.body is None else len(body),
        plain=bool(decision.ids or decision.tool_names),
    )
    sending = asyncio.create_task(exchange.proxy.client.send(exchange.record.method, url, sent, body))
    try:
        await asyncio.wait((sending,), timeout=SOON)
        verdict.account()
        if not sending.done():
            verdict.prints()
        return await sending
    except asyncio.CancelledError:
        sending.cancel()
        with suppress(asyncio.CancelledError, UpstreamError):
            (await sending).close()
        raise


async def _retried(exchange: Exchange, url: str, answer: Answer, ask: Ask, verdict: Verdict) -> tuple[Answer, Verdict]:
    """If the answer says "too long": the one to a smaller request, if that is taken. Else the answer as it is."""
    proxy, decision = exchange.proxy, verdict.decision
    account = decision.account
    if account is None or decision.unseen or answer.status in OTHERWISE:
        return answer, verdict
    said = await _error(answer)
    refused = None if said is None else overflow(answer.status, said)
    if refused is None:
        return answer, verdict
    if exchange.config.calibrate:
        proxy.learnt.refused(exchange.record.upstream, decision.model, account, refused, monotonic())
    smaller = shrink(ask, account, refused)
    again = await proxy.governors.judge(smaller)
    again.account()
    if not is_smaller(again.decision, account, smaller):
        return answer, verdict
    exchange.record.retried = True
    second = await _taken(exchange, url, again)
    if second is None:
        return answer, verdict
    answer.close()
    exchange.account = again.decision.account
    exchange.record.outcome = "governed"
    return second, again


async def _taken(exchange: Exchange, url: str, again: Verdict) -> Answer | None:
    """The answer to the smaller request; None if that too comes to nothing."""
    try:
        answer = await _sent(exchange, url, b"", again)
    except UpstreamError:
        return None
    try:
        if await _error(answer) is None:
            return answer
    except UpstreamError:
        pass
    except BaseException:
        answer.close()
        raise
    answer.close()
    return None


async def _error(answer: Answer) -> bytes | None:
    """What is wrong, as far as the upstream says it readably; None if nothing is. Raises `UpstreamError`."""
    if answer.status < 400:
        return await opening.error(answer) if opening.is_stream(answer) else None
    if not await answer.start(ERROR):
        return b"?"
    try:
        return bodies.inflate(answer.read, answer.header("content-encoding"), ERROR)
    except (bodies.TooLarge, bodies.Unreadable):
        return b"?"


def _added(decision: Decision, account: Account | None, retried: bool) -> list[tuple[str, str]]:
    """The headers that say what was done."""
    if decision.failure:
        return [("x-legato-failed", headers.reason(decision.failure))]
    if account is None:
        return []
    changes = ", ".join(f"{code}={times}" for code, (times, _) in sorted(account.changes.items()))
    fold = str(account.folds) if account.kept is None else f"{account.folds}; now; kept={account.kept}"
    if not account.folds and any(code not in RULES for code in account.changes):
        fold = "each"
    added = [
        ("x-legato-changes", changes or "none"),
        ("x-legato-tokens-in", str(account.tokens_in)),
        ("x-legato-tokens-out", str(account.tokens_out)),
        ("x-legato-fold", fold),
    ]
    return [*added, ("x-legato-retried", "1")] if retried else added
