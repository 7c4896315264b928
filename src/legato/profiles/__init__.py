"""What each provider accepts, as data: one TOML file a provider, one `Profile` to read it through.

A fact is a field of `Profile`. In the file each fact has its value, its source, a date and a grade, and the
provider's own error text where one is known. Grades: `R` a recorded answer of the API, `S` its validator's source,
`D` its documentation, `P` what a mature adapter does, `C` seen in public code, `U` not verified, `L` legato's own
choice. What rests on a `U` fact is never more than a warning.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

import msgspec

from legato.profiles.load import NAMES, Fact, File, facts_of, knows, layers

__all__ = ["NAMES", "Fact", "Profile", "get"]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The facts of one provider, or of one model of it. The defaults refuse nothing."""

    name: str
    title: str
    format: str = "openai-chat"
    models: tuple[str, ...] = ()
    evidence: dict[str, Fact] = {}
    note: str = ""

    window: int | None = None
    """Tokens of input and output together; None: not known."""
    max_input: int | None = None
    """The most tokens of input, where that is less than the window leaves."""
    max_output: int | None = None
    """The most tokens of output the model gives."""
    encoding: str = "o200k_base"
    """The public vocabulary that counts, or stands in for, the model's own."""
    vocabulary: str = ""
    """The model's own vocabulary (`tokens.encodings`), which counts where a package that has it is installed."""

    rates: str = "openai-chat"
    """The set of token overheads (`tokens.cost.RATES`) that was measured for it, or stands in."""
    token_factor: float = 1.0
    """How many tokens of the provider's one of ours may be: it corrects counts until there is reported usage."""

    # calls and results
    results_in: Literal["tool", "user"] = "tool"
    """Whether a tool result is a message of its own or a part of the user's next one."""
    results_adjacent: bool = True
    """Results must stand directly after the turn that called; else anywhere after it."""
    results_first: bool = False
    """In the user message that holds them, results stand before everything else."""
    results_together: bool = False
    """All results of one turn stand in one message."""
    results_alone: bool = False
    """A message with results holds nothing else."""
    pairs_by_run: bool = False
    """Neighbours of one role are one turn (merged by the API, or by us) before calls and results are matched."""
    user_after_result: bool = True
    """A user message may follow a tool result directly."""
    parallel_calls: bool = True
    """A turn may call several tools."""
    calls_contiguous: bool = False
    """Nothing stands between the calls of one turn (where each call is an item of its own)."""
    result_names: bool = False
    """A result must carry the name of its tool."""
    result_media: tuple[str, ...] = ("image", "audio", "video", "document")
    """The kinds of media that a result may hold, and the model sees there."""
    media_in: tuple[str, ...] = ("system", "user", "assistant")
    """The roles whose messages may hold media (for results see `result_media`)."""
    server_tools: bool = False
    """The provider runs tools of its own, and refuses a call of them without its result, or the reverse."""
    tools_declared: bool = True
    """A past call of a tool that the request does not define does no harm."""
    error_flags: bool = True
    """A result may be flagged as an error, or as a success."""
    empty_error_results: bool = True
    """A result flagged as an error may be empty."""

    # roles
    roles: tuple[str, ...] = ("system", "developer", "user", "assistant", "tool", "function")
    """The roles the provider knows."""
    alternates: bool = False
    """Two user or two assistant messages in a row are refused."""
    opens_with: Literal["any", "no-call", "user"] = "any"
    """What the first message must be: any; none that calls tools; the user's, system messages apart."""
    needs_user: bool = False
    """There must be a user message that is more than tool results."""
    closes_with: Literal["any", "user", "removed"] = "any"
    """What to do with an assistant message at the end: keep it, have a user message follow it, or remove it."""
    assistants_at_end: bool = True
    """Several assistant messages may stand at the end."""
    prefix_flag: str = ""
    """The field that marks an assistant message at the end as a prefill, which is then accepted."""
    prefill_space: bool = True
    """The text of an assistant message at the end may end in white space."""
    system: Literal["anywhere", "after-user", "leading", "once", "field", "field-after-user", "none"] = "anywhere"
    """Where system messages may stand: anywhere; not after assistant or tool; only before all others; one only, before
    all others; in a field of the body instead, or there and after a user message; nowhere (they become user text)."""

    # ids and names
    id_pattern: str = ""
    """What the id of a call must match, whole."""
    id_max: int = 0
    """Its greatest length in characters; 0: any."""
    ids_unique: Literal["no", "turn", "request"] = "no"
    """Within what the ids of calls must differ."""
    ids_required: bool = True
    """A call must have an id."""
    name_pattern: str = ""
    """What the name of a tool must match, whole, also in past calls."""
    reserved_names: tuple[str, ...] = ()
    """Names that no tool may have."""

    # contents
    arguments: Literal["any", "json", "object"] = "any"
    """What the arguments of a past call must be: any text, any JSON, or a JSON object."""
    empty_messages: bool = True
    """A message without content and calls is accepted."""
    empty_text: bool = True
    """A text that is empty is accepted as the content of a message, or as a block of it."""
    blank_text: bool = True
    """Text of nothing but white space is accepted as content."""
    empty_calls: bool = True
    """`tool_calls: []` is accepted."""
    null_content: bool = True
    """`content: null` is accepted in a message that has no calls."""
    null_with_calls: bool = True
    """`content: null` is accepted beside calls."""
    empty_with_calls: bool = True
    """An empty text is accepted beside calls."""
    text_with_calls: bool = True
    """Text is accepted beside calls."""
    content: Literal["any", "text-parts", "string"] = "any"
    """What content may be: parts of any kind, parts of text only, or one string."""
    message_keys: tuple[str, ...] = ()
    """The fields a message may have; none named: any."""

    # the head
    empty_tools: bool = True
    """`tools: []` is accepted."""
    tools_required: bool = False
    """Tool calls in the history need tool definitions in the request."""
    tools_max: int = 0
    """The most tool definitions; 0: any number."""
    tool_schemas: bool = False
    """A tool definition must have a parameter schema."""
    cache_markers_max: int = 0
    """The most `cache_control` markers in a request; 0: any number."""
    marked_reasoning: bool = True
    """Reasoning may bear a cache marker."""

    # reasoning
    reasoning_fields: tuple[str, ...] | None = None
    """The wire's names of reasoning that may be sent back; None: any is let through."""
    reasoning_required: Literal["no", "calls", "all"] = "no"
    """Whether past assistant messages (those with calls, or all) must carry reasoning in the first of the fields."""
    reasoning_filler: str = ""
    """What to send where required reasoning is lost."""
    reasoning_signed: bool = False
    """Reasoning is accepted only with the signature of the model that is asked."""
    reasoning_first: bool = False
    """With thinking on, the newest assistant turn that calls must start with its reasoning."""
    reasoning_alone: bool = True
    """An assistant message of nothing but reasoning is accepted."""
    reasoning_bound: bool = False
    """Signed reasoning is bound to everything before it: where that was changed it is refused."""
    call_signature: str = ""
    """The stand-in for the thought signature that the first call of each step must carry; empty: none is wanted."""
    items_bound: bool = False
    """Reasoning items and the items that followed them are accepted only together (OpenAI Responses)."""

    # size
    image_side_max: int = 0
    """The greatest width or height of an image in pixels; 0: any."""
    many_images: int = 0
    """From more images than this on, `many_image_side_max` holds."""
    many_image_side_max: int = 0
    """The greatest width or height of an image, in pixels, in a request with many images."""
    document_names: bool = False
    """Documents need a name of letters, digits, spaces and ()[]-, unique in the request."""
    output_counts: bool = False
    """Input and the output that was asked for must fit the window together, else the request is refused."""
    truncates: bool = False
    """The provider cuts or accepts an overlong request without an error."""

    def severity(self, fact: str) -> Literal["error", "warning"]:
        """How bad it is to go against a fact: a fact nobody verified only warns."""
        found = self.evidence.get(fact)
        return "warning" if found is not None and found.grade == "U" else "error"

    @property
    def id_shape(self) -> re.Pattern[str] | None:
        return re.compile(self.id_pattern) if self.id_pattern else None

    @property
    def name_shape(self) -> re.Pattern[str] | None:
        return re.compile(self.name_pattern) if self.name_pattern else None


@lru_cache(maxsize=1024)
def get(name: str) -> Profile:
    """The profile called `provider` or `provider:model`. Raises `UnknownProfile` with the names there are."""
    provider, _, model = unquote(name).partition(":")
    return assemble(name, layers(provider), model)


def assemble(name: str, files: tuple[File, ...], model: str) -> Profile:
    """The facts of a provider's files, the nearest last, for one model. Raises `msgspec.ValidationError`."""
    newest = next((file.newest for file in reversed(files) if file.newest is not None), "")
    known = not model or knows(files, model)
    note = "" if known else f"nothing is known about the model {model!r} itself"
    if not known and newest:
        note += f"; the facts of {newest}, the newest known, are used"
    facts = facts_of(files, model if known else newest)
    return msgspec.convert(
        {
            **{fact: facts[fact].value for fact in facts},
            "name": name,
            "title": files[-1].title + (f", {model}" if model else ""),
            "format": next((file.format for file in reversed(files) if file.format), "openai-chat"),
            "models": tuple(dict.fromkeys(match for file in files for entry in file.models for match in entry.match)),
            "evidence": facts,
            "note": note,
        },
        Profile,
    )


def sibling(name: str, form: str) -> Profile | None:
    """The profile of another API of the same provider, for the same model: `openai-responses:o3` for `openai:o3`."""
    provider, _, model = name.partition(":")
    for other in NAMES:
        if other.startswith(f"{provider}-") and get(other).format == form:
            return get(f"{other}:{model}" if model else other)
    return None
