"""Tests: a small validator: the part of JSON Schema 2020-12 that our schemas use. It refuses keywords that it lacks."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_SILENT = {"$schema", "$id", "$defs", "title", "description", "default"}


def faults(value: Any, schema: Schema, root: Schema | None = None, place: str = "$") -> Iterator[str]:
    """What does not fit, each with its place."""
    for keyword, wants in schema.items():
        if keyword not in _SILENT:
            assert keyword in _RULES, f"teach this validator the keyword {keyword!r}"
            yield from _RULES[keyword](value, wants, schema, root or schema, place)


def _ref(value: Any, wants: str, _: Schema, root: Schema, place: str) -> Iterator[str]:
    yield from faults(value, root["$defs"][wants.removeprefix("#/$defs/")], root, place)


def _any_of(value: Any, wants: list[Schema], _: Schema, root: Schema, place: str) -> Iterator[str]:
    if all(list(faults(value, option, root, place)) for option in wants):
        yield f"{place}: fits no option"


def _type(value: Any, wants: str, _: Schema, __: Schema, place: str) -> Iterator[str]:
    if not isinstance(value, _TYPES[wants]) or (isinstance(value, bool) and wants != "boolean"):
        yield f"{place}: no {wants}"


def _const(value: Any, wants: Any, _: Schema, __: Schema, place: str) -> Iterator[str]:
    if value != wants:
        yield f"{place}: not {wants}"


def _enum(value: Any, wants: list[Any], _: Schema, __: Schema, place: str) -> Iterator[str]:
    if value not in wants:
        yield f"{place}: not among {wants}"


def _properties(value: Any, wants: Schema, _: Schema, root: Schema, place: str) -> Iterator[str]:
    for name in wants.keys() & _fields(value).keys():
        yield from faults(value[name], wants[name], root, f"{place}.{name}")


def _required(value: Any, wants: list[str], _: Schema, __: Schema, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{place}.{name}: missing" for name in wants if name not in value)


def _additional(value: Any, wants: Any, schema: Schema, root: Schema, place: str) -> Iterator[str]:
    for name in _fields(value).keys() - schema.get("properties", {}).keys():
        if wants is False:
            yield f"{place}.{name}: unknown"
        elif wants is not True:
            yield from faults(value[name], wants, root, f"{place}.{name}")


def _names(value: Any, wants: Schema, _: Schema, root: Schema, place: str) -> Iterator[str]:
    for name in _fields(value):
        yield from faults(name, wants, root, f"{place}.{name} as a name")


def _prefix(value: Any, wants: list[Schema], _: Schema, root: Schema, place: str) -> Iterator[str]:
    for at, (inner, option) in enumerate(zip(_list(value), wants, strict=False)):
        yield from faults(inner, option, root, f"{place}[{at}]")


def _items(value: Any, wants: Schema, schema: Schema, root: Schema, place: str) -> Iterator[str]:
    for at, inner in list(enumerate(_list(value)))[len(schema.get("prefixItems", ())) :]:
        yield from faults(inner, wants, root, f"{place}[{at}]")


def _shortest(value: Any, wants: int, _: Schema, __: Schema, place: str) -> Iterator[str]:
    if isinstance(value, list | str) and len(value) < wants:
        yield f"{place}: shorter than {wants}"


def _longest(value: Any, wants: int, _: Schema, __: Schema, place: str) -> Iterator[str]:
    if isinstance(value, list | str) and len(value) > wants:
        yield f"{place}: longer than {wants}"


def _least(value: Any, wants: float, _: Schema, __: Schema, place: str) -> Iterator[str]:
    if isinstance(value, int | float) and value < wants:
        yield f"{place}: below {wants}"


def _most(value: Any, wants: float, _: Schema, __: Schema, place: str) -> Iterator[str]:
    if isinstance(value, int | float) and value > wants:
        yield f"{place}: above {wants}"


def _pattern(value: Any, wants: str, _: Schema, __: Schema, place: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(wants, value):
        yield f"{place}: does not match {wants}"


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_RULES: Mapping[str, Callable[[Any, Any, Schema, Schema, str], Iterator[str]]] = {
    "$ref": _ref,
    "anyOf": _any_of,
    "type": _type,
    "const": _const,
    "enum": _enum,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "prefixItems": _prefix,
    "items": _items,
    "minItems": _shortest,
    "minLength": _shortest,
    "maxItems": _longest,
    "maxLength": _longest,
    "minimum": _least,
    "maximum": _most,
    "pattern": _pattern,
}
