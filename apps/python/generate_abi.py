"""Writes the Python module of the C API out of ocellus.h: structs, functions, constants and typed records.

    python3 generate_abi.py RUNTIME_FOLDER OUT.py

The headers have one declaration a statement and a comment at every name, which `reference.sh` checks; what this reads is
that form and no C at large. A statement that it cannot read is an error."""
import re
import sys
from pathlib import Path

SIMPLE = {"int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "float": "c_float",
          "double": "c_double", "char": "c_char", "uint8_t": "c_uint8", "int": "c_int"}
HINTS = {"float": "float", "double": "float"}
# Structs that Python sees as frozen records of its own, with texts and names of constants instead of bytes and numbers.
RECORDS = {"ocellus_model_facts": "ModelFacts", "ocellus_plan_row": "PlanRow", "ocellus_advice": "Advice",
           "ocellus_generate_stats": "AnswerStats", "ocellus_engine_stats": "EngineStats",
           "ocellus_library_item": "LibraryItem", "ocellus_library_use": "LibraryUse",
           "ocellus_library_report": "LibraryReport", "ocellus_gpu_facts": "GpuFacts", "ocellus_image_facts": "ImageFacts"}
# Structs whose fields are keyword arguments of Python's functions.
OPTIONS = {"ocellus_limits": "Limits", "ocellus_cache_policy": "CachePolicy", "ocellus_generate_params": "Sampling"}
# Fields of these that have a parameter of their own, or none.
NO_OPTIONS = {"struct_bytes", "budget_bytes", "device", "device_index", "max_sessions", "max_images", "max_text_tokens", "cache",
              "kv_bits", "kv_value_bits", "layer_bits_count", "layer_bits", "layer_value_bits", "evict", "keep", "logit_bias",
              "logit_bias_count", "deadline_ns", "slice_tokens", "constraint", "top_logprobs", "max_tokens"}


def expand(folder: Path, name: str, seen: set[str]) -> str:
    """The text of a header with its parts in their places."""
    if name in seen:
        return ""
    seen.add(name)
    text = (folder / name).read_text(encoding="utf-8")
    return re.sub(r'^#include "(\w+\.h)"$', lambda found: expand(folder, found[1], seen), text, flags=re.M)


def one_line(comment: str) -> str:
    comment = re.sub(r"^\s*\*", "", comment, flags=re.M)
    comment = re.sub(r"\s+", " ", comment).strip()
    comment = re.sub(r"::(ocellus_\w+)|OCELLUS_(\w+)", lambda found: found[1] or found[2], comment).replace("\\", "\\\\")
    return comment + "." if comment.endswith('"') else comment


class Header:
    """What a header declares, in order."""

    def __init__(self, text: str):
        self.enums: dict[str, list[tuple[str, int]]] = {}
        self.structs: dict[str, list[tuple[str, str, str, str]]] = {}  # name, ctypes type, hint, comment
        self.docs: dict[str, str] = {}
        self.callbacks: dict[str, list[str]] = {}
        self.functions: list[tuple[str, str, list[str]]] = []
        self.constants = [(name, str(eval(value.rstrip("u"), {})))
                          for name, value in re.findall(r"^#define (OCELLUS_\w+) (\(?[0-9][^\n]*)$", text, flags=re.M)]
        self.order: list[tuple[str, str]] = []
        self.parse(re.sub(r"^\s*#.*(\\\n.*)*$|^extern \"C\" \{$|^\}$", "", text, flags=re.M))

    def parse(self, text: str) -> None:
        statement = re.compile(
            r"(?P<skip>\s+|//[^\n]*|/\*(?!\*)(?:.|\n)*?\*/)|/\*\*(?P<doc>(?:.|\n)*?)\*/|"
            r"typedef (?P<kind>enum|struct) (?P<name>\w+)\s*(?:\{(?P<body>(?:[^{}]|\{[^{}]*\})*)\})?\s*\w+;|"
            r"typedef (?P<back>[^;(]+)\(\*(?P<callback>\w+)\)\((?P<takes>[^;]*)\);|"
            r"OCELLUS_API (?P<result>[^;(]+?)(?P<function>ocellus_\w+)\((?P<arguments>[^;]*)\);")
        at, doc = 0, ""
        while at < len(text):
            found = statement.match(text, at)
            if not found:
                raise SystemExit(f"generate_abi.py: cannot read {text[at:at + 80]!r}")
            at = found.end()
            if found["skip"]:
                continue
            if found["doc"] is not None:
                doc = one_line(found["doc"])
                continue
            self.declare(found, doc)
            doc = ""

    def declare(self, found: re.Match[str], doc: str) -> None:
        if found["kind"] == "enum":
            self.enums[found["name"]] = [(name, int(value)) for name, value in
                                         re.findall(r"(OCELLUS_\w+) = (\d+)", found["body"])]
        elif found["kind"] == "struct" and found["body"] is not None:
            self.docs[found["name"]] = doc
            self.order.append(("struct", found["name"]))
            self.structs[found["name"]] = [self.field(*field) for field in re.findall(
                r"^\s*((?:const |struct )*\w+[\s*]+(?:const\*\s*)?|[^;/]*?\(\*)(\w+)((?:\[\w+\])*|\)\([^;]*\));"
                r"(?:\s*/\*\*<((?:.|\n)*?)\*/)?", found["body"], flags=re.M)]
            if len(self.structs[found["name"]]) != re.sub(r"/\*(?:.|\n)*?\*/", "", found["body"]).count(";"):
                raise SystemExit(f"generate_abi.py: a field of {found['name']} cannot be read")
        elif found["callback"]:
            self.order.append(("callback", found["callback"]))
            self.callbacks[found["callback"]] = [self.type(found["back"])] + self.arguments(found["takes"])
        elif found["function"]:
            self.functions.append((found["function"], self.type(found["result"]), self.arguments(found["arguments"])))

    def field(self, kind: str, name: str, suffix: str, comment: str) -> tuple[str, str, str, str]:
        if suffix.startswith(")"):
            return name, "c_void_p", "Any", one_line(comment)
        kind_of = self.type(kind)
        hint = HINTS.get(kind.strip(), "int" if kind.strip() in SIMPLE else "Any")
        for size in reversed(re.findall(r"\w+", suffix)):
            kind_of += " * " + (size if size.isdigit() else dict(self.constants)[size])
            hint = "bytes" if kind.strip() == "char" and suffix.count("[") == 1 else "Any"
        return name, kind_of, hint, one_line(comment)

    def type(self, text: str) -> str:
        text = re.sub(r"\b(const|struct)\b", "", text)
        pointers, name = text.count("*"), text.replace("*", "").strip()
        if name == "void":
            return {0: "None", 1: "c_void_p", 2: "POINTER(c_void_p)"}[pointers]
        if pointers == 0:
            return SIMPLE.get(name) or (name if name in self.structs or name in self.callbacks else "c_int32")
        if name == "char" and pointers == 1:
            return "c_char_p"
        inner = SIMPLE.get(name) or (name if name in self.structs else None)
        if inner is None:  # a handle
            return {1: "c_void_p", 2: "POINTER(c_void_p)"}[pointers]
        return "POINTER(" * pointers + inner + ")" * pointers

    def arguments(self, text: str) -> list[str]:
        if text.strip() == "void":
            return []
        return [self.type(re.sub(r"\w+(\[\])?$", "", one.strip())) for one in text.split(",")]


def enum_of(header: Header, comment: str) -> str | None:
    """The enumeration that a field's comment refers to."""
    found = re.match(r"(ocellus_\w+)", comment)
    return found[1] if found and found[1] in header.enums else None


def names_of(header: Header, enum: str) -> dict[str, int]:
    """{"none": 0, "mpic": 1}: the names without what they begin with alike."""
    values = header.enums[enum]
    names = [name.split("_") for name, _ in values]
    alike = 0
    while all(len(name) > alike + 1 and name[alike] == names[0][alike] for name in names):
        alike += 1
    return {"_".join(name[alike:]).lower(): value for name, (_, value) in zip(names, values)}


def record(header: Header, struct: str) -> list[str]:
    lines = ["", "", f"class {RECORDS[struct]}(Record):", f'    """{header.docs[struct]}"""', ""]
    for name, kind, hint, comment in header.structs[struct]:
        python = "str" if enum_of(header, comment) or hint == "bytes" else hint
        if hint == "Any":
            python = "list[int]" if "c_int64 *" in kind else "list[str]"
        lines += [f"    {name}: {python}", f'    """{comment or name}"""']
    return lines


def write(header: Header) -> str:
    lines = ['"""The C API of Ocellus, made from ocellus.h by generate_abi.py. Do not edit."""',
             "from __future__ import annotations", "", "from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, "
             "c_double, c_float, c_int, c_int32,", "                    c_int64, c_uint8, c_uint32, c_uint64, c_void_p)",
             "from typing import Any, TypedDict", "", "from ._record import Record", ""]
    lines += [f"{name} = {value}" for name, value in header.constants]
    for values in header.enums.values():
        lines += [f"{name} = {value}" for name, value in values]
    for what, name in header.order:
        if what == "callback":
            lines += ["", f"{name} = CFUNCTYPE({', '.join(header.callbacks[name])})"]
            continue
        fields = header.structs[name]
        lines += ["", "", f"class {name}(Structure):", f'    """{header.docs[name]}"""']
        lines += [f"    {field}: {'Any' if hint == 'bytes' else hint}" for field, _, hint, _ in fields]
        lines += ["    _fields_ = [" + ", ".join(f'("{field}", {kind})' for field, kind, _, _ in fields) + "]"]
    for struct in RECORDS:
        lines += record(header, struct)
    names: dict[str, dict[str, int]] = {}
    for struct, title in OPTIONS.items():
        lines += ["", "", f"class {title}(TypedDict, total=False):", f'    """{header.docs[struct]}"""', ""]
        for name, kind, hint, comment in header.structs[struct]:
            if name in NO_OPTIONS or hint == "Any":
                continue
            enum = enum_of(header, comment)
            lines += [f"    {name}: {'str' if enum or hint == 'bytes' else hint}", f'    """{comment}"""']
    for struct in list(OPTIONS) + list(RECORDS):
        for name, _, _, comment in header.structs[struct]:
            enum = enum_of(header, comment)
            if enum:
                names[name] = names_of(header, enum)
    names["status"] = names_of(header, "ocellus_status")
    names["pixel_format"] = names_of(header, "ocellus_pixel_format")
    names["color_matrix"] = names_of(header, "ocellus_color_matrix")
    names["clip_sampling"] = names_of(header, "ocellus_clip_sampling")
    lines += ["", "", "# Names of constants by the field that takes them.", "NAMES: dict[str, dict[str, int]] = {"]
    lines += [f"    {name!r}: {values!r}," for name, values in names.items()] + ["}", ""]
    lines += ["# Functions: result, arguments.", "FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {"]
    lines += [f"    {name!r}: ({result}, [{', '.join(arguments)}])," for name, result, arguments in header.functions]
    return "\n".join(lines + ["}", ""])


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    text = write(Header(expand(folder, "ocellus.h", set())))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
