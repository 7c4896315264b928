"""What `legato check` found, and how much it looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from legato.cli.terminal import count
from legato.report import CODES
from legato.rules import Violation
from legato.transcripts.files import Conversation
from legato.transcripts.recording import Recording


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation and where it was found. It holds nothing of the conversation, which may be large."""

    file: str
    line: int | None
    profile: str | None
    code: str
    name: str
    at: int | None
    place: str
    severity: str
    message: str
    fix: dict[str, str] | None

    @classmethod
    def of(cls, violation: Violation, conversation: Conversation | Recording, profile: str | None) -> Finding:
        fix = None if violation.fix is None else {"title": violation.fix.title, "safety": violation.fix.safety}
        return cls(
            conversation.file,
            conversation.line_of(violation.at),
            profile,
            violation.code,
            CODES[violation.code].name,
            violation.at,
            violation.place,
            violation.severity,
            violation.message,
            fix,
        )


@dataclass
class Tally:
    """How much was read. By profile (None: the payload's own): errors, warnings, conversations refused."""

    profiles: Sequence[str | None]
    files: int = 0
    conversations: int = 0
    errors: dict[str | None, int] = field(default_factory=dict)
    warnings: dict[str | None, int] = field(default_factory=dict)
    refused: dict[str | None, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    """Files of a folder or pattern without a conversation in them."""
    unread: list[str] = field(default_factory=list)
    """What could not be read, and why."""
    damage: list[str] = field(default_factory=list)
    """What is broken in a session file, and was read around."""

    def count(self, profile: str | None, violations: Iterable[Violation]) -> None:
        """What one profile says of one conversation."""
        severities = [violation.severity for violation in violations]
        errors = severities.count("error")
        _add(self.errors, {profile: errors})
        _add(self.warnings, {profile: len(severities) - errors})
        _add(self.refused, {profile: int(errors > 0)})

    def add(self, other: Tally) -> None:
        """What was read besides."""
        self.files += other.files
        self.conversations += other.conversations
        self.damage += other.damage
        _add(self.errors, other.errors)
        _add(self.warnings, other.warnings)
        _add(self.refused, other.refused)

    @property
    def scope(self) -> str:
        """How much was read, in words."""
        files = "" if self.files == 1 else f" in {count(self.files, 'file')}"
        return count(self.conversations, "conversation") + files


def _add(sums: dict[str | None, int], more: dict[str | None, int]) -> None:
    for key, number in more.items():
        sums[key] = sums.get(key, 0) + number
