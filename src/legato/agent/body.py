"""The body of a request in any wire format, but for the conversation itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from legato import wire
from legato.messages import Fields, Json, Message, Text
from legato.policy import DEFAULT_OUTPUT, Policy
from legato.profiles import Profile
from legato.wire import moving, system

IN_FIELD = ("field", "field-after-user")


class Head(msgspec.Struct, frozen=True):
    """All of a request that stays the same: fields of the body, and the system message where it is a message."""

    form: str
    fields: Fields
    opening: tuple[Json, ...] = ()

    def body(self, items: Iterable[Json], quiet: bool) -> dict[str, Json]:
        """A request of these items. `quiet`: tools stay defined, as past calls need that, but none may be called."""
        fields = self.fields
        if quiet and any(wire.tools.definitions(fields)):
            none = wire.tools.supply({}, (), self.form)  # no tools, and the choice not to call any
            fields = {**fields, **{key: none[key] for key in none.keys() - wire.tools.write((), self.form).keys()}}
        return {**fields, wire.codec(self.form).KEY: [*self.opening, *items]}


def head(profile: Profile, policy: Policy, text: str, tools: Sequence[Json], options: Fields) -> Head:
    """The head for a provider: system text, tool definitions (of OpenAI Chat), limit of output, the caller's fields."""
    form = profile.format
    definitions = list(wire.tools.definitions({"tools": list(tools)}))
    fields: dict[str, Json] = dict(wire.tools.write(definitions, form)) if definitions else {}
    if wire.limits.output(options) is None:
        holder, limit = moving.INNER.get(form), {moving.LIMIT[form]: _output(profile, policy)}
        fields.update({holder: limit} if holder else limit)
    for key, value in options.items():
        old = fields.get(key)
        fields[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    if not text:
        return Head(form, fields)
    if profile.system in IN_FIELD:
        return Head(form, system.add(fields, [Text(text)], form))
    return Head(form, fields, wire.codec(form).encode(Message("system", (Text(text, flat=True),))))


def _output(profile: Profile, policy: Policy) -> int:
    """The room for an answer: the policy's, else what it reserves where a request does not say."""
    if policy.max_output is not None:
        return policy.max_output
    window = policy.window if policy.window is not None else profile.window
    return DEFAULT_OUTPUT if window is None else min(DEFAULT_OUTPUT, window // 4)
