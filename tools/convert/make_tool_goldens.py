"""Makes the conversations with tools in tests/data/tools: requests, and the prompts that a model's own chat template makes of
them in transformers.

usage: make_tool_goldens.py CHAT_TEMPLATE OUT_FILE     (CHAT_TEMPLATE: chat_template.jinja of google/gemma-4-E2B-it)
needs: pip install transformers jinja2
"""
import argparse
import copy
import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather.", "parameters": {
        "type": "object", "required": ["city", "unit"], "properties": {
            "city": {"type": "string", "description": "The city, as in \"Paris\"."},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "Days": {"type": "integer", "nullable": True}}}}}
MARK = {"type": "function", "function": {
    "name": "mark", "description": "Marks things.", "parameters": {
        "type": "object", "required": ["things"], "properties": {
            "things": {"type": "array", "description": "What to mark.", "items": {
                "type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "box": {"type": "array", "items": {"type": "number"}, "description": "Corners."}}}},
            "style": {"type": "object", "description": "How.", "required": ["colour"], "properties": {
                "colour": {"type": "string", "enum": ["red"]}, "width": {"type": "number"}}},
            "tags": {"type": "array", "items": {"type": "string", "minLength": 2}},
            "quick": {"type": "boolean"}}}}}
BARE = {"type": "function", "function": {"name": "stop", "description": "Stops."}}


def user(text):
    return {"role": "user", "content": text}


def call(number, name, **arguments):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def answer(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(number, text):
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


PARIS = call(1, "get_weather", unit="celsius", city="Paris", Days=None)
BOXES = call(2, "mark", things=[{"name": "sta\"r", "box": [0.5, 1, -2e-7]}, {}], quick=True, tags=[])
CASES = [
    {"messages": [user("How warm is it?")], "tools": [WEATHER]},
    {"messages": [{"role": "system", "content": "Be brief."}, user("Mark them.")], "tools": [MARK, WEATHER, BARE]},
    {"messages": [user("How warm is it?"), answer(PARIS), result(1, "21 degrees")], "tools": [WEATHER]},
    {"messages": [user("Both."), answer(PARIS, BOXES), result(2, "{\"ok\": true}"), result(1, "21")], "tools": [WEATHER, MARK]},
    {"messages": [user("How warm is it?"), answer(PARIS), result(1, "21"), {"role": "assistant", "content": "It is 21."}, user("And now?")],
     "tools": [WEATHER]},
    {"messages": [user("Both."), answer(PARIS), result(1, "21"), answer(BOXES), result(2, "done")], "tools": [WEATHER, MARK]},
]


def render(case, template):
    """The prompt; the template takes arguments as objects."""
    messages = copy.deepcopy(case["messages"])
    for message in messages:
        for one in message.get("tool_calls", []):
            one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    prompts, _ = render_jinja_template([messages], tools=case["tools"], chat_template=template, add_generation_prompt=True,
                                       bos_token="<bos>")
    return prompts[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("template", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    template = args.template.read_text()
    cases = [json.dumps({"request": case, "prompt": render(case, template)}) for case in CASES]
    args.out.write_text("[" + ",\n ".join(cases) + "]\n")


if __name__ == "__main__":
    main()
