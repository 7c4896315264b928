"""docs/agent.md is true: its example prints what it shows, its commands are accepted, its lists are complete."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import get_args

import pytest

from legato.agent import events
from legato.agent.result import Ending, Purpose
from legato.agent.tools import workspace_tools
from legato.cli import run_options
from legato.recall import open_store

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_example_prints_what_the_page_shows() -> None:
    [code], [printed] = blocks("python"), blocks("text")
    run = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == printed


@pytest.mark.parametrize("code", blocks("python no-run"))
def test_what_is_not_run_can_be_parsed_and_imports_what_is_there(code: str) -> None:
    tree = ast.parse(f"async def page():\n{re.sub('^', '    ', code, flags=re.MULTILINE)}")
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    run = subprocess.run([sys.executable, "-c", "\n".join(imports)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_every_option_and_no_other_is_on_the_page() -> None:
    parser = argparse.ArgumentParser()
    run_options.arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    section = PAGE[PAGE.index("## `legato run`") :]
    assert set(re.findall(r"--[a-z][a-z-]+", section)) == known - {"--help"}


def test_every_event_and_each_of_its_fields_is_in_the_table() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE[PAGE.index("### `--json`") :], re.MULTILINE))
    kinds = [kind.__struct_config__.tag for kind in get_args(events.Event)]
    assert list(rows) == ["type", "session", *kinds]
    assert all(f"`{purpose}`" in rows["before_request"] for purpose in get_args(Purpose))
    assert all(f"`{ending}`" in PAGE for ending in get_args(Ending))


def test_every_tool_of_the_workspace_is_named(tmp_path: Path) -> None:
    section = PAGE[PAGE.index("## Tools") : PAGE.index("## Sessions")]
    for each in workspace_tools(tmp_path, recall=open_store(tmp_path / "store")):
        assert f"`{each.name}`" in section, each.name


def test_every_link_and_the_picture_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
    assert ElementTree.parse(ROOT / "docs" / "agent.svg").getroot().tag.endswith("svg")
