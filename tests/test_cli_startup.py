"""What the command leaves unloaded until it is needed, so that it answers soon."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from legato.cli import COMMANDS

LATE = ("tiktoken", "asyncio", "importlib.metadata", "legato.tokens.vocabulary", "legato.transcripts.files")
"""What `legato --help` has no use for."""

LIST = "import sys; print(*sys.modules, file=sys.stderr)"


def loaded(*arguments: str) -> set[str]:
    """The modules that a run of the command has loaded when it ends."""
    program = f"import sys; from legato.cli import main; main(sys.argv[1:]); {LIST}"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_loads_nothing_that_was_installed_but_legato_and_msgspec() -> None:
    bare = subprocess.run([sys.executable, "-c", LIST], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in loaded("--help") - set(bare.stderr.split())}
    assert packages - sys.stdlib_module_names - {"typing_extensions"} == {"legato", "msgspec"}


def test_help_loads_no_command_and_no_vocabulary() -> None:
    modules = loaded("--help")
    assert "legato.cli" in modules
    assert {f"legato.cli.{name}" for name in COMMANDS}.isdisjoint(modules)
    assert modules.isdisjoint(LATE)


def test_a_command_loads_no_other_and_check_counts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('[{"role": "user", "content": "hello"}]', encoding="utf-8")
    modules = loaded("check", str(file))
    assert "legato.cli.check" in modules
    assert {"legato.cli.govern", "tiktoken", "legato.tokens.vocabulary"}.isdisjoint(modules)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_a_module_that_names_its_arguments_and_runs(name: str) -> None:
    module = import_module(f"legato.cli.{name}")
    assert callable(module.arguments)
    assert callable(module.run)


def test_the_version_is_that_of_the_package() -> None:
    done = subprocess.run([sys.executable, "-m", "legato", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"legato {version('legato')}\n"
