"""A recording with all that is decided before the first policy plays it: profile, window and prices."""

from __future__ import annotations

from collections import Counter

import msgspec

import legato
from legato import profiles
from legato.pipeline import OWN
from legato.policy import DEFAULT_OUTPUT
from legato.profiles import Profile
from legato.replay import prices
from legato.replay.policies import Setting
from legato.replay.prices import Price
from legato.replay.script import Script
from legato.transcripts.recording import Recording

WINDOW = 128_000
"""The window where neither the caller nor the model's profile names one."""


class Stage(msgspec.Struct, frozen=True):
    """What every policy is given, the prices, and what had to be assumed."""

    setting: Setting
    price: Price
    model: str | None
    notes: tuple[str, ...]

    @property
    def script(self) -> Script:
        return self.setting.script

    @classmethod
    def of(
        cls,
        recording: Recording,
        window: int | None = None,
        max_output: int | None = None,
        profile: str | Profile | None = None,
        model: str | None = None,
    ) -> Stage:
        """Find profile, window and price. Raises `UnknownProfile`, `PolicyError`, `WireError`."""
        answered = Counter(turn.model for turn in recording.turns if turn.model)
        named = model or (answered.most_common(1)[0][0] if answered else None)
        target = _profile(recording, profile, named)
        notes = []
        size = window or target.window
        if size is None:
            size = WINDOW
            notes.append(f"no window is known, {WINDOW:,} is taken")
        price = prices.price(named)
        if price is None:
            price = prices.reference()
            unknown = named or "the model, which is not named"
            notes.append(f"no price is known of {unknown}; those of {price.name} are used")
        output = min(DEFAULT_OUTPUT, size // 4) if max_output is None else max_output
        budget = legato.Policy(window=size, max_output=output).budget(size, output)
        setting = Setting(Script(recording, target), size, output, budget)
        return cls(setting, price, named, tuple(notes))


def _profile(recording: Recording, wanted: str | Profile | None, model: str | None) -> Profile:
    """Whose rules judge: the caller's, else those of the API that the recording is of, in the recording's format."""
    if isinstance(wanted, Profile):
        return wanted
    name = wanted or OWN[recording.format]
    found = profiles.get(f"{name}:{model}" if model and ":" not in name else name)
    if found.format == recording.format:
        return found
    return profiles.sibling(found.name, recording.format) or msgspec.structs.replace(found, format=recording.format)
