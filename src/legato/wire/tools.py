"""The tool definitions of a request's head, in any format: their names, and the same definitions renamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    config = head.get("toolConfig")
    lists = (head.get("tools"), head.get("functions"), config.get("tools") if isinstance(config, dict) else None)
    return [item for found in lists for item in _listed(found) if isinstance(item, dict)]


def _listed(value: Json) -> list[Json]:
    """A list of definitions. Gemini takes a single one for a list."""
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


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


EMPTY = {"type": "object", "properties": {}}
"""The schema of a tool that takes nothing, or of which nothing else is known."""


def has_schema(definition: Fields) -> bool:
    """Whether a definition says what its tool takes."""
    return any(definition.get(key) for key in SCHEMAS if key != "description")


def with_schemas(head: Fields) -> Fields:
    """The head with an empty object schema in each definition that has none."""
    items = []
    for item in _listed(head.get("tools")):
        inner = item.get("function") if isinstance(item, dict) else None
        if isinstance(inner, dict):
            items.append(item if has_schema(inner) else {**item, "function": {**inner, "parameters": EMPTY}})
        elif _is_named(item) and not has_schema(item):
            items.append({**item, "input_schema" if "type" not in item else "parameters": EMPTY})
        else:
            items.append(item)
    return {**head, "tools": items}


def supply(head: Fields, missing: Sequence[str], form: str) -> Fields:
    """The head with definitions of these tools by name alone, and the choice not to call any, if there is one."""
    note = "Named in the conversation so far. Not to be called now."
    match form:
        case "anthropic":
            made: Json = [{"name": name, "description": note, "input_schema": EMPTY} for name in missing]
            return {**head, "tools": made, "tool_choice": {"type": "none"}}
        case "gemini":
            made = [{"functionDeclarations": [{"name": name, "description": note} for name in missing]}]
            return {**head, "tools": made, "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}
        case "bedrock":
            schema = {"json": EMPTY}
            made = [{"toolSpec": {"name": name, "description": note, "inputSchema": schema}} for name in missing]
            return {**head, "toolConfig": {"tools": made}}
        case "openai-responses":
            made = [{"type": "function", "name": name, "description": note, "parameters": EMPTY} for name in missing]
            return {**head, "tools": made, "tool_choice": "none"}
    made = [
        {"type": "function", "function": {"name": name, "description": note, "parameters": EMPTY}} for name in missing
    ]
    return {**head, "tools": made, "tool_choice": "none"}


def count_key(value: Json, key: str) -> int:
    """How often a key occurs in a JSON value, at any depth. Walked without recursion."""
    found, todo = 0, [value]
    while todo:
        here = todo.pop()
        if isinstance(here, dict):
            found += key in here
            todo.extend(here.values())
        elif isinstance(here, list):
            todo.extend(here)
    return found


def write(found: Sequence[Fields], form: str) -> Fields:
    """The field that holds these definitions, which may come from any format, in another one."""
    plain = [(each["name"], each.get("description"), _schema(each)) for each in found]
    match form:
        case "anthropic":
            return {"tools": [_defined(name, text, "input_schema", schema) for name, text, schema in plain]}
        case "gemini":
            made = [_defined(name, text, "parametersJsonSchema", schema) for name, text, schema in plain]
            return {"tools": [{"functionDeclarations": made}]}
        case "bedrock":
            made = [{"toolSpec": _defined(name, text, "inputSchema", {"json": schema})} for name, text, schema in plain]
            return {"toolConfig": {"tools": made}}
        case "openai-responses":
            made = [_defined(name, text, "parameters", schema) for name, text, schema in plain]
            return {"tools": [{"type": "function", **each} for each in made]}
    made = [_defined(name, text, "parameters", schema) for name, text, schema in plain]
    return {"tools": [{"type": "function", "function": each} for each in made]}


def _defined(name: str, text: Json, key: str, schema: Json) -> Fields:
    return {"name": name, **({"description": text} if text else {}), key: schema}


def _schema(definition: Fields) -> Json:
    found = next((definition[key] for key in SCHEMAS if key != "description" and definition.get(key)), EMPTY)
    return found["json"] if isinstance(found, dict) and set(found) == {"json"} else found
