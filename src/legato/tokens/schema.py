"""Tool definitions and response schemas as the text a model is shown, so that it can be counted.

OpenAI's models see tools as a TypeScript namespace. What it leaves out was measured, not read anywhere: a `$ref`
stands as `any` and its definition is not shown, titles, formats, bounds and defaults are not shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from legato.messages import Fields, Json
from legato.wire import shape, tools

PARAMETERS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
"""Where a definition keeps the schema of its arguments."""

PLAIN = {*PARAMETERS, "name", "description", "type", "strict", "cache_control", "defer_loading", "behavior"}
"""The fields of a function. A definition with others (a grammar, a server tool's settings) is counted as its JSON."""

NUMBERS = ("integer", "number")

HIDDEN = ("additionalProperties", "required")
"""The fields of a response schema that are not shown (measured), unless they hold a schema."""


def namespace(items: list[Json]) -> str:
    """The tools of a request, in any wire's form, as the text that declares them."""
    declared = "\n\n".join(text for item in items for text in _declarations(item))
    return f"# Tools\n\n## functions\n\nnamespace functions {{\n\n{declared}\n\n}} // namespace functions"


def compact(schema: Json) -> str:
    """A response schema as JSON without spaces, and without `HIDDEN`."""
    return json.dumps(_pruned(schema), ensure_ascii=False, separators=(",", ":"))


def _declarations(item: Json) -> Iterator[str]:
    found = False
    for definition in tools.definitions({"tools": [item]}):
        found = True
        yield _declaration(definition) if definition.keys() <= PLAIN else shape.dump(definition)
    if not found:
        yield shape.dump(item)


def _declaration(definition: Fields) -> str:
    """One function. Its description stands above it; only the first line has the comment marks."""
    schema: Fields = next((definition[key] for key in PARAMETERS if isinstance(definition.get(key), dict)), {})
    if isinstance(schema.get("json"), dict):
        schema = schema["json"]
    description = definition.get("description")
    comment = f"// {description.strip()}\n" if isinstance(description, str) and description.strip() else ""
    if not isinstance(schema.get("properties"), dict) or not schema["properties"]:
        return f"{comment}type {definition['name']} = () => any;"
    # A space before the brace would be one token more than is charged.
    return f"{comment}type {definition['name']} = (_:{{\n{_fields(schema)}\n}}) => any;"


def _fields(schema: Fields) -> str:
    required = schema.get("required")
    names = required if isinstance(required, list) else ()
    lines = []
    for name, field in schema["properties"].items():
        if isinstance(field, dict) and isinstance(field.get("description"), str) and field["description"]:
            lines.append(f"// {field['description']}")
        lines.append(f"{name}{'' if name in names else '?'}: {_type(field)},")
    return "\n".join(lines)


def _type(schema: Json) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return " | ".join(map(shape.dump, schema["enum"]))
    for union in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(union), list):
            return " | ".join(map(_type, schema[union]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": each}) for each in kind)
    if not isinstance(kind, str):
        return "any"
    kind = kind.lower()
    if kind == "array":
        return f"{_type(schema.get('items'))}[]"
    if kind == "object" and isinstance(schema.get("properties"), dict) and schema["properties"]:
        return f"{{\n{_fields(schema)}\n}}"
    return "number" if kind in NUMBERS else kind


def _pruned(schema: Json) -> Json:
    if isinstance(schema, dict):
        shown = {key: value for key, value in schema.items() if key not in HIDDEN or isinstance(value, dict)}
        return {key: _pruned(value) for key, value in shown.items()}
    return [_pruned(value) for value in schema] if isinstance(schema, list) else schema
