#!/bin/sh
# Usage: sh findings/schema-four-engines.sh   (PyPI, some gigabytes for the torch that XGrammar needs; minutes)
. "$(dirname "$0")/steps"
say "A JSON schema means the same to every engine that holds answers to it; one that lacks a keyword says so." \
  "Three leave out keywords without an error, each others; patterns, order and further members differ, too."
from_pypi xgrammar==0.2.9 llguidance==1.9.1 outlines-core==0.2.14 lm-format-enforcer==0.11.3 torch==2.15.0
found=$("$python" - <<'PYTHON' 2>/dev/null
import json
import llguidance
import lmformatenforcer
import outlines_core
import torch
import xgrammar

BYTES = llguidance.LLTokenizer("byte")
END = 256
INFO = xgrammar.TokenizerInfo([bytes([b]) for b in range(256)] + ["</s>"], vocab_type=xgrammar.VocabType.RAW,
                              stop_token_ids=[END])
COMPILER = xgrammar.GrammarCompiler(INFO, max_threads=1)
VOCABULARY = outlines_core.Vocabulary(END, {bytes([b]): [b] for b in range(256)})

def with_xgrammar(schema, text):
    matcher = xgrammar.GrammarMatcher(COMPILER.compile_json_schema(json.dumps(schema)))
    return all(matcher.accept_token(b) for b in text.encode()) and matcher.accept_token(END)

def with_llguidance(schema, text):
    matcher = llguidance.LLMatcher(BYTES, llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema)), log_level=0)
    if matcher.is_error():
        raise ValueError
    return matcher.try_consume_tokens(list(text.encode())) == len(text.encode()) and matcher.is_accepting()

def with_outlines(schema, text):
    index = outlines_core.Index(outlines_core.json_schema.build_regex_from_schema(json.dumps(schema)), VOCABULARY)
    state = index.get_initial_state()
    for b in text.encode():
        state = index.get_next_state(state, b) if state is not None else None
    return state is not None and index.is_final_state(state)

def with_enforcer(schema, text):
    parser = lmformatenforcer.JsonSchemaParser(schema)
    for c in text:
        if c not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(c)
    return parser.can_end()

def told(engine, schema, text):
    try:
        return "allowed" if engine(schema, text) else "not allowed"
    except Exception:
        return "refused"

b_then_a = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, "required": ["a", "b"]}
print("XGrammar, llguidance, outlines-core, lm-format-enforcer")
CASES = [("uniqueItems", "not valid", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,1]"),
         ("minimum of an integer", "not valid", {"type": "integer", "minimum": 3}, "2"),
         ("maxLength with pattern", "not valid", {"type": "string", "pattern": "^b+$", "maxLength": 2}, '"bbb"'),
         ("pattern b, found inside", "valid", {"type": "string", "pattern": "b"}, '"abc"'),
         ("members in another order", "valid", b_then_a, '{"a":1,"b":2}'),
         ("a member not named", "valid", b_then_a, '{"b":1,"a":2,"c":3}'),
         ("quotation mark, maxLength", "valid", {"type": "string", "maxLength": 3}, r'"a\"b"')]
for name, valid, schema, text in CASES:
    print(f"{name} ({valid}):", ", ".join(told(engine, schema, text) for engine in (
        with_xgrammar, with_llguidance, with_outlines, with_enforcer)))
PYTHON
)
expected=$(cat <<'TEXT'
XGrammar, llguidance, outlines-core, lm-format-enforcer
uniqueItems (not valid): allowed, refused, allowed, allowed
minimum of an integer (not valid): not allowed, not allowed, allowed, allowed
maxLength with pattern (not valid): allowed, not allowed, not allowed, refused
pattern b, found inside (valid): not allowed, allowed, not allowed, not allowed
members in another order (valid): not allowed, not allowed, not allowed, allowed
a member not named (valid): not allowed, allowed, not allowed, not allowed
quotation mark, maxLength (valid): not allowed, allowed, allowed, allowed
TEXT
)
judge "$expected" "$found"
