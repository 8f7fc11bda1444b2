"""The form of an answer: a JSON schema, a grammar or a regular expression."""
from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from ._native import bad_argument, check, lib


class Form:
    """What an answer may be, and how its text is read."""

    def __init__(self, kind: int, text: str, reader: Any = None):
        self.kind, self.text, self._reader = kind, text, reader

    def read(self, text: str) -> Any:
        """The value of a complete answer: JSON's, or the instance of a pydantic class; None for other forms."""
        return self._reader(text) if self._reader is not None else None


def choose_form(schema: Any, grammar: str | None, regex: str | None) -> Form | None:
    """The form that was asked for; None: free text."""
    import json
    given = [name for name, value in (("schema", schema), ("grammar", grammar), ("regex", regex)) if value is not None]
    if len(given) > 1:
        raise bad_argument(f"an answer has one form, not {' and '.join(given)}")
    if grammar is not None:
        return Form(_abi.OCELLUS_CONSTRAINT_GRAMMAR, grammar)
    if regex is not None:
        return Form(_abi.OCELLUS_CONSTRAINT_REGEX, regex)
    if schema is None:
        return None
    if hasattr(schema, "model_json_schema"):  # a pydantic class
        return Form(_abi.OCELLUS_CONSTRAINT_SCHEMA, json.dumps(schema.model_json_schema()), schema.model_validate_json)
    if isinstance(schema, (dict, bool)):
        return Form(_abi.OCELLUS_CONSTRAINT_SCHEMA, json.dumps(schema), json.loads)
    if isinstance(schema, str):
        return Form(_abi.OCELLUS_CONSTRAINT_SCHEMA, schema, json.loads)
    raise bad_argument(f"a schema is a dict, its JSON or a pydantic class, not {type(schema).__name__}")


def compile_form(engine: int, form: Form) -> int:
    """The handle of a compiled form in the engine's memory, to be destroyed before the engine."""
    params = _abi.ocellus_constraint_params()
    lib.ocellus_constraint_params_init(ctypes.byref(params))
    data = form.text.encode()
    params.kind, params.text, params.text_bytes = form.kind, data, len(data)
    pointer = ctypes.c_void_p()
    check(lib.ocellus_constraint_create(engine, ctypes.byref(params), ctypes.byref(pointer)))
    return pointer.value or 0
