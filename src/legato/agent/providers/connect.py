"""From the name of a provider to the provider: class, address, key and profile.

provider = connect("deepseek:deepseek-v4-pro")
provider = connect("llama.cpp", base_url="http://127.0.0.1:8080/v1")
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from legato import profiles
from legato.agent.provider import LLMProvider, ProviderError
from legato.agent.providers.anthropic import Anthropic
from legato.agent.providers.gemini import Gemini
from legato.agent.providers.openai_chat import OLD_LIMIT, OpenAIChat
from legato.agent.providers.openai_responses import OpenAIResponses
from legato.profiles.load import read

OTHERS: dict[str, Callable[..., LLMProvider]] = {
    "openai-responses": OpenAIResponses,
    "anthropic": Anthropic,
    "gemini": Gemini,
}
"""The class for a format, but for the one whose copies differ."""
SDK_KNOWS = frozenset(("openai", "openai-responses", "anthropic", "gemini"))
"""The profiles whose address the SDK itself knows."""
NO_KEY = "none"
"""What is sent as a key to a server that wants none: the SDKs insist on one."""


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `connect.toml`, which says what its fields mean."""

    source: str
    date: str
    base_url: str | None = None
    keys: tuple[str, ...] = ()
    keyless: bool = False
    model: str | None = None
    limit: str | None = None
    stream_usage: bool = True


@cache
def endpoints() -> dict[str, Endpoint]:
    """The providers whose address is known, by the name of their profile."""
    file = resources.files("legato.agent.providers").joinpath("connect.toml")
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), dict[str, Endpoint])


def connect(
    name: str, model: str | None = None, base_url: str | None = None, api_key: str | None = None
) -> LLMProvider:
    """The provider of that profile: `connect("glm", "glm-5.3")` or `connect("glm:glm-5.3")`. Nothing is sent yet.

    Address and key are those of `connect.toml` unless given. Raises `UnknownProfile`; `ProviderError` that says what is
    missing: model, address or key; `ImportError` that says what to install.
    """
    name, _, of_name = name.partition(":")
    name = read("_aliases")[-1].aliases.get(name, name)
    profile = profiles.get(name)
    known = endpoints().get(name) or Endpoint(source="", date="", keyless=True)
    chosen = model or of_name or known.model
    if not chosen:
        raise ProviderError(f"which model of {name}? Name it: {name}:MODEL")
    if profile.format not in (*OTHERS, "openai-chat"):
        raise ProviderError(
            f"{name} has a format of its own; Claude there: Anthropic(MODEL, client=anthropic.AsyncAnthropicBedrock())"
        )
    if base_url is None and name not in SDK_KNOWS and known.base_url is None:
        raise ProviderError(f"the address of {name} is not known: give a base_url")
    options: dict[str, Any] = {
        "profile": f"{name}:{chosen}" if chosen != known.model else name,
        "base_url": base_url or known.base_url,
        "api_key": api_key or _key(name, known, own_address=base_url is not None),
    }
    return _provider(profile.format, chosen, known, options)


def _key(name: str, known: Endpoint, own_address: bool) -> str:
    found = next((os.environ[variable] for variable in known.keys if os.environ.get(variable)), None)
    if found is None and not (known.keyless or own_address):
        raise ProviderError(f"no key for {name}: set {' or '.join(known.keys)}")
    return found or NO_KEY


def _provider(form: str, model: str, known: Endpoint, options: dict[str, Any]) -> LLMProvider:
    if form == "openai-chat":
        return OpenAIChat(model, limit=known.limit or OLD_LIMIT, stream_usage=known.stream_usage, **options)
    return OTHERS[form](model, **options)
