"""Codex rollouts: JSONL of `{timestamp, type, payload}`, the `response_item`s being items of OpenAI Responses.

`event_msg` lines are copies for the screen, with one exception: `thread_rolled_back` takes turns of the user back.
`compacted` starts the history anew, from its `replacement_history` where it has one. Later `session_meta` lines are
those of a rollout that this one was forked from. Newer files number their lines (`ordinal`), and Codex refuses one that
has a line without a number. Sources: openai/codex, codex-rs/rollout/src/{recorder,policy,ordinal}.rs, and
codex-rs/core/src/session/rollout_reconstruction.rs, 2026.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.messages import Json
from legato.transcripts.reader import Reader, Writer, objects
from legato.transcripts.recording import Answer, Item, Piece, Thread, seconds, text_of
from legato.transcripts.source import Source

KINDS = ("session_meta", "response_item", "compacted", "turn_context", "event_msg")
MAIL = "inter_agent_communication"
SILENT = ("world_state", f"{MAIL}_metadata")
"""Types of lines, beside `KINDS`, with nothing in them for the model."""
ORDINAL = "ordinal"
LOST = (
    "its session_meta line is lost, and without one Codex does not resume it; put one before all others:"
    ' {"timestamp":"…","type":"session_meta","payload":{"id":"…","timestamp":"…","cwd":"…","originator":"…",'
    '"cli_version":"…"}}, the id being that in the name of the file'
)
SHADOWS = ("ghost_snapshot",)
"""Items that are never sent."""
CALLS = ("function", "custom_tool", "local_shell", "web_search", "tool_search", "image_generation")
ANSWERS = ("reasoning", *(f"{kind}_call" for kind in CALLS))
TAGS = ("environment_context", "user_instructions", "skill", "user_shell_command", "turn_aborted")
CONTEXT = ("# AGENTS.md", *(f"<{tag}>" for tag in (*TAGS, "subagent_notification", "goal_context")))
"""How the text of a user item starts that the program wrote, not the user."""
KEPT = 20_000 * 4
"""After a compaction without its own history so many characters of the user's messages are kept, the newest."""


def sniff(_: Source, values: Sequence[Json]) -> bool:
    lines = objects(values)[:10]
    return any(value.get("type") in KINDS and isinstance(value.get("payload"), dict) for value in lines)


def threads(source: Source) -> Iterator[Thread]:
    thread = Thread("openai-responses")
    model: str | None = None
    usage: Json = None
    unknown: dict[str, int] = {}
    answer = 0
    met = False
    for item, value in source.items():
        payload = value.get("payload") if isinstance(value, dict) else None
        if not isinstance(payload, dict):
            source.reject(item, "not a line with a payload")
            continue
        kind, inner = value.get("type"), payload.get("type")
        if kind == "session_meta":
            thread.head = thread.head if met else _head(payload)
            met = True
        elif kind == "turn_context":
            model = text_of(payload.get("model")) or model
        elif kind == "compacted":
            yield Thread(thread.format, thread.pieces, thread.head, "before", over=True)
            thread.pieces = _after(thread.pieces, payload, item)
        elif kind == "event_msg" and inner == "thread_rolled_back":
            gone = _rolled_back(thread.pieces, payload)
            source.note(item.line, f"{len(thread.pieces) - gone:,} items that were taken back are left out")
            del thread.pieces[gone:]
        elif kind == "event_msg" and inner == "token_count":
            usage = _usage(payload)
            _tell(thread.pieces, usage)
        elif kind == "response_item" and inner not in SHADOWS:
            said = inner in ANSWERS or payload.get("role") == "assistant"
            if said and not (thread.pieces and thread.pieces[-1].answer):
                answer += 1
            about = Answer(str(answer), None, model, seconds(value.get("timestamp"))) if said else None
            thread.pieces.append(Piece(payload, item, about))
        elif kind == MAIL and text_of(payload.get("content")):
            thread.pieces.append(Piece(_user(payload["content"]), item, derived=True))
        elif kind not in (*KINDS, *SILENT):
            unknown[str(kind)] = unknown.get(str(kind), 0) + 1
    for name, number in unknown.items():
        source.note(None, f"{number:,} lines of the type {name!r} are left out")
    if not met:
        source.give_up(1, LOST)
    if thread.pieces:
        yield thread


def _head(meta: dict[str, Json]) -> dict[str, Json]:
    base = meta.get("base_instructions")
    found = text_of(base.get("text") if isinstance(base, dict) else meta.get("instructions"))
    return {"instructions": found} if found else {}


def _usage(payload: dict[str, Json]) -> Json:
    info = payload.get("info")
    return info.get("last_token_usage") if isinstance(info, dict) else None


def _tell(pieces: list[Piece], usage: Json) -> None:
    """Write the usage down at the last answer."""
    for at in range(len(pieces) - 1, -1, -1):
        about = pieces[at].answer
        if about is not None:
            told = Answer(about.id, usage, about.model, about.time)
            pieces[at] = Piece(pieces[at].message, pieces[at].item, told)
            return


def _starts(piece: Piece) -> bool:
    """Whether a turn of the user starts with it."""
    return _user_text(piece.message) is not None


def _user_text(message: Json) -> str | None:
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    text = "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    return None if text.lstrip().startswith(CONTEXT) else text


def _rolled_back(pieces: list[Piece], payload: dict[str, Json]) -> int:
    """Where the items start that were taken back."""
    turns = payload.get("num_turns")
    starts = [at for at, piece in enumerate(pieces) if _starts(piece)]
    if not isinstance(turns, int) or turns < 1:
        return len(pieces)
    return starts[-turns] if turns <= len(starts) else starts[0] if starts else len(pieces)


def _after(pieces: list[Piece], payload: dict[str, Json], item: Item) -> list[Piece]:
    """What the history is after a compaction."""
    history = payload.get("replacement_history")
    if isinstance(history, list):
        return [Piece(message, item, derived=True) for message in history if isinstance(message, dict)]
    first = next((at for at, piece in enumerate(pieces) if _starts(piece)), len(pieces))
    room = KEPT
    kept: list[Piece] = []
    for piece in reversed(pieces[first:]):
        room -= len(_user_text(piece.message) or "")
        if _starts(piece) and room >= 0:
            kept.append(piece)
    told = [Piece(_user(payload["message"]), item, derived=True)] if text_of(payload.get("message")) else []
    return [*pieces[:first], *reversed(kept), *told]


def _user(text: str) -> dict[str, Json]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _record(wire: Json, neighbour: Json, _: str) -> Json:
    return {"timestamp": neighbour.get("timestamp"), "type": "response_item", "payload": wire}


READER = Reader("codex", "Codex rollout", sniff, threads, Writer(_record, ("payload",), numbered=ORDINAL))
