"""The dashboard's own files, and the pages of the rules it links to. They hold nothing of any request."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from legato import rules
from legato.report import CODES
from legato.rules import RULES

KINDS = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "md": b"text/markdown; charset=utf-8",
}
NAME = re.compile(r"[a-z][a-z-]*\.(?:html|css|js|svg)")

POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
GUARDS = (
    (b"content-security-policy", POLICY),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of all that is ours: nothing but the page's own files runs, nothing is framed, nothing is sent elsewhere."""


def find(path: str) -> tuple[bytes, bytes] | None:
    """The type and the bytes of what stands at a path below `/_legato/`, None where nothing does."""
    folder, slash, name = path.rpartition("/")
    if slash:
        code = name.removesuffix(".md")
        text = _rule(code) if folder == "rules" and name.endswith(".md") and code in CODES else None
        return None if text is None else (KINDS["md"], text)
    name = name or "index.html"
    return _file(name) if NAME.fullmatch(name) else None


def catalogue() -> dict[str, dict[str, object]]:
    """Every code: its name, what it finds, and whether it is about the budget instead of what is refused."""
    return {
        code: {"name": rule.name, "summary": rule.summary, "fits": code not in RULES} for code, rule in CODES.items()
    }


@cache
def _file(name: str) -> tuple[bytes, bytes] | None:
    file = resources.files(__package__) / "page" / name
    return (KINDS[name.rpartition(".")[2]], file.read_bytes()) if file.is_file() else None


@cache
def _rule(code: str) -> bytes:
    rule = CODES[code]
    return (rules.page(code) or f"# {code} {rule.name}\n\n{rule.summary}\n").encode()
