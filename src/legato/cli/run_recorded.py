"""The recording that `legato run --recorded` plays."""

from __future__ import annotations

import os

from legato import profiles
from legato.agent.providers.recorded import Recorded
from legato.cli.failure import Failure
from legato.pipeline import OWN
from legato.transcripts import readers
from legato.transcripts.recording import Recording

PLAIN = "portable"
"""The profile of a format that many providers speak: a model's name alone does not say whose rules hold."""


def find(name: str) -> Recording:
    """The conversation that `FILE` or `FILE#NAME` names: by its label, else the n-th; without either the first.

    Raises `Failure`, `OSError` and `WireError`, with the place.
    """
    file, wanted = name, ""
    if not os.path.exists(name) and "#" in name:
        file, _, wanted = name.rpartition("#")
    nth: Recording | None = None
    number = 0
    for recording in readers.recordings(file):
        if not wanted or recording.label == wanted:
            return recording
        number += 1
        if str(number) == wanted:
            nth = recording
    if nth is None:
        raise Failure(f"{file}: holds no conversation {wanted}, but {number:,}" if wanted else f"{file}: is empty")
    return nth


def model_of(recording: Recording) -> str | None:
    """The model that answered first, as far as the file says."""
    return next((turn.model for turn in recording.turns if turn.model), None)


def player(recording: Recording, profile: str | None) -> Recorded:
    """The provider that plays it, under the rules of this profile; None: of the model, where its format tells whose."""
    own = OWN[recording.format]
    if profile is None:
        model = model_of(recording)
        profile = f"{own}:{model.rpartition('/')[2]}" if model and own != PLAIN else own
    profiles.get(profile)
    return Recorded(recording.payload, recording.format, profile)
