"""The tool definitions of a request's head, in any format: their names, and the same definitions renamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from legato.messages import Fields, Json

INNER = ("function", "toolSpec")
"""Where OpenAI Chat and Bedrock put the definition inside its item. Elsewhere the item is the definition."""
GROUPS = ("functionDeclarations", "function_declarations")
"""Where Gemini keeps several definitions in one item."""
FIELDS = ("tools", "toolConfig", "tool_choice", "functions")
"""The fields of a body in which tools are named."""
SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "description")
"""The fields of a definition in which `name` means something else."""


def definitions(head: Fields) -> Iterator[Fields]:
    """The definitions that have a name."""
    for item in _items(head):
        for group in GROUPS:
            if isinstance(item.get(group), list):
                yield from filter(_is_named, item[group])
        inner = next((item[key] for key in INNER if isinstance(item.get(key), dict)), item)
        if _is_named(inner):
            yield inner


def names(head: Fields) -> list[str]:
    """The names of the tools the request offers, in order."""
    return [definition["name"] for definition in definitions(head)]


def rename(head: Fields, new: Mapping[str, str]) -> Fields:
    """The head with these tools under their new names, in the definitions and in the tool choice."""
    return {key: _renamed(value, new) if key in FIELDS else value for key, value in head.items()}


def _is_named(item: Json) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _items(head: Fields) -> Iterable[Fields]:
    found = head.get("tools") or head.get("functions") or []
    config = head.get("toolConfig")
    if not found and isinstance(config, dict):
        found = config.get("tools") or []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _renamed(value: Json, new: Mapping[str, str]) -> Json:
    """A copy in which the `name` of a definition or a choice is the new one; schemas inside are left alone."""
    if isinstance(value, list):
        return [_renamed(item, new) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {key: item if key in SCHEMAS else _renamed(item, new) for key, item in value.items()}
    if isinstance(value.get("name"), str):
        renamed["name"] = new.get(value["name"], value["name"])
    return renamed
