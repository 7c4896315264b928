"""SIZE: what can be told about the size of a request without counting it. The fit does the counting."""

from __future__ import annotations

from collections.abc import Iterator

from legato.edits import HEAD, Edit, Request
from legato.profiles import Profile
from legato.rules.violation import Fix, Rule, Violation
from legato.wire import limits

CAP = Rule(
    "SIZE004", "output-cap-too-large", "The output that is asked for leaves no room in the window for the input."
)
SILENT = Rule("SIZE005", "silent-truncation", "What does not fit may be cut by the provider, without an error.")
TABLE = (CAP, SILENT)


def find(request: Request, profile: Profile) -> Iterator[Violation]:
    """The faults of the limits in the head."""
    asked = limits.output(request.head)
    if asked is not None and profile.output_counts and profile.window is not None and asked >= profile.window:
        most = profile.max_output or profile.window // 2
        head = limits.with_output(request.head, most)
        reason = f"{asked:,} tokens of output are asked for, the whole window has {profile.window:,}"
        fix = Fix(f"ask for {most:,}", "safe", (Edit(HEAD, (), CAP.code, reason, head),))
        yield Violation(CAP.code, None, reason, profile.severity("output_counts"), "output limit", fix)
    if request.head.get("truncation") == "auto":
        reason = 'truncation "auto" drops items from the beginning, the system text and halves of pairs among them'
        yield Violation(SILENT.code, None, reason, "warning", "truncation")
    elif profile.truncates:
        reason = "the provider cuts a request that is too long without an error"
        yield Violation(SILENT.code, None, reason, "warning", "")
