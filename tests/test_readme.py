"""The READMEs are true: their example prints what they say, and both say the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
READMES = ("README.md", "README.zh-CN.md")


def blocks(name: str, language: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", READMES)
def test_the_example_prints_what_the_readme_shows(name: str) -> None:
    [code], [printed] = blocks(name, "python"), blocks(name, "text")
    run = subprocess.run([sys.executable, "-X", "utf8", "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == printed


def test_both_readmes_show_the_same_code_and_the_same_links() -> None:
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in READMES)
    assert blocks("README.md", "python") == blocks("README.zh-CN.md", "python")
    links = [set(re.findall(r"\]\(([^)]+)\)", text)) - set(READMES) for text in (english, chinese)]
    assert links[0] == links[1]
    assert english.count("\n## ") == chinese.count("\n## ")


@pytest.mark.parametrize("name", READMES)
def test_every_link_of_the_readme_leads_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


def test_the_two_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in READMES:
        commands = set(re.findall(r"^make (\w+)", "\n".join(blocks(name, "sh")), re.MULTILINE))
        assert commands == {"run", "test"}
        assert commands <= targets
