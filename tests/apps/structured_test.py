"""Answers of `ocellus serve` that a program can act on: forms that they must have, calls of tools, and log-probabilities."""

import concurrent.futures
import contextlib
import json
import math
import pathlib
import struct
import tempfile
import unittest

from program import GREEN_STAR, MMPROJ, MODEL
from server import Server, ServerTest, caption_of, user

FREE = {"temperature": 1.5, "max_tokens": 300}
COUNT = {"type": "object", "properties": {"what": {"enum": ["star", "circle"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
         "required": ["what", "count"], "additionalProperties": False}


def schema_format(schema, **fields):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **fields}}


def tool(name="look", parameters=None):
    return {"type": "function", "function": {"name": name, "description": "Looks.", "parameters": parameters or COUNT}}


class StructuredTest(ServerTest):
    def choice(self, fields, status=200, path="/v1/chat/completions"):
        body = fields if "prompt" in fields else {"messages": caption_of("113"), **fields}
        got, _, answer = self.server.request("POST", path, json.dumps(body).encode())
        self.assertEqual(got, status, answer)
        return json.loads(answer)["choices"][0]

    def chunks(self, **fields):
        return [json.loads(event)["choices"][0] for event in self.server.events(caption_of("113"), **fields)[:-1]]

    def assert_refused_field(self, fields, param, sentence=r"\."):
        status, answer = self.server.post({"messages": [user("Hello.")], **fields})
        self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        self.assertRegex(answer["error"]["message"], sentence)


class Forms(StructuredTest):
    flags = ["--sessions", 2]

    def test_answers_satisfy_a_schema_whose_members_keep_their_order(self):
        for seed in range(4):
            choice = self.choice({"response_format": schema_format(COUNT, strict=True), "seed": seed, **FREE})
            answer = json.loads(choice["message"]["content"])
            self.assertEqual(list(answer), ["what", "count"])
            self.assertIn(answer["what"], ["star", "circle"])
            self.assertIn(answer["count"], range(10))
            self.assertEqual(choice["finish_reason"], "stop")

    def test_schemas_that_clients_write_are_held(self):
        for part, right in [({"type": "string", "pattern": "^[A-Z0-9-]+$", "maxLength": 8}, r'"[A-Z0-9-]{1,8}"'),
                            ({"type": "object", "propertyNames": {"type": "string", "maxLength": 9},
                              "additionalProperties": {"enum": [1]}, "maxProperties": 2}, r'\{.*\}'),
                            ({"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
                             r'\[("a"|"b"|"a", "b"|"b", "a")?\]'),
                            ({"type": "string", "format": "path", "maxLength": 20}, '".*"'),
                            ({"type": "string", "pattern": "^(?!x)[a-z]+$", "maxLength": 20}, '"[a-wyz][a-z]*"')]:
            with self.subTest(part=part):
                schema = {"type": "object", "properties": {"it": part}, "required": ["it"]}
                choice = self.choice({"response_format": schema_format(schema), **FREE})
                self.assertRegex(choice["message"]["content"], r'(?s)^\{"it": ' + right + r'\}$')

    def test_streams_and_several_answers_satisfy_it_too(self):
        said = "".join(chunk["delta"].get("content", "") for chunk in self.chunks(response_format=schema_format(COUNT), **FREE))
        self.assertIn(json.loads(said)["what"], ["star", "circle"])
        _, answer = self.server.post({"messages": caption_of("113"), "n": 3, "response_format": schema_format(COUNT), **FREE})
        self.assertEqual(len([json.loads(choice["message"]["content"]) for choice in answer["choices"]]), 3)

    def test_forms_of_nested_counts_are_answered_and_what_takes_long_is_refused_with_its_field(self):
        nested = "(?:(?:(?:.{0,1000}){0,1000}){0,1000}){0,1000}"
        self.choice({"structured_outputs": {"regex": nested}, **FREE, "max_tokens": 12})
        rules = "".join(f"a{i} ::= ( b{i} | c{i} ){{0,{1000 + i}}}\nb{i} ::= .{{0,{500 + i}}}\nc{i} ::= [^x]{{0,{600 + i}}}\n"
                        for i in range(2000))
        self.assert_refused_field({"grammar": "root ::= " + " | ".join(f"a{i}" for i in range(1200)) + "\n" + rules},
                                  "grammar", "too large for the memory of a constraint")
        self.assert_refused_field({"structured_outputs": {"regex": "[ab]*a[ab]{28}(?:[ab]*b[ab]{25})?"}},
                                  "structured_outputs.regex", "takes more than|states than the memory")
        self.assert_refused_field({"grammar": 'root ::= "a" root'}, "grammar", "no text satisfies")

    def test_requests_that_want_the_same_new_form_at_once_are_all_answered(self):
        bodies = [{"messages": [user("Go.")], "structured_outputs": {"regex": f"[a-z]{{2,{9 + i // 3}}}"}, **FREE} for i in range(6)]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(self.server.post, bodies))
        self.assertEqual([status for status, _ in answers], [200] * 6, answers)

    def test_a_client_that_leaves_while_its_form_is_compiled_frees_its_session(self):
        rules = "".join(f"a{i} ::= ( b{i} | c{i} ){{0,{1000 + i}}}\nb{i} ::= .{{0,{500 + i}}}\nc{i} ::= [^x]{{0,{600 + i}}}\n"
                        for i in range(200))
        grammar = "root ::= " + " | ".join(f"a{i}" for i in range(200)) + "\n" + rules
        for _ in range(4):
            body = json.dumps({"messages": [user("Go.")], "grammar": grammar, "max_tokens": 1}).encode()
            with contextlib.suppress(TimeoutError):
                self.server.request("POST", "/v1/chat/completions", body, timeout_s=0.05)
        self.assertEqual(self.server.post({"messages": [user("Hello.")], "max_tokens": 2})[0], 200)

    def test_json_objects_regular_expressions_grammars_and_choices(self):
        self.assertTrue(self.choice({"response_format": {"type": "json_object"}, **FREE})["message"]["content"].startswith("{"))
        for fields, pattern in [({"structured_outputs": {"regex": "[ab]{3}"}}, "[ab]{3}"),
                                ({"structured_outputs": {"regex": " [ab]\n\n"}}, " [ab]\n\n"),
                                ({"structured_outputs": {"choice": ["yes", 'say "no"']}}, 'yes|say "no"'),
                                ({"structured_outputs": {"grammar": 'root ::= "x" [0-9]'}}, "x[0-9]"),
                                ({"grammar": 'root ::= "x" [0-9]', "structured_outputs": None}, "x[0-9]"),
                                ({"structured_outputs": {"json": {"const": 5}, "regex": None}}, "5"),
                                ({"structured_outputs": {"json": '{"const": 5}'}}, "5")]:
            with self.subTest(fields=fields):
                self.assertRegex(self.choice({**fields, **FREE})["message"]["content"], rf"\A({pattern})\Z")
        text = self.choice({"prompt": "It is", "structured_outputs": {"regex": " [ab]{3}"}, **FREE}, path="/v1/completions")["text"]
        self.assertRegex(text, r"\A [ab]{3}\Z")

    def test_more_forms_than_are_planned_come_one_after_the_other(self):
        for number in [0, 1, 2, 3, 0, 1]:
            self.assertEqual(self.server.ask(caption_of("113"), structured_outputs={"json": {"const": number}}), str(number))
        self.assertEqual(self.server.ask(caption_of("113")), GREEN_STAR)

    def test_what_cannot_be_held_is_refused_by_its_field(self):
        schema = "response_format.json_schema.schema"
        for fields, param in [
                ({"response_format": "text"}, "response_format"),
                ({"response_format": {"type": "xml"}}, "response_format.type"),
                ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
                ({"response_format": {"type": "json_schema", "json_schema": {}}}, schema),
                ({"response_format": schema_format({"type": "array", "contains": {}})}, schema),
                ({"response_format": schema_format({"minimum": 3, "maximum": 2, "type": "integer"})}, schema),
                ({"response_format": schema_format(5)}, schema),
                ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"), ({"structured_outputs": []}, "structured_outputs"),
                ({"structured_outputs": {}}, "structured_outputs"), ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
                ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice"),
                ({"structured_outputs": {"lark": "x"}}, "structured_outputs.lark"),
                ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs"),
                ({"grammar": "root ::= root"}, "grammar"), ({"grammar": 5}, "grammar"),
                ({"grammar": 'root ::= "a"', "response_format": {"type": "json_object"}}, "grammar"),
                ({"response_format": {"type": "json_object"}, "tools": [tool()], "tool_choice": "required"}, "tool_choice")]:
            with self.subTest(fields=str(fields)[:90]):
                self.assert_refused_field(fields, param)
        self.assert_refused_field({"response_format": schema_format({"type": "array", "contains": {}})}, schema, "contains")
        self.assertEqual(self.server.ask(caption_of("113")), GREEN_STAR)

    def test_planned_memory_bounds_them(self):
        for flags, fields, sentence in [(["--schemas", 0], {"response_format": {"type": "json_object"}}, "--schemas"),
                                        (["--schema-size", "64K"], {"response_format": schema_format({"enum": list(range(3000))})},
                                         "--schema-size")]:
            server = Server("--sessions", 1, *flags)
            self.addCleanup(server.process.kill)
            status, answer = server.post({"messages": [user("x")], **fields})
            self.assertEqual(status, 400, answer)
            self.assertIn(sentence, answer["error"]["message"])
            self.assertEqual(server.ask(caption_of("113")), GREEN_STAR)
            server.stop()
        self.assert_refused(["serve", "--sessions", 3, "--schemas", 2], 2, "--schemas 2: each session may need one")
        self.assert_refused(["serve", "--schema-size", "1K"], 2, "--schema-size 1K: write a size between 64K and 1G")


class ToolServer(StructuredTest):
    """The bundled model with a template that says how tools are called."""
    marks = b""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "tools.gguf"
        content = MODEL.read_bytes()
        start = content.index(b"<|im_start|>{% for message")
        length = struct.unpack("<Q", content[start - 8:start])[0]
        marks = b"<|im_start|><end_of_utterance>{# " + cls.marks + b" #}"
        path.write_bytes(content[:start] + marks.ljust(length) + content[start + length:])
        cls.server = Server("-m", path, "--mmproj", MMPROJ, "--text-tokens", 3000)

    def said(self, text, **fields):
        """The choice of an answer that is the given text."""
        pattern = "".join(c if c.isalnum() or c in ' "\n<>_:,/' else "\\" + c for c in text)
        return {"structured_outputs": {"regex": pattern}, "max_tokens": 300, **fields}

    def usage(self, messages, **fields):
        status, answer = self.server.post({"messages": messages, "max_tokens": 1, **fields})
        self.assertEqual(status, 200, answer)
        return answer["usage"]["prompt_tokens"]


class JsonTools(ToolServer):
    """Qwen3-VL's form of tools."""
    marks = b"<tools><tool_call>"

    def test_calls_are_taken_out_of_the_text(self):
        call = '<tool_call>\n{"name": "look", "arguments": {"what": "star", "count": 2}}\n</tool_call>'
        choice = self.choice(self.said("I look. " + call + "\n" + call, tools=[tool(), tool("other")]))
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(choice["message"]["content"], "I look.")
        calls = choice["message"]["tool_calls"]
        self.assertEqual([one["type"] for one in calls], ["function"] * 2)
        self.assertEqual(len({one["id"] for one in calls}), 2)
        self.assertEqual(calls[0]["function"]["name"], "look")
        self.assertEqual(json.loads(calls[0]["function"]["arguments"]), {"what": "star", "count": 2})
        choice = self.choice(self.said(call + call, tools=[tool()], parallel_tool_calls=False))
        self.assertEqual((len(choice["message"]["tool_calls"]), choice["message"]["content"]), (1, None))

    def test_a_stream_has_them_in_a_piece_of_their_own(self):
        chunks = self.chunks(**self.said('Yes <tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>', tools=[tool()]))
        self.assertEqual("".join(chunk["delta"].get("content", "") for chunk in chunks), "Yes")
        (calls,) = [chunk["delta"]["tool_calls"] for chunk in chunks if "tool_calls" in chunk["delta"]]
        self.assertEqual((calls[0]["index"], calls[0]["function"]), (0, {"name": "look", "arguments": "{}"}))
        self.assertEqual(chunks[-1]["finish_reason"], "tool_calls")

    def test_what_is_no_call_of_a_tool_is_text(self):
        for text in ["<tool_call>", '<tool_call>{"name": "none", "arguments": {}}</tool_call>', "<tool_call>{</tool_call>",
                     '<tool_call>{"name": "look", "arguments": {}}</tool_call> and', "1 <tool"]:
            with self.subTest(text=text):
                choice = self.choice(self.said(text, tools=[tool()]))
                self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (text, "stop"))
                self.assertNotIn("tool_calls", choice["message"])

    def test_the_model_reads_tools_calls_and_results(self):
        plain, with_tools = [self.usage([user("Look.")], **fields) for fields in ({}, {"tools": [tool()]})]
        self.assertGreater(with_tools, plain + 50)
        self.assertEqual(self.usage([user("Look.")], tools=[tool()], tool_choice="none"), plain)
        called = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"what": "star"}'}}
        asked = [user("Look."), {"role": "assistant", "content": None, "tool_calls": [called]}]
        answered = [*asked, {"role": "tool", "tool_call_id": "call_1", "content": "2"}]
        self.assertGreater(self.usage(answered), self.usage([user("Look."), {"role": "assistant", "content": ""}, user("2")]) + 20)
        self.usage([*answered, {"role": "tool", "tool_call_id": "call_2", "content": "3"}, user("So?")])
        for messages, param in [([user("x"), {"role": "tool", "content": "x"}], "messages[1].role"),
                                ([{"role": "tool", "content": "x"}], "messages[0].role"),
                                ([*asked[:1], {**asked[1], "tool_calls": [{"function": {"name": "f"}}]}, user("x")],
                                 "messages[1].tool_calls[0].function.arguments")]:
            self.assert_refused_field({"messages": messages}, param)


class Gemma4Tools(ToolServer):
    """Gemma 4's form of tools; its prompts are compared to its own template in tests/apps/serve."""
    marks = b"<|tool><|tool_call>call:"

    def test_calls_are_taken_out_of_the_text(self):
        call = '<|tool_call>call:look{what:<|"|>star<|"|>,count:2}<tool_call|>'
        choice = self.choice(self.said("I look. " + call + call, tools=[tool()]))
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", "I look."))
        arguments = [json.loads(one["function"]["arguments"]) for one in choice["message"]["tool_calls"]]
        self.assertEqual(arguments, [{"what": "star", "count": 2}] * 2)
        choice = self.choice(self.said("<|tool_call>call:look{", tools=[tool()]))
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("stop", "<|tool_call>call:look{"))

    def test_an_answer_goes_on_after_the_result_in_the_same_turn(self):
        called = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"what": "star"}'}}
        asked = [user("Look."), {"role": "assistant", "content": None, "tool_calls": [called]}]
        answered = [*asked, {"role": "tool", "tool_call_id": "call_1", "content": "2"}]
        one_turn = self.usage(answered)
        self.assertEqual(self.choice({"messages": answered, "structured_outputs": {"regex": "Two"}})["message"]["content"], "Two")
        self.assertGreater(self.usage([*answered, user("So?")]), one_turn)
        self.assertGreater(self.usage([*answered, {"role": "assistant", "content": "Two."}, user("So?")]), one_turn)
        self.assertLess(self.usage([*answered, {"role": "assistant", "content": "Two."}]), one_turn + 8)


class DemandedCalls(StructuredTest):
    """Calls that the request demands need nothing of the chat template."""
    flags = ["--text-tokens", 3000]

    def call(self, **fields):
        choice = self.choice({**FREE, **fields})
        self.assertEqual(choice["finish_reason"], "tool_calls", choice)
        self.assertIsNone(choice["message"]["content"])
        (call,) = choice["message"]["tool_calls"]
        return call["function"]["name"], json.loads(call["function"]["arguments"])

    def test_a_named_function_gets_arguments_that_satisfy_its_schema(self):
        name, arguments = self.call(tools=[tool("other", {"type": "object"}), tool()],
                                    tool_choice={"type": "function", "function": {"name": "look"}})
        self.assertEqual((name, list(arguments)), ("look", ["what", "count"]))

    def test_a_required_call_is_one_of_the_tools_and_references_stay_in_its_schema(self):
        shared = {"type": "object", "properties": {"at": {"$ref": "#/$defs/place"}}, "required": ["at"],
                  "additionalProperties": False, "$defs": {"place": {"enum": ["left", "right"]}}}
        tools = [tool("place", shared), tool("site", shared)]
        for seed in range(4):
            name, arguments = self.call(tools=tools, tool_choice="required", seed=seed)
            self.assertIn(name, ["place", "site"])
            self.assertIn(arguments["at"], ["left", "right"])
        name, arguments = self.call(tools=[tool(), *tools], tool_choice="required")
        self.assertIn(name, ["look", "place", "site"])

    def test_arguments_are_an_object_whatever_else_the_schema_allows(self):
        closed = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
        for parameters, said in [({}, [{}]), (None, [{}]), ({"type": ["object", "null"], "properties": {}}, [{}]),
                                 ({"anyOf": [closed, {"type": "null"}]}, [{"n": 1}, {"n": 2}]),
                                 ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [closed, {"type": "string"}]}}}, [{"n": 1}, {"n": 2}])]:
            function = {"name": "snapshot", **({} if parameters is None else {"parameters": parameters})}
            for choice in ("required", {"type": "function", "function": {"name": "snapshot"}}):
                with self.subTest(parameters=parameters, choice=choice):
                    self.assertIn(self.call(tools=[{"type": "function", "function": function}], tool_choice=choice)[1], said)

    def test_a_tool_whose_schema_cannot_be_held_is_named(self):
        behind = tool("send", {"type": "object", "properties": {"to": {"type": "string", "pattern": "^((?!no)[a-z])+$"}}})
        status, answer = self.server.post({"messages": [user("Go.")], "tools": [tool(), behind], "tool_choice": "required"})
        self.assertEqual((status, answer["error"]["param"]), (400, "tools[1].function.parameters"), answer)
        self.assertRegex(answer["error"]["message"], r"^tools\[1\]\.function\.parameters: #/properties/to/pattern: .*lookahead may only")
        name, arguments = self.call(tools=[tool(), behind], tool_choice={"type": "function", "function": {"name": "look"}})
        self.assertEqual((name, list(arguments)), ("look", ["what", "count"]))
        ahead = tool("send", {"type": "object", "properties": {"to": {"type": "string", "pattern": "^(?!x)[a-z]{1,9}$"}}, "required": ["to"]})
        self.assertRegex(self.call(tools=[ahead], tool_choice="required")[1]["to"], "^[a-wyz][a-z]*$")

    def test_bad_tools_are_refused_by_their_field(self):
        for fields, param in [
                ({"tools": 5}, "tools"), ({"tools": [tool()] * 129}, "tools"), ({"tools": [5]}, "tools[0]"),
                ({"tools": [{"type": "web"}]}, "tools[0].type"), ({"tools": [{"type": "function"}]}, "tools[0].function"),
                ({"tools": [{"function": {}}]}, "tools[0].function.name"), ({"tools": [tool("a b")]}, "tools[0].function.name"),
                ({"tools": [tool(parameters=[1])]}, "tools[0].function.parameters"), ({"tool_choice": "required"}, "tool_choice"),
                ({"tools": [tool()], "tool_choice": "some"}, "tool_choice"),
                ({"tools": [tool()], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice.function.name"),
                ({"tools": [tool(parameters={"not": {}})], "tool_choice": "required"}, "tools[0].function.parameters"),
                ({"tools": [tool(parameters={"type": "string"})]}, "tools[0].function.parameters.type"), ({"functions": [{}]}, "functions")]:
            with self.subTest(fields=str(fields)[:90]):
                self.assert_refused_field(fields, param)


class Logprobs(StructuredTest):
    def test_a_chats_tokens_have_log_probabilities_and_the_most_probable_ones(self):
        choice = self.choice({"logprobs": True, "top_logprobs": 3})
        tokens = choice["logprobs"]["content"]
        self.assertEqual("".join(token["token"] for token in tokens).strip(), choice["message"]["content"])
        for token in tokens:
            self.assertEqual(bytes(token["bytes"]).decode(), token["token"])
            top = token["top_logprobs"]
            self.assertEqual(len(top), 3)
            self.assertEqual(top[0]["token"], token["token"], "greedy")
            self.assertAlmostEqual(top[0]["logprob"], token["logprob"], places=5)
            self.assertEqual([one["logprob"] for one in top], sorted((one["logprob"] for one in top), reverse=True))
            self.assertLess(sum(math.exp(one["logprob"]) for one in top), 1 + 1e-5)
        self.assertIsNone(self.choice({})["logprobs"])
        self.assertEqual(self.choice({"logprobs": True})["logprobs"]["content"][0]["top_logprobs"], [])

    def test_the_pieces_of_a_stream_have_those_of_the_whole(self):
        whole = self.choice({"logprobs": True, "top_logprobs": 2, "stop": ["star"]})["logprobs"]["content"]
        pieces = [piece["logprobs"]["content"] for piece in self.chunks(logprobs=True, top_logprobs=2, stop=["star"])
                  if piece["logprobs"]]
        self.assertEqual(sum(pieces, []), whole)

    def test_a_completions_tokens_have_their_places_in_the_text(self):
        fields = {"prompt": "Über", "max_tokens": 6, "logprobs": 2, "echo": True, "ignore_eos": True}
        choice = self.choice(fields, path="/v1/completions")
        logprobs = choice["logprobs"]
        for token, offset, top, own in zip(logprobs["tokens"], logprobs["text_offset"], logprobs["top_logprobs"],
                                           logprobs["token_logprobs"], strict=True):
            if "\ufffd" not in token:  # half a character
                self.assertEqual(choice["text"][offset:offset + len(token)], token)
            if offset >= len(fields["prompt"]):  # else it was given
                self.assertEqual((len(top), max(top.values())), (2, own))
        pieces = [json.loads(event)["choices"][0] for event in self.server.stream("/v1/completions", fields)[:-1]]
        self.assertEqual(sum((piece["logprobs"]["text_offset"] for piece in pieces if piece["logprobs"]), []), logprobs["text_offset"])

    def test_numbers_out_of_range_are_refused(self):
        for fields, param in [({"logprobs": 2}, "logprobs"), ({"top_logprobs": 2}, "top_logprobs"),
                              ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"logprobs": True, "top_logprobs": -1}, "top_logprobs")]:
            self.assert_refused_field(fields, param)


class Choices(StructuredTest):
    def test_given_answers_have_probabilities_and_the_best_is_the_answer(self):
        texts = ["A large green star, on a black background.", GREEN_STAR, "Two circles."]
        choice = self.choice({"score_choices": texts})
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (GREEN_STAR, "stop"))
        self.assertEqual([one["text"] for one in choice["scores"]], texts)
        self.assertAlmostEqual(sum(one["probability"] for one in choice["scores"]), 1, places=6)
        self.assertGreater(choice["scores"][1]["probability"], 0.9)
        tokens = self.choice({"logprobs": True})["logprobs"]["content"]
        own = sum(token["logprob"] for token in tokens)
        self.assertLess(choice["scores"][1]["logprob"], own + 1e-3, "the end of the answer counts, too")
        self.assertGreater(choice["scores"][1]["logprob"], own - 0.1)
        self.assertEqual(self.server.ask(caption_of("113")), GREEN_STAR)

    def test_what_cannot_be_scored_is_refused(self):
        for fields in [{"score_choices": "yes"}, {"score_choices": ["yes"]}, {"score_choices": ["yes", ""]}, {"score_choices": ["yes", 1]},
                       {"score_choices": ["a", "b"], "stream": True}, {"score_choices": ["a", "b"], "n": 2},
                       {"score_choices": ["a"] * 65}, {"score_choices": ["a", "b " * 3000]}]:
            with self.subTest(fields=str(fields)[:60]):
                self.assert_refused_field(fields, "score_choices")


if __name__ == "__main__":
    unittest.main()
