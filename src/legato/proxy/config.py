"""What the operator states: where requests go, whose rules hold there, and what a client may cost."""

from __future__ import annotations

import ipaddress
import os
import ssl
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from legato import profiles
from legato.errors import PolicyError
from legato.policy import PRESETS, Policy

OFF = "off"
"""The policy under which nothing is governed."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one request may cost. Sizes are bytes; a compressed body counts as what it inflates to."""

    body: int = 64 * 2**20
    headers: int = 64 * 2**10
    header_seconds: float = 10
    """The request line and the headers must have come by then."""
    read_seconds: float = 60
    """So must the body of a governed request; other bodies pass as they come, with no longer pause than this."""
    govern_seconds: float = 20
    """Longer than this a body is not governed in a process of its own: that is a failure."""
    connect_seconds: float = 10
    upstream_seconds: float = 600
    """How long an upstream may be silent."""
    client_seconds: float = 300
    """How long a client may take nothing of an answer that waits for it."""
    concurrent: int = 2_000
    """Requests at once; one more is answered with 503."""
    memory: int = 2**30
    """Bodies that are held at once until they are answered, all together; one more is answered with 503."""


class Upstream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where requests go: those whose path starts with `path` (which is taken off), or whose model matches `models`.

    `models` are patterns such as `claude-*`. An upstream with neither takes what no other does. `profile` is told by
    the host where it is not stated, `policy`, `window` and `max_output` are as everywhere.
    """

    url: str
    name: str = ""
    path: str = ""
    models: tuple[str, ...] = ()
    profile: str | None = None
    policy: str | None = None
    window: int | None = None
    max_output: int | None = None

    @property
    def label(self) -> str:
        """What it is called in records, logs and metrics: its name, else its host."""
        return self.name or urlsplit(self.url).netloc


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. `tokens_env` names the variable that holds the tokens that clients need, by commas."""

    upstream: tuple[Upstream, ...]
    host: str = "127.0.0.1"
    port: int = 8787
    workers: int = 1
    policy: str = "cache-friendly"
    policies: dict[str, dict[str, Any]] = {}
    on_failure: Literal["pass", "refuse"] = "pass"
    calibrate: bool = True
    tokens_env: str | None = None
    ca: str | None = None
    """A file with certificates (PEM) that upstreams may be signed with, besides those that the system trusts."""
    hosts: tuple[str, ...] = ()
    """Names besides loopback's under which browsers may ask for `/_legato/` and `/metrics`."""
    contents: bool = False
    """Whether records hold what messages say."""
    records: int = 500
    inline: int = 256 * 2**10
    """A longer body is governed in a process of its own, so that nobody else waits for it."""
    remembered: int = 16 * 2**20
    """Conversations whose last requests have together so many bytes are remembered, in each process that governs: of
    their next request only what was appended is looked at. It takes about ten times the memory."""
    processes: int = 1
    """How many such processes a worker has; 0: none, everything is governed where it comes in."""
    spans: bool = False
    """Whether OpenTelemetry spans are made."""
    shutdown_seconds: int = 300
    """How long streams may go on after the signal to stop."""
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not self.upstream:
            raise PolicyError("no upstream: the proxy has nowhere to send requests")
        for upstream in self.upstream:
            _verify(upstream)
            self.policy_of(upstream)
        if self.ca is not None:
            _verify_ca(self.ca)
        names = [upstream.label for upstream in self.upstream]
        if len(set(names)) < len(names):
            raise PolicyError(f"upstreams need names that differ: {', '.join(names)}")
        for name in self.policies:
            self.policy_named(name)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def tokens(self) -> tuple[bytes, ...]:
        """What clients must show one of; none: anybody may. Raises `PolicyError` where they are wanted and absent."""
        if self.tokens_env is None:
            return ()
        found = tuple(each.strip().encode() for each in os.environ.get(self.tokens_env, "").split(",") if each.strip())
        if not found:
            raise PolicyError(f"tokens_env is {self.tokens_env}, and that variable is empty")
        return found

    def policy_named(self, name: str) -> Policy | None:
        """A preset, or one of `policies`; None is `off`. A name never is a file. Raises `PolicyError`."""
        if name == OFF:
            return None
        fields = self.policies.get(name)
        if fields is None:
            if name in PRESETS:
                return PRESETS[name]()
            raise PolicyError(f"no policy {name!r}; there are: {', '.join([OFF, *PRESETS, *self.policies])}")
        try:
            return Policy.of(fields)
        except PolicyError as problem:
            raise PolicyError(f"policy {name}: {problem}") from problem

    def policy_of(self, upstream: Upstream, name: str | None = None) -> Policy | None:
        """The policy for an upstream, or the named one, with the upstream's own sizes. Raises `PolicyError`."""
        policy = self.policy_named(name or upstream.policy or self.policy)
        sizes = {"window": upstream.window, "max_output": upstream.max_output}
        given = {field: size for field, size in sizes.items() if size is not None}
        return msgspec.structs.replace(policy, **given) if policy is not None and given else policy


def load(path: str | Path, **fields: Any) -> Config:
    """The configuration of a TOML file; `fields` that are not None go before the file's. Raises `PolicyError`."""
    try:
        stated: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        return made({**stated, **{name: value for name, value in fields.items() if value is not None}})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, PolicyError) as problem:
        raise PolicyError(f"{path}: {problem}") from problem


def made(fields: dict[str, Any]) -> Config:
    """The configuration of these fields. Raises `PolicyError`."""
    try:
        return msgspec.convert(fields, Config)
    except msgspec.ValidationError as problem:
        raise PolicyError(str(problem)) from problem


def profile_of(upstream: Upstream) -> str | None:
    """The stated profile, else the one of the host, else None: that of the API."""
    if upstream.profile is not None:
        return upstream.profile
    host = urlsplit(upstream.url).hostname or ""
    return next((name for ending, name in _hosts().items() if host == ending or host.endswith(f".{ending}")), None)


@cache
def _hosts() -> dict[str, str]:
    stated = tomllib.loads(resources.files(__package__).joinpath("hosts.toml").read_text(encoding="utf-8"))
    found: dict[str, str] = stated["hosts"]
    return found


def _verify_ca(file: str) -> None:
    try:
        ssl.create_default_context(cafile=file)
    except (ssl.SSLError, ValueError) as problem:
        raise PolicyError(f"ca: {file}: no certificate in PEM") from problem
    except OSError as problem:
        raise PolicyError(f"ca: {file}: {problem.strerror}") from problem


def _verify(upstream: Upstream) -> None:
    parts = urlsplit(upstream.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PolicyError(f"upstream {upstream.url!r} is no http or https URL")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise PolicyError(f"upstream {parts.hostname}: a URL without query, fragment and credentials is wanted")
    if upstream.path and not upstream.path.startswith("/"):
        raise PolicyError(f"upstream {parts.hostname}: path must start with a slash, not {upstream.path!r}")
    if upstream.profile is not None:
        profiles.get(upstream.profile)
