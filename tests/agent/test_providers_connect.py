"""From a name to a provider: class, address, key, profile, and what is said where one of them is missing."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import Any

import pytest

import legato
from apis import chat_whole
from legato import profiles
from legato.agent.provider import ProviderError
from legato.agent.providers.connect import connect, endpoints
from model_server import ModelServer, Whole

OWN_ADDRESS = {"azure", "bedrock", "copilot", "portable", "strict-template", "tgi"}
"""The profiles of deployments, gateways and rules that have no one address."""


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for endpoint in endpoints().values():
        for variable in endpoint.keys:
            monkeypatch.delenv(variable, raising=False)


def test_every_profile_is_known_or_has_no_one_address() -> None:
    assert set(profiles.NAMES) - OWN_ADDRESS == endpoints().keys() - OWN_ADDRESS
    assert endpoints().keys() <= set(profiles.NAMES)


@pytest.mark.parametrize("name", sorted(endpoints()))
def test_every_entry_says_where_it_is_from(name: str) -> None:
    endpoint = endpoints()[name]
    assert endpoint.source
    assert re.fullmatch(r"20\d\d-[01]\d", endpoint.date)
    assert endpoint.keys
    local = endpoint.base_url is not None and endpoint.base_url.startswith("http://127.0.0.1:")
    assert local == endpoint.keyless
    assert local or endpoint.base_url is None or endpoint.base_url.startswith("https://")


@pytest.mark.parametrize("name", sorted(set(profiles.NAMES) - OWN_ADDRESS))
def test_every_known_provider_connects_with_a_key_and_speaks_its_profiles_format(name: str) -> None:
    provider = connect(name, "some-model", api_key="a key")
    assert provider.profile == f"{name}:some-model"
    assert provider.format == profiles.get(provider.profile).format


@pytest.mark.parametrize("name", sorted(OWN_ADDRESS - {"bedrock"}))
def test_the_others_want_an_address(name: str) -> None:
    with pytest.raises(ProviderError, match="base_url"):
        connect(name, "some-model", api_key="a key")
    assert connect(name, "some-model", "http://127.0.0.1:9/v1").format == profiles.get(name).format


def test_a_format_without_an_sdk_is_named() -> None:
    with pytest.raises(ProviderError, match="AsyncAnthropicBedrock"):
        connect("bedrock", "some-model", "http://127.0.0.1:9", "a key")


def test_the_model_may_stand_in_the_name() -> None:
    assert connect("glm:glm-5.3", api_key="a key").profile == "glm:glm-5.3"


def test_another_name_of_a_provider_is_understood() -> None:
    assert connect("moonshot:kimi-k3", api_key="a key").profile == "kimi:kimi-k3"


def test_a_model_is_asked_for() -> None:
    with pytest.raises(ProviderError, match=r"which model of glm"):
        connect("glm", api_key="a key")


def test_a_key_is_asked_for_by_its_variable() -> None:
    with pytest.raises(ProviderError, match="DEEPSEEK_API_KEY"):
        connect("deepseek:deepseek-v4-pro")


def test_an_unknown_provider_is_unknown() -> None:
    with pytest.raises(legato.UnknownProfile):
        connect("nobody:x")


def ask(provider: Any) -> None:
    async def asking() -> None:
        async with provider:
            await provider.complete({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5})

    asyncio.run(asking())


@pytest.mark.parametrize(
    ("name", "variable", "key"),
    [("kimi:kimi-k3", "MOONSHOT_API_KEY", "from the variable"), ("llama.cpp", None, "none"), ("vllm:m", None, "none")],
)
def test_the_key_comes_from_its_variable(
    name: str, variable: str | None, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, key)
    with ModelServer(Whole(chat_whole({"content": "Hi"}))) as server:
        ask(connect(name, base_url=server.url))
    headers = {key.lower(): value for key, value in server.asked[0].headers.items()}
    assert headers["authorization"] == f"Bearer {key}"


@pytest.mark.parametrize(("name", "limit"), [("openai:gpt-5", "max_completion_tokens"), ("glm:glm-5.3", "max_tokens")])
def test_the_output_limit_goes_by_the_providers_name_for_it(name: str, limit: str) -> None:
    with ModelServer(Whole(chat_whole({"content": "Hi"}))) as server:
        ask(connect(name, base_url=server.url, api_key="a key"))
    assert [key for key in server.asked[0].body if key.startswith("max_")] == [limit]


def test_no_sdk_is_loaded_before_a_provider_is_made() -> None:
    code = """
import sys
import legato.agent.providers.connect
print(sorted({"openai", "anthropic", "google.genai", "httpx", "httpx2"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "missing"), [("openai:m", "openai"), ("anthropic:m", "anthropic"), ("gemini:m", "google")]
)
def test_a_missing_sdk_is_named_with_what_to_install(name: str, missing: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from legato.agent.providers.connect import connect
connect({name!r}, api_key="a key")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "legato[agent]" in done.stderr.splitlines()[-1]
