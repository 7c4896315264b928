"""Tool definitions and response schemas as the text a model is shown, so that it can be counted.

OpenAI's models see tools as a TypeScript namespace. How it looks in detail was fitted to recorded usage: titles,
descriptions and defaults stand in comments, a `$ref` is written out, formats and bounds are left out.
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

REFERENCES = 200
"""How many references of one tool are written out; more stand as `any`. So references to references stay finite."""


def namespace(items: list[Json]) -> str:
    """The tools of a request, in any wire's form, as the text that declares them."""
    declared = "\n\n".join(text for item in items for text in _declarations(item))
    return f"# Tools\n\n## functions\n\nnamespace functions {{\n\n{declared}\n\n}} // namespace functions"


def compact(schema: Json) -> str:
    """A response schema as JSON without spaces, and without `HIDDEN`."""
    return json.dumps(_shown(schema), ensure_ascii=False, separators=(",", ":"))


def _declarations(item: Json) -> Iterator[str]:
    found = False
    for definition in tools.definitions({"tools": [item]}):
        found = True
        yield _declaration(definition) if definition.keys() <= PLAIN else shape.dump(definition)
    if not found:
        yield shape.dump(item)


def _declaration(definition: Fields) -> str:
    """One function, under its description."""
    schema: Fields = next((definition[key] for key in PARAMETERS if isinstance(definition.get(key), dict)), {})
    if isinstance(schema.get("json"), dict):
        schema = schema["json"]
    lines = _comment(definition.get("description"))
    if isinstance(schema.get("properties"), dict) and schema["properties"]:
        # Models are shown a space before the brace, which would be one token more than is charged.
        lines += [f"type {definition['name']} = (_:{{", *_comment(schema.get("title"))]
        lines += [*Types(schema).fields(schema), "}) => any;"]
    else:
        lines.append(f"type {definition['name']} = () => any;")
    return "\n".join(lines)


class Types:
    """Writes the types of one schema, whose root holds what its references mean."""

    def __init__(self, root: Fields) -> None:
        self.root = root
        self.left = REFERENCES
        self.open: list[str] = []

    def fields(self, schema: Fields) -> list[str]:
        """The properties of an object, a line each, under their titles and descriptions."""
        required = schema.get("required")
        names = required if isinstance(required, list) else ()
        lines = []
        for name, field in schema["properties"].items():
            shown = self.resolved(field) if isinstance(field, dict) else {}
            lines += _comment(shown.get("title")) + _comment(shown.get("description"))
            default = f" // default: {shape.dump(shown['default'])}" if "default" in shown else ""
            lines.append(f"{name}{'' if name in names else '?'}: {self.type(field)},{default}")
        return lines

    def type(self, schema: Json) -> str:
        if not isinstance(schema, dict):
            return "any"
        if "$ref" in schema:
            return self.reference(schema)
        if isinstance(schema.get("enum"), list):
            return " | ".join(map(shape.dump, schema["enum"]))
        for union in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(union), list):
                return " | ".join(map(self.type, schema[union]))
        kind = schema.get("type")
        if isinstance(kind, list):
            return " | ".join(self.type({**schema, "type": each}) for each in kind)
        kind = kind.lower() if isinstance(kind, str) else "any"
        if kind == "array":
            return f"{self.type(schema.get('items'))}[]"
        if kind == "object" and isinstance(schema.get("properties"), dict) and schema["properties"]:
            return "\n".join(("{", *self.fields(schema), "}"))
        return "number" if kind in NUMBERS else kind

    def reference(self, schema: Fields) -> str:
        """The type a reference stands for, unless it is inside itself."""
        name = schema["$ref"]
        if name in self.open or not self.left:
            return "any"
        self.left -= 1
        self.open.append(name)
        text = self.type(self.resolved(schema))
        self.open.pop()
        return text

    def resolved(self, schema: Fields) -> Fields:
        """The schema with what its reference points to filled in, one step."""
        if "$ref" not in schema:
            return schema
        found: Json = self.root
        for step in str(schema["$ref"]).removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        own = {key: value for key, value in schema.items() if key != "$ref"}
        return {**found, **own} if isinstance(found, dict) else own


def _comment(text: Json) -> list[str]:
    """The lines of a text as comments, without blank ones and indents."""
    return [f"// {line.strip()}" for line in text.split("\n") if line.strip()] if isinstance(text, str) else []


def _shown(schema: Json) -> Json:
    if isinstance(schema, dict):
        shown = {key: value for key, value in schema.items() if key not in HIDDEN or isinstance(value, dict)}
        return {key: _shown(value) for key, value in shown.items()}
    return [_shown(value) for value in schema] if isinstance(schema, list) else schema
