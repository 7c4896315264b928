"""The repairers, each behind one function: messages of a format in, messages of that format out."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read at import: no request for the newest prices

import litellm
import toolrepair
import turnsafe
from litellm.exceptions import BadRequestError
from litellm.litellm_core_utils.prompt_templates.factory import (
    anthropic_messages_pt,
    sanitize_messages_for_tool_calling,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

import legato
from accidents import History, Wire

litellm.modify_params = True  # its sanitiser is off otherwise
logging.getLogger("LiteLLM").setLevel(logging.ERROR)

REFUSALS = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, BadRequestError)
"""What a repairer may raise that does not know what to do."""
PROFILES = {"openai-chat": "openai", "anthropic": "anthropic:claude-sonnet-4-5"}
PROVIDERS = {"openai-chat": "openai", "anthropic": "anthropic"}


@dataclass(frozen=True)
class Repairer:
    """`repair` takes messages of the format; one that `converts` takes those of OpenAI Chat whatever it gives."""

    name: str
    repair: Callable[[list[Wire], str], list[Wire]]
    converts: bool = False


def _legato(messages: list[Wire], form: str) -> list[Wire]:
    return legato.repair(messages, profile=PROFILES[form], format=form).messages


def _turnsafe(messages: list[Wire], form: str) -> list[Wire]:
    return list(turnsafe.repair(messages, provider=PROVIDERS[form]))


def _tool_call_repair(messages: list[Wire], form: str) -> list[Wire]:
    return list(toolrepair.repair(messages, format=PROVIDERS[form], strategy="synthesize"))


def _litellm(messages: list[Wire], form: str) -> list[Wire]:
    if form == "anthropic":
        spoken = [message for message in messages if message["role"] != "system"]
        return list(anthropic_messages_pt(spoken, model="claude-sonnet-4-5", llm_provider="anthropic"))
    return list(sanitize_messages_for_tool_calling(messages))


# -- pydantic-ai has messages of its own -------------------------------------------------------------------------------


def _pydantic_ai(messages: list[Wire], form: str) -> list[Wire]:
    repaired = repair_messages(model_messages(messages))
    return _blocks(repaired) if form == "anthropic" else chat_messages(repaired)


def model_messages(history: History) -> list[ModelMessage]:
    names = {call["id"]: call["function"]["name"] for m in history for call in m.get("tool_calls") or ()}
    return [_model_message(message, names) for message in history]


def _model_message(message: Wire, names: dict[str, str]) -> ModelMessage:
    content = message.get("content")
    match message["role"]:
        case "assistant":
            said = [TextPart(content)] if content else []
            calls = [
                ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"])
                for call in message.get("tool_calls") or ()
            ]
            return ModelResponse([*said, *calls])
        case "tool":
            call = message["tool_call_id"]
            return ModelRequest([ToolReturnPart(names.get(call, "unknown"), content, call)])
        case "system":
            return ModelRequest([SystemPromptPart(content)])
        case _:
            return ModelRequest([UserPromptPart(content)])


def chat_messages(messages: Sequence[ModelMessage]) -> list[Wire]:
    """A message a part, as its adapter for OpenAI does."""
    sent: list[Wire] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = [
                {
                    "id": part.tool_call_id,
                    "type": "function",
                    "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
                }
                for part in message.parts
                if isinstance(part, ToolCallPart)
            ]
            text = "\n\n".join(part.content for part in message.parts if isinstance(part, TextPart))
            turn: Wire = {"role": "assistant", "content": text or None}
            sent.append(turn | ({"tool_calls": calls} if calls else {}))
            continue
        for part in message.parts:
            match part:
                case ToolReturnPart():
                    content = part.model_response_str()
                    sent.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": content})
                case SystemPromptPart():
                    sent.append({"role": "system", "content": part.content})
                case UserPromptPart():
                    sent.append({"role": "user", "content": part.content})
    return sent


def _blocks(messages: Sequence[ModelMessage]) -> list[Wire]:
    """A message a message, a block a part, as its adapter for Anthropic does."""
    sent: list[Wire] = []
    for message in messages:
        blocks = [block for part in message.parts for block in _block(part)]
        if blocks:
            role = "assistant" if isinstance(message, ModelResponse) else "user"
            sent.append({"role": role, "content": blocks})
    return sent


def _block(part: Any) -> list[Wire]:
    match part:
        case ToolCallPart():
            fields = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
            return [{"type": "tool_use", **fields}]
        case ToolReturnPart():
            content = part.model_response_str()
            return [{"type": "tool_result", "tool_use_id": part.tool_call_id, "content": content}]
        case TextPart() | UserPromptPart():
            return [{"type": "text", "text": part.content}]
        case _:
            return []


REPAIRERS = (
    Repairer("legato", _legato),
    Repairer("turnsafe", _turnsafe),
    Repairer("pydantic-ai", _pydantic_ai, converts=True),
    Repairer("litellm", _litellm, converts=True),
    Repairer("tool-call-repair", _tool_call_repair),
)
