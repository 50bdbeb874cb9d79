"""Reads what was sent into a model. What is wrong with it is said in our words, with its name, never with its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from guardproxy import _sections
from guardproxy.errors import BadAsk


def read(model: type[BaseModel], given: Mapping[str, Any]) -> Any:
    """The model of what was given. BadAsk names one thing that is wrong, an unknown name first."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = list(_sections.explain(error, model))
        param, wrong = next((one for one in found if one[1].startswith("unknown key")), found[0])
        known = ", ".join(model.model_fields) or "none"
        told = f"is not known here; there are {known}" if wrong.startswith("unknown key") else wrong
        raise BadAsk(told, param=param or None) from error
