"""The files in `examples/proxy` work, and the documentation names every setting there is."""

from __future__ import annotations

import re
from pathlib import Path

from legato.proxy.config import Config, Limits, Upstream, load

ROOT = Path(__file__).parents[2]


def test_the_example_file_is_read_and_its_upstreams_have_their_policies() -> None:
    config = load(ROOT / "examples" / "proxy" / "legato.toml")
    local = config.upstream[-1]
    policy = config.policy_of(local)
    assert policy is not None
    assert (policy.window, policy.max_output, policy.reserve) == (32_768, 2_048, 256)
    assert policy.fold is not None
    assert policy.microcompact is None


def test_the_file_in_the_documentation_is_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")
    (stated,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "legato.toml"
    file.write_text(stated, encoding="utf-8")
    assert [upstream.name for upstream in load(file).upstream] == ["openai", "anthropic", "local"]


def test_every_setting_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "proxy.md").read_text(encoding="utf-8")
    names = [*Config.__struct_fields__, *Limits.__struct_fields__, *Upstream.__struct_fields__]
    told = re.findall(r"`\[?\[?(\w+)", text) + re.findall(r"^(\w+) = ", text, re.MULTILINE)
    assert [name for name in names if name not in told] == []
