"""Turns Settings (plain dataclasses) into sections of the configuration and back, and errors into sentences."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from types import ModuleType, UnionType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model, model_validator

from guardproxy import _document
from guardproxy._kinds import (
    LARGEST_HOLD,
    LARGEST_MB,
    LARGEST_SETTING,
    LARGEST_STRETCH,
    LARGEST_THRESHOLD,
    LONGEST_PAUSE_MS,
    LONGEST_SECONDS,
    Mode,
    no_flag,
)
from guardproxy.core.model import Triple
from guardproxy.core.tool_rules import ToolRule

T = TypeVar("T")

_WORDS = {
    "model_type": "must be a mapping",
    "dataclass_type": "must be a mapping, or the name of a tool",
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "tuple_type": "must be a list",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "missing": "is missing",
}
"""Pydantic's words for whoever never heard of it."""


def _triple(value: object) -> object:
    """[nudge, firm, cut]: whole numbers from 0 (= never), rising."""
    if isinstance(value, Triple):
        return value
    numbers = value if isinstance(value, list | tuple) else ()
    if len(numbers) != 3 or any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("must be three whole numbers [nudge, firm, cut], 0 = never")
    used = [number for number in numbers if number]
    if used != sorted(used):
        raise ValueError("must rise from nudge to firm to cut (0 = never)")
    if max(numbers) > LARGEST_THRESHOLD:
        raise ValueError(f"must not be above {LARGEST_THRESHOLD}")
    return Triple(*numbers)


def _rules(value: object) -> object:
    """A rule that is no more than a tool's name may be written as that name."""
    if not isinstance(value, list | tuple):
        return value
    return [{"tool": one} if isinstance(one, str) else one for one in value]


MOST = {
    "_ms": LONGEST_PAUSE_MS,
    "_within": LARGEST_STRETCH,
    "_seconds": LONGEST_SECONDS,
    "deadlines": LONGEST_SECONDS,
    "_tokens": LARGEST_HOLD,
    "_kb": LARGEST_MB << 10,
}
"""Upper bounds of settings by the end of their names."""


def _pydantic_type(hint: Any, name: str) -> Any:
    """The hint of the field `name` with our own reading of triples and numbers."""
    if name == "mode":
        return Mode
    if hint == tuple[ToolRule, ...]:
        return Annotated[hint, BeforeValidator(_rules)]
    if hint is Triple:
        return Annotated[Triple, BeforeValidator(_triple)]
    if hint in (int, float):
        most = next((limit for ending, limit in MOST.items() if name.endswith(ending)), LARGEST_SETTING)
        return Annotated[hint, BeforeValidator(no_flag), Field(ge=0, le=most)]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Mapping and arguments[-1] in (int, float):
        most = next((limit for ending, limit in MOST.items() if name.endswith(ending)), LARGEST_HOLD)
        number: Any = Annotated[arguments[-1], BeforeValidator(no_flag), Field(le=most)]
        mapping: Any = Mapping
        return mapping[arguments[0], number]
    if origin in (UnionType, typing.Union):
        return typing.Union[tuple(_pydantic_type(argument, name) for argument in arguments)]  # noqa: UP007 - built at run time
    return hint


def section(base: type[BaseModel], name: str, *settings: type[Any], **switches: Any) -> type[BaseModel]:
    """A section with the fields of the dataclasses `settings`, their defaults included; `switches` are added."""
    members: dict[str, Any] = dict(switches)
    for made in settings:
        members |= _members(made)

    def check(model: BaseModel) -> BaseModel:
        for made in settings:
            value(model, made)  # the dataclass may refuse more, in its own words
        return model

    validators: dict[str, Any] = {"check": model_validator(mode="after")(check)}
    told = "\n\n".join(made.__doc__ or "" for made in settings)
    return create_model(name, __base__=base, __doc__=told, __validators__=validators, **members)


def _members(settings: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(settings)
    members: dict[str, Any] = {}
    for one in fields(settings):
        default: Any = one.default
        if one.default_factory is not MISSING:
            default = Field(default_factory=one.default_factory)
        members[one.name] = (_pydantic_type(hints[one.name], one.name), ... if default is MISSING else default)
    return members


def parts(base: type[BaseModel], name: str, modules: Mapping[str, ModuleType]) -> type[BaseModel]:
    """A section with one section a module, made of its Settings."""
    members: dict[str, Any] = {}
    for part, module in modules.items():
        made = section(base, part, module.Settings)
        members[part] = (made, Field(default_factory=made))
    return create_model(name, __base__=base, __doc__=f"One section each: {', '.join(modules)}.", **members)


def values(model: Any, modules: Mapping[str, ModuleType], *, observe: bool) -> dict[str, object]:
    """The Settings of the parts of a section. `observe`: none of them does anything, whatever its own mode."""
    found: dict[str, object] = {}
    for part, module in modules.items():
        settings = value(getattr(model, part), module.Settings)
        enforced = observe and getattr(settings, "mode", "") == "enforce"
        found[part] = replace(settings, mode="observe") if enforced else settings
    return found


def detectors(base: type[BaseModel], rules: Mapping[str, ModuleType]) -> type[BaseModel]:
    """One section a rule, found by module name."""
    members: dict[str, Any] = {}
    for rule, module in rules.items():
        made = section(
            base, rule, module.Settings, enabled=(bool, True), mode=(Literal["enforce", "observe"] | None, None)
        )
        members[rule] = (made, Field(default_factory=made))
    return create_model("Detectors", __base__=base, __doc__="One section a rule.", **members)


def value(model: BaseModel, settings: type[T]) -> T:
    """The dataclass that `model` was made from."""
    names = [one.name for one in fields(settings)]  # type: ignore[arg-type]  # a dataclass found by rule name
    return settings(**{name: getattr(model, name) for name in names})


def chosen(model: Any, preset: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, str]]:
    """Settings of the enabled rules, the preset's where the file says nothing, and the rules' own modes."""
    parts = {rule: getattr(model, rule) for rule in preset}
    settings = {rule: _over(preset[rule], part) for rule, part in parts.items() if part.enabled}
    return settings, {rule: part.mode for rule, part in parts.items() if part.mode}


def _over(settings: T, part: BaseModel) -> T:
    """The dataclass with what was written in `part`."""
    names = {one.name for one in fields(settings)} & part.model_fields_set  # type: ignore[arg-type]  # a dataclass
    return replace(settings, **{name: getattr(part, name) for name in names})  # type: ignore[type-var]  # as above


def explain(error: ValidationError, root: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """(dotted path, what is wrong) for each error; values are never repeated, they may be secrets."""
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        unknown = one["type"] in ("extra_forbidden", "unexpected_keyword_argument")
        named = one["loc"][-1:] if unknown else ()  # a key that somebody wrote, whatever it looks like
        path = [*(part for part in one["loc"][: len(one["loc"]) - len(named)] if not _is_branch(part)), *named]
        dotted = ".".join(str(part) for part in path)
        message = one["msg"].removeprefix("Value error, ")
        message = _WORDS.get(one["type"], message)
        if unknown:
            message = "unknown key" + _document.nearest(str(path[-1]), _keys(root, path[:-1]))
        field, colon, rest = message.partition(": ")
        if colon and (not dotted or field.split(".")[0] in _keys(root, path)):  # a dataclass names its own field
            dotted, message = f"{dotted}.{field}".lstrip("."), rest
        yield dotted, message[:1].lower() + message[1:]


def _is_branch(part: object) -> bool:
    """Pydantic names the branch of a union and the wrapper of a validator in the path; the file has no such key."""
    return isinstance(part, str) and ("[" in part or part in ("int", "float", "str", "none"))


def _keys(root: type[BaseModel], path: list[Any]) -> list[str]:
    """The known keys of the section at `path`."""
    model: Any = root
    for part in path:
        found = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if found is not None:
            model = found.annotation
        else:  # a mapping by free names, such as prices.models, or a list, such as tools.deny
            inner = [kind for kind in typing.get_args(model) if kind is not ...]
            model = inner[-1] if inner else None
    if isinstance(model, type) and is_dataclass(model):
        return [one.name for one in fields(model)]
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []
