"""The shape of the code: sizes, public names, what an import does, whose names stand where."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import legato
from legato.rules import RULES, Rule
from legato.tokens.images import FORMULAS
from legato.tokens.rates import RATES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "legato"
PAGES = ROOT / "docs" / "rules"
FOLDERS = ("src", "tests", "bench", "examples")

LONG_FILE, LONGEST_FILE = 300, {"src": 400, "tests": 600, "bench": 400, "examples": 400}
LONG_FUNCTION, LONGEST_FUNCTION = 50, 80
DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set)

HEAVY = {
    *("asyncio", "tiktoken", "regex", "rich", "typer", "click", "openai", "anthropic", "google"),
    *("httpx", "aiohttp", "requests", "starlette", "uvicorn"),
}

LOADED = """
import sys
before = set(sys.modules)
import legato
sys.stdout.write("loaded: " + " ".join(set(sys.modules) - before))
"""

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")
PROVIDERS = re.compile(r"openai|anthropic|gemini|bedrock", re.IGNORECASE)
MODELS = re.compile(
    r"\b(gpt|chatgpt|claude|sonnet|opus|haiku|gemma|mi[sx]tral|glm|deepseek|kimi|minimax|qwen|grok|groq|llama|cohere|o[134])\b",
    re.IGNORECASE,
)
TESTING = {
    *("startswith", "endswith", "removeprefix", "find", "index", "count", "partition", "split"),
    *("match", "fullmatch", "search", "compile", "fnmatch", "fnmatchcase"),
}
"""The calls that test a text against another."""


# -- sizes -------------------------------------------------------------------------------------------------------------


def _files(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py"))


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """Every function's name and lines, its docstring apart."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            yield node.name, (node.end_lineno or 0) - first.lineno + 1


def _length(source: str) -> int:
    """The lines of a file, save those of its tables: lists of cases, and values of module level that are literals."""
    lines = len(source.splitlines())
    for node in ast.parse(source).body:
        tables: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, DISPLAYS):
            tables = [node.value]
        elif isinstance(node, ast.FunctionDef):
            tables = node.decorator_list
        lines -= sum((table.end_lineno or table.lineno) - table.lineno for table in tables)
    return lines


def _sizes() -> Iterator[tuple[str, int, int, int]]:
    """Every file and function: its name, its lines, from when on it is long, and its maximum."""
    for folder in FOLDERS:
        for path in _files(folder):
            name = str(path.relative_to(ROOT))
            yield name, _length(path.read_text(encoding="utf-8")), LONG_FILE, LONGEST_FILE[folder]
            for function, lines in _functions(path):
                yield f"{name}: {function}", lines, LONG_FUNCTION, LONGEST_FUNCTION


@pytest.mark.filterwarnings("default::UserWarning")
def test_no_file_or_function_is_past_its_maximum() -> None:
    long = [(f"{name}: {lines} lines", lines > maximum) for name, lines, limit, maximum in _sizes() if lines > limit]
    if long:
        grown = "; ".join(name for name, _ in long)
        warnings.warn(f"past {LONG_FILE} lines a file or {LONG_FUNCTION} a function: {grown}", stacklevel=1)
    assert [name for name, too_long in long if too_long] == []


# -- the public names --------------------------------------------------------------------------------------------------


def test_the_public_names_are_few_sorted_and_all_that_can_be_imported() -> None:
    assert len(legato.__all__) <= 20
    assert list(legato.__all__) == sorted(legato.__all__)
    assert all(getattr(legato, name) is not None for name in legato.__all__)
    importable = {name for name, value in vars(legato).items() if name[0] != "_" and not isinstance(value, ModuleType)}
    assert importable - {"annotations"} <= set(legato.__all__)


def test_an_import_prints_nothing_writes_nothing_and_loads_nothing_heavy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOADED],
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    printed, _, loaded = done.stdout.partition("loaded: ")
    assert (printed, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []
    roots = {name.partition(".")[0] for name in loaded.split()}
    assert "legato" in roots
    assert not roots & HEAVY


# -- rules and their pages ---------------------------------------------------------------------------------------------


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(legato.__path__, "legato."):
        if found.name.startswith(("legato.rules", "legato.fit")):
            yield importlib.import_module(found.name)


def _rules() -> dict[str, Rule]:
    """Every rule that a module of the rules or of the fit defines."""
    return {value.code: value for module in _modules() for value in vars(module).values() if isinstance(value, Rule)}


def test_every_rule_of_the_families_is_in_the_table_and_no_code_means_two() -> None:
    fit = {code for code in _rules() if code.startswith("SIZE")}
    assert set(RULES) | fit == set(_rules())
    assert all(rule.code == code for code, rule in RULES.items())
    names = [rule.name for rule in _rules().values()]
    assert len(names) == len(set(names))


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    assert {path.stem for path in PAGES.glob("*[0-9].md")} == set(_rules())


# -- provider facts live in profiles -----------------------------------------------------------------------------------


def _tested(tree: ast.AST) -> set[int]:
    """The lines of nodes that test a text: comparisons, patterns of `match`, calls such as `startswith`."""
    found: set[int] = set()
    for node in ast.walk(tree):
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if isinstance(node, ast.Compare | ast.MatchValue) or called in TESTING:
            found |= {id(inner) for inner in ast.walk(node)}
    return found


RIM = ("agent", "proxy", "transcripts")
"""The rooms that speak with one API or read one agent's files, each in a module of its own."""


def _prose(tree: ast.AST) -> set[int]:
    """The strings that stand alone as a statement: docstrings."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def strange_names(source: str, *, wire: bool, known: frozenset[str]) -> Iterator[str]:
    """The names of providers and models that a module's strings use as logic.

    Sentences are prose. Names of models never stand in a string, except as a whole key of a known table. Names of
    providers are names of wire formats too: in `wire/` they may be part of any string, elsewhere a string may be
    the whole name, and may not be compared with anything.
    """
    tree = ast.parse(source)
    prose, tested = _prose(tree), _tested(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
            continue
        text = node.value
        is_name = text in known and id(node) not in tested
        if is_name or (" " in text.strip() and id(node) not in tested):
            continue
        if MODELS.search(text) or (PROVIDERS.search(text) and not wire):
            yield f"{node.lineno}: {text!r}"


def test_no_code_outside_profiles_knows_a_provider_or_a_model() -> None:
    known = frozenset((*FORMATS, *RATES, *FORMULAS))
    found = []
    for path in _files("src"):
        room = path.relative_to(PACKAGE).parts[0]
        if room not in ("profiles", *RIM):
            names = strange_names(path.read_text(encoding="utf-8"), wire=room == "wire", known=known)
            found += [f"{path.relative_to(ROOT)}:{name}" for name in names]
    assert not found, "provider facts belong in profiles/*.toml:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "wire", "strange"),
    [
        ('if "sonnet" in name: pass', False, True),
        ('if model.startswith("gpt-4"): pass', False, True),
        ('WINDOWS = {"claude-3": 200_000}', False, True),
        ('if profile.name == "anthropic": pass', False, True),
        ('match name:\n case "gemini": pass', True, False),
        ('match name:\n case "gemini": pass', False, True),
        ('re.compile("mistral|mixtral")', True, True),
        ('codec("anthropic")', False, False),
        ('"""As gpt-4o counts."""', False, False),
        ('raise ValueError("no profile; try openai or mistral")', False, False),
        ('HEADS = {"anthropic_version": ANTHROPIC}', True, False),
        ('HEADS = {"anthropic_version": ANTHROPIC}', False, True),
    ],
)
def test_the_search_for_names_tells_logic_from_prose(source: str, wire: bool, strange: bool) -> None:
    assert bool(list(strange_names(source, wire=wire, known=frozenset(FORMATS)))) is strange
