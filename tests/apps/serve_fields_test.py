"""Fields of requests at every level: what would change the answer is read or refused by its place, other unknown ones are
ignored with a note or refused; nothing in any field ends the server or takes more memory than it has printed."""

import base64
import http.client
import json
import os
import pathlib
import re
import unittest
import urllib.parse

from program import GREEN_STAR, SOURCE, USAGE, FolderTest, board, long, memory_kb
from server import Server, ServerTest, image_part, picture_url, text_part, user

HELLO = [{"role": "user", "content": "Hello."}]
PICTURE = image_part(board("113"))
URL = PICTURE["image_url"]["url"]
SHORT = {"max_tokens": 1}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["a"],
          "additionalProperties": False}
FUNCTION = {"name": "f", "description": "Looks.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
CALLED = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [CALL]},
          {"role": "tool", "tool_call_id": "1", "content": "2"}, {"role": "user", "content": "And?"}]
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"


def changed(value, path, new):
    """A copy of `value` with `new` at the end of the path; a path of one name more adds a member."""
    if not path:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    inner = copy[path[0]] if isinstance(copy, list) or path[0] in copy else None
    copy[path[0]] = changed(inner, path[1:], new)
    return copy


class FieldTest(ServerTest):
    def send(self, path, body, server=None):
        status, _, answer = (server or self.server).request("POST", path, json.dumps(body).encode())
        return status, json.loads(answer)

    def assert_refused_field(self, path, body, param, sentence="."):
        status, answer = self.send(path, body)
        self.assertEqual((status, answer.get("error", {}).get("param")), (400, param), answer)
        self.assertRegex(answer["error"]["message"], sentence)


class OwnServerTest(FieldTest):
    """Each test starts its own server."""

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass


class Places(FieldTest):
    flags = ["--images", 2]

    def test_pictures_beside_the_content_are_refused_with_their_right_place(self):
        for name, value in [("images", [URL]), ("image", URL), ("files", ["x"]), ("attachments", [{"url": URL}]),
                            ("image_url", {"url": URL}), ("videos", ["x"]), ("documents", ["x"])]:
            with self.subTest(name=name):
                self.assert_refused_field(CHAT, {"messages": [{"role": "user", "content": "Hi.", name: value}], **SHORT},
                                          f"messages[0].{name}", r"use parts of the type image_url in messages\[0\]\.content\.")
                self.assert_refused_field(CHAT, {"messages": HELLO, name: value, **SHORT}, name,
                                          r"use parts of the type image_url in messages\[\]\.content\.")

    def test_every_object_of_a_conversation_is_checked(self):
        for messages, param in [
                ([user({**text_part("Hi."), "image_url": {"url": URL}})], "messages[0].content[0].image_url"),
                ([user({**PICTURE, "text": "What is this?"})], "messages[0].content[0].text"),
                ([user({**PICTURE, "detail": "low"})], "messages[0].content[0].detail"),
                ([user({"type": "image_url", "image_url": {"url": URL, "max_pixels": 50176}})],
                 "messages[0].content[0].image_url.max_pixels"),
                ([{**HELLO[0], "tool_calls": [CALL]}], "messages[0].tool_calls"),
                ([{**HELLO[0], "tool_call_id": "1"}], "messages[0].tool_call_id"),
                ([*HELLO, {"role": "assistant", "content": "A", "prefix": True}, *HELLO], "messages[1].prefix"),
                ([*HELLO, {"role": "assistant", "content": "A", "audio": {"id": "x"}}, *HELLO], "messages[1].audio"),
                (changed(CALLED, [1, "tool_calls", 0, "arguments"], "{}"), "messages[1].tool_calls[0].arguments"),
                (changed(CALLED, [1, "tool_calls", 0, "function", "parameters"], {"a": 1}),
                 "messages[1].tool_calls[0].function.parameters")]:
            with self.subTest(param=param):
                self.assert_refused_field(CHAT, {"messages": messages, **SHORT}, param)
        for fields, param in [
                ({"tools": [{**TOOL, "parameters": SCHEMA}]}, "tools[0].parameters"),
                ({"tools": [{**TOOL, "function": {"name": "f", "input_schema": SCHEMA}}]}, "tools[0].function.input_schema"),
                ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "g", "function": {"name": "f"}}}, "tool_choice.name"),
                ({"stream": True, "stream_options": {"continuous_usage_stats": True}}, "stream_options.continuous_usage_stats"),
                ({"chat_template_kwargs": {"reasoning_effort": "high"}}, "chat_template_kwargs.reasoning_effort"),
                ({"chat_template_kwargs": {"thinking": 5}}, "chat_template_kwargs.thinking"),
                ({"enable_thinking": 1}, "enable_thinking"), ({"thinking": {"type": "deep"}}, "thinking.type"),
                ({"thinking": {"budget": 5}}, "thinking.budget"), ({"reasoning_effort": "high"}, "reasoning_effort"),
                ({"reasoning": {"effort": "high"}}, "reasoning"), ({"reasoning_format": "none"}, "reasoning_format"),
                ({"skip_special_tokens": False}, "skip_special_tokens"), ({"echo": True}, "echo"), ({"repeat_last_n": 8}, "repeat_last_n"),
                ({"samplers": ["top_p", "top_k"]}, "samplers"), ({"xtc_probability": 0.5}, "xtc_probability"),
                ({"prompt": "x"}, "prompt"), ({"system": "Be brief."}, "system"), ({"max_new_tokens": 5}, "max_new_tokens")]:
            with self.subTest(param=param):
                self.assert_refused_field(CHAT, {"messages": HELLO, **SHORT, **fields}, param)

    def test_what_asks_for_nothing_is_fine(self):
        status, answer = self.send(CHAT, {"messages": [{**HELLO[0], "images": [], "tool_calls": None}], "repeat_penalty": 1.0,
                                          "repeat_last_n": 64, "store": True, "verbosity": "medium", "files": None, **SHORT})
        self.assertEqual(status, 200, answer)

    def test_the_values_that_other_servers_have_by_default_are_fine(self):
        """llama.cpp's web page, Open WebUI and clients that write out every field."""
        for fields in [{"repeat_last_n": 64, "dry_penalty_last_n": -1, "dry_sequence_breakers": ["\n", ":", "\"", "*"], "mirostat": 0,
                        "dynatemp_range": 0, "xtc_probability": 0, "typical_p": 1, "samplers": "edskypmxt", "tfs_z": 1.0},
                       {"samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]},
                       {"reasoning_effort": "none"}, {"reasoning_effort": "medium"}, {"reasoning_format": "auto"},
                       {"enable_thinking": False}, {"enable_thinking": True}, {"thinking": False}, {"thinking": {"type": "disabled"}},
                       {"thinking": {"type": "enabled"}}, {"thinking_token_budget": -1}, {"chat_template_kwargs": {"thinking": False}},
                       {"skip_special_tokens": True, "spaces_between_special_tokens": True, "add_special_tokens": False, "echo": False,
                        "include_reasoning": True, "return_token_ids": False, "mm_processor_kwargs": {}, "logits_processors": []},
                       {"include_stop_str_in_output": False, "stop": ""}, {"stop": ["", "never said"]}, {"logit_bias": []},
                       {"stream_options": {}}, {"stream_options": {"include_usage": False}}, {"priority": 0, "service_tier": "auto",
                        "prompt_cache_key": "x", "prompt_cache_retention": "24h", "safety_identifier": "y", "store": False},
                       {"web_search_options": None, "prediction": None, "audio": None, "modalities": ["text"], "tools": [],
                        "functions": [], "function_call": "none", "tool_choice": "none", "logprobs": False, "top_logprobs": 0}]:
            with self.subTest(fields=fields):
                status, answer = self.send(CHAT, {"messages": HELLO, **SHORT, **fields})
                self.assertEqual(status, 200, answer)

    def test_the_schema_of_a_json_object_holds(self):
        for schema in [SCHEMA, {**SCHEMA, "properties": {"a": {"const": "x"}}}]:
            status, answer = self.send(CHAT, {"messages": HELLO, "max_tokens": 60, "temperature": 2, "seed": 1,
                                              "response_format": {"type": "json_object", "schema": schema}})
            self.assertEqual(status, 200, answer)
            value = json.loads(answer["choices"][0]["message"]["content"])["a"]
            self.assertTrue(value == "x" if "const" in schema["properties"]["a"] else 0 <= value <= 9, value)
        self.assert_refused_field(CHAT, {"messages": HELLO, "response_format": {"type": "json_object", "schema": {"pattern": 5}}},
                                  "response_format.schema")

    def test_what_another_type_of_form_reads_is_refused(self):
        wrapped = {"name": "x", "schema": SCHEMA}
        for form, param in [({"type": "json_object", "json_schema": wrapped}, "response_format.json_schema"),
                            ({"type": "text", "schema": SCHEMA}, "response_format.schema"),
                            ({"type": "text", "json_schema": wrapped}, "response_format.json_schema"),
                            ({"type": "json_schema", "json_schema": wrapped, "schema": SCHEMA}, "response_format.schema"),
                            ({"type": "json_schema", "json_schema": {**wrapped, "properties": {"a": {}}}},
                             "response_format.json_schema.properties"),
                            ({"type": "text", "grammar": "root ::= \"a\""}, "response_format.grammar")]:
            with self.subTest(form=form):
                self.assert_refused_field(CHAT, {"messages": HELLO, "response_format": form}, param)

    def test_the_other_end_points_check_their_fields(self):
        for path, body, param in [("/v1/completions", {"prompt": "x", "messages": HELLO}, "messages"),
                                  ("/v1/completions", {"prompt": "x", "images": [URL]}, "images"),
                                  ("/v1/embeddings", {"input": "x", "truncate": True}, "truncate"),
                                  ("/v1/embeddings", {"input": "x", "images": [URL]}, "images"),
                                  ("/v1/embeddings", {"input": [{**text_part("x"), "image_url": URL}]}, "input[0].image_url"),
                                  ("/tokenize", {"content": "x", "messages": HELLO}, "messages"),
                                  ("/tokenize", {"content": "x", "add_special_tokens": True}, "add_special_tokens"),
                                  ("/detokenize", {"tokens": [1], "ids": [2]}, "ids")]:
            with self.subTest(path=path, param=param):
                self.assert_refused_field(path, {**body, **(SHORT if path == "/v1/completions" else {})}, param)
        self.assertEqual(self.send("/tokenize", {"content": "x", "model": "y"})[1]["error"]["code"], "model_not_found")

    def test_a_member_that_an_object_has_twice_is_refused(self):
        for body, name in [(b'{"messages": [{"role": "user", "content": "a"}], "messages": [{"role": "user", "content": "b"}]}', "messages"),
                           (b'{"messages": [{"role": "user", "content": "a:{", "content": "b"}]}', "content")]:
            status, answer = self.server.post(body)
            self.assertEqual((status, answer["error"]["param"]), (400, name), answer)

    def test_urls_in_schemas_tools_and_texts_stay_what_they_are(self):
        """Pictures are cut out of a request's text; nothing else is, and no mark of a cut gets out."""
        for where in ["url", "image_url", "video_url"]:
            schema = {"type": "object", "properties": {where: {"const": "http://a/b"}}, "required": [where],
                      "additionalProperties": False}
            held = {"const": {where: "http://a/b"}}
            for form in [schema, held, {"enum": [{where: "http://a/b"}]}]:
                status, answer = self.send(CHAT, {"messages": HELLO, "max_tokens": 80, "structured_outputs": {"json": form}})
                self.assertEqual(status, 200, answer)
                self.assertEqual(json.loads(answer["choices"][0]["message"]["content"]), {where: "http://a/b"})
            status, answer = self.send(CHAT, {"messages": HELLO, "max_tokens": 80, "tool_choice": "required", "tools": [
                {"type": "function", "function": {"name": "f", "parameters": {
                    "type": "object", "properties": {"x": held}, "required": ["x"], "additionalProperties": False}}}]})
            (call,) = answer["choices"][0]["message"]["tool_calls"]
            self.assertEqual(json.loads(call["function"]["arguments"]), {"x": {where: "http://a/b"}})

    def test_quoted_values_are_cut(self):
        much = "x" * 1_900_000
        for path, body in [(CHAT, {"messages": HELLO, "model": much}), (CHAT, {"messages": [{"role": "user", "content": [{"type": much}]}]}),
                           (CHAT, {"messages": [user({"type": "image_url", "image_url": {"url": URL, "detail": much}})]}),
                           (CHAT, {"messages": HELLO, "structured_outputs": {much: 1}}),
                           (CHAT, {"messages": HELLO, "response_format": {"type": "json_object", "schema": {"type": much}}}),
                           (CHAT, {"messages": HELLO, "grammar": "root ::= " + much}),
                           (CHAT, {"messages": [{"role": "user", "content": f"<retrieve: {much}>"}]})]:
            status, answer = self.send(path, body)
            self.assertGreaterEqual(status, 400)
            self.assertLess(len(json.dumps(answer)), 5000, str(answer)[:200])


class Spellings(FieldTest):
    """Values in every spelling that clients have for them."""

    def test_whole_numbers_may_be_written_with_a_fraction(self):
        plain = {"max_tokens": 5, "n": 1, "top_k": 3, "seed": 7, "temperature": 1, "ignore_eos": True}
        dotted = json.dumps({"messages": HELLO, **plain}).replace("5,", "5.0,").replace("1,", "1.0,").replace("3,", "3.0,").replace("7,", "7e0,")
        self.assertIn("5.0", dotted)
        status, answer = self.server.post(dotted.encode())
        self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 5), answer)
        self.assertEqual(answer["choices"][0]["message"]["content"], self.server.ask(HELLO, **plain))
        for path, body in [("/v1/completions", b'{"prompt": [1.0, 2.0], "max_tokens": 2.0, "logprobs": 1.0}'),
                           ("/v1/embeddings", b'{"input": [1.0, 2]}'), ("/detokenize", b'{"tokens": [5.0]}')]:
            status, _, answer = self.server.request("POST", path, body)
            self.assertEqual(status, 200, answer)
        for value in ["1.5", "1e300", "-1.5", "1e-3", "true", '"5"', "[5]", "-2", "-1e99"]:
            status, answer = self.server.post(b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": ' + value.encode() + b"}")
            self.assertEqual((status, answer["error"]["param"]), (400, "max_tokens"), answer)

    def test_more_tokens_than_there_is_room_for_are_no_limit(self):
        """As llama.cpp and vLLM clamp it: the answer ends by itself, or where the planned text does."""
        texts = 300
        small = Server("--text-tokens", texts)
        self.addCleanup(small.process.kill)
        for name in ["max_tokens", "max_completion_tokens"]:
            for value in [-1, -1.0, 2000, 2**31, 2**62]:
                with self.subTest(name=name, value=value):
                    status, answer = small.post({"messages": HELLO, "ignore_eos": True, name: value})
                    self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "length"), answer)
                    self.assertTrue(texts <= answer["usage"]["total_tokens"] < texts + 20, answer)  # whole pages of them
        status, answer = small.post({"messages": HELLO, "max_tokens": -1, "logprobs": True, "top_logprobs": 20, "ignore_eos": True})
        self.assertEqual(status, 200, answer)
        status, _, answer = small.request("POST", "/v1/completions", json.dumps({"prompt": "A", "max_tokens": -1}))
        self.assertEqual(status, 200, answer)
        self.assertEqual(small.stop()[0], 0)

    def test_a_data_url_is_read_in_every_spelling(self):
        data = pathlib.Path(board("113")).read_bytes()
        text = base64.b64encode(data).decode()
        self.assertTrue("+" in text and "/" in text)
        bare = text.rstrip("=")
        bodies = [text, bare, text[:40] + "\n" + text[40:], "\r\n".join(text[i:i + 76] for i in range(0, len(text), 76)), " " + text + "\t\f",
                  text.replace("+", "-").replace("/", "_"), text.replace("+", "%2B").replace("/", "%2f").replace("=", "%3D"),
                  text[:8] + "%0A" + text[8:], base64.urlsafe_b64encode(data).decode().rstrip("=")]
        urls = ["data:image/png;base64," + body for body in bodies]
        urls += [head + text for head in ["data:image/png;BASE64,", "DATA:IMAGE/PNG;Base64,", "data:;base64,", "data:image/png;charset=utf-8;base64,",
                                          "data:image/png;name=\"a.png\"; base64 ,", " \ndata:image/png;base64,", "data:image/jpg;base64,",
                                          "data:image/x-png;base64,", "data:application/octet-stream;base64,", "data:binary/octet-stream;base64,"]]
        urls += ["data:image/png," + urllib.parse.quote(data), "data:," + urllib.parse.quote(data, safe="/+=,;:")]
        for url in urls:
            for given in [{"url": url}, url]:
                part = {"type": "image_url", "image_url": given}
                with self.subTest(url=url[:60]):
                    self.assertEqual(self.server.ask([user("Caption this image.", part)]), GREEN_STAR)
        same = [self.send("/v1/embeddings", {"input": [{"type": "image_url", "image_url": {"url": url}}]})[1]["data"] for url in urls]
        self.assertEqual(same, same[:1] * len(urls))

    def test_what_is_no_data_url_is_refused(self):
        text = URL.partition(",")[2]
        for url in ["data:image/png;base64", "data:image/png;base64,A", "data:image/png;base64," + text + "A", "data:image/png;base64,*" + text,
                    "data:image/png;base64,=" + text, "data:image/png;base64," + text.rstrip("=") + "=" * 3, "data:audio/wav;base64," + text,
                    "data:video/mp4;base64," + text, "data:" + "x" * 2000 + ";base64," + text, "date:image/png;base64," + text, text, "%64ata:," + text,
                    "data:image/png;base64,%" + text, "HTTP://127.0.0.1/a.png", "https:a"]:
            with self.subTest(url=url[:60]):
                self.assert_refused_field(CHAT, {"messages": [user({"type": "image_url", "image_url": {"url": url}})]},
                                          "messages[0].content[0].image_url.url")

    def test_paths_are_found_without_v1_and_with_a_slash_at_the_end(self):
        for path, body in [("/chat/completions", {"messages": HELLO, **SHORT}), ("/completions", {"prompt": "x", **SHORT}),
                           ("/embeddings", {"input": "x"})]:
            for spelling in [path, path + "/", "/v1" + path + "/", "/v1" + path]:
                status, answer = self.send(spelling, body)
                self.assertEqual(status, 200, (spelling, answer))
        for path in ["/models", "/models/", "/v1/models/", "/v1/models/ocellus/", "/models/ocellus", "/health/", "/metrics/"]:
            self.assertEqual(self.server.request("GET", path)[0], 200, path)
        for path in ["/chat", "/v1", "/v1/", "/v1/v1/models", "/v1/health", "/models//", "/v2/models"]:
            self.assertEqual(self.server.request("GET", path)[0], 404, path)

    def test_an_answer_may_show_the_stop_string_that_ended_it(self):
        messages = [user("Caption this image.", PICTURE)]
        for stop in ["green", "en st", ["never said", "star"], "\n"]:
            plain, shown = [self.server.ask(messages, stop=stop, include_stop_str_in_output=shows) for shows in (False, True)]
            found = [one for one in ([stop] if isinstance(stop, str) else stop) if one in GREEN_STAR]
            end = GREEN_STAR.index(found[0]) + len(found[0]) if found else None
            self.assertEqual((shown, len(plain) < len(shown)), (GREEN_STAR[:end], bool(found)))
            chunks = [json.loads(event) for event in self.server.events(messages, stop=stop, include_stop_str_in_output=True)[:-1]]
            self.assertEqual("".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks), shown)


class Names(OwnServerTest):
    def start(self, *flags):
        self.server = Server(*flags)
        self.addCleanup(self.server.process.kill)

    def listed(self):
        return [model["id"] for model in json.loads(self.server.request("GET", "/v1/models")[2])["data"]]

    def answering(self, *fields):
        status, answer = self.send(CHAT, {"messages": HELLO, **SHORT, **dict(fields)})
        return answer["model"] if status == 200 else status

    def test_a_model_has_the_names_that_it_is_given(self):
        self.start("--alias", "gpt-4o", "--alias", "openai/eyes:1")
        self.assertEqual(self.listed(), ["gpt-4o", "openai/eyes:1"])
        for name in ["gpt-4o", "openai/eyes:1", "Shapeboard-34M", "ocellus"]:
            self.assertEqual(self.answering(("model", name)), name)
            self.assertEqual(self.server.request("GET", "/v1/models/" + name)[0], 200)
        self.assertEqual((self.answering(), self.answering(("model", "gpt-4"))), ("gpt-4o", 404))
        self.server.stop()

    def test_every_name_is_taken_where_that_was_asked_for(self):
        self.start("--any-model")
        self.assertEqual(self.listed(), ["Shapeboard-34M"])
        for name in ["gpt-4o", "x" * 300, "a b"]:
            self.assertEqual(self.answering(("model", name)), name)
        self.assertEqual(self.send("/v1/embeddings", {"input": "x", "model": "text-embedding-3-small"})[1]["model"], "text-embedding-3-small")
        self.server.stop()

    def test_names_that_no_request_could_have_are_refused(self):
        for name in ["", "a b", "x" * 201, "\t"]:
            self.assert_refused(["serve", "--alias", name], USAGE, "--alias")

    def test_a_model_without_a_vision_part_reads_no_pictures(self):
        self.start("--model", SOURCE / "apps" / "models" / "shapeboard-34m-q8_0.gguf")
        part = image_part(board("113"))
        for path, body, param in [(CHAT, {"messages": [user("x", part)]}, "messages[0].content[1].image_url.url"),
                                  ("/v1/embeddings", {"input": [part]}, "input[0].image_url.url")]:
            self.assert_refused_field(path, body, param, "^This model reads no pictures")
        video = {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64," + URL.partition(",")[2]}}
        self.assert_refused_field(CHAT, {"messages": [user(video)]}, "messages[0].content[0].video_url.url", "reads no pictures")
        self.server.stop()


class Notes(FieldTest):
    def test_unknown_fields_of_inner_objects_follow_the_rule_of_the_top_level(self):
        body = {"messages": [{**HELLO[0], "mood": "good"}, {**HELLO[0], "mood": "bad"}, user({**text_part("x"), "color": 1})],
                "tools": [changed(TOOL, ["function", "owner"], "me")], "tool_choice": "none", **SHORT}
        told = Server(quiet=False)
        self.addCleanup(told.process.kill)
        self.assertEqual(self.send(CHAT, body, told)[0], 200)
        free = {"messages": HELLO, "tools": [TOOL]}
        self.assertEqual([self.send(CHAT, free, told)[0] for _ in range(2)], [200, 200])
        _, _, errors = told.stop()
        self.assertEqual(errors.count("chat template has not"), 1, errors)
        for field in ["messages[].mood", "messages[].content[].color", "tools[].function.owner"]:
            self.assertEqual(errors.count(f"unknown field {field}:"), 1, errors)
        strict = Server("--strict")
        self.addCleanup(strict.process.kill)
        for path, body, param in [(CHAT, body, "messages[0].mood"), ("/v1/embeddings", {"input": "x", "a": 1}, "a"),
                                  ("/tokenize", {"content": "x", "a": 1}, "a"), ("/detokenize", {"tokens": [], "a": 1}, "a"),
                                  (CHAT, {"messages": HELLO, "tools": [changed(TOOL, ["b"], 1)], "tool_choice": "none"}, "tools[0].b"),
                                  (CHAT, {"messages": HELLO, "response_format": {"type": "text", "b": 1}}, "response_format.b")]:
            status, answer = self.send(path, body, strict)
            self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, param, "unknown_parameter"))
        status, answer = self.send(CHAT, free, strict)
        self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, "tools", "unsupported_parameter"))
        strict.stop()


def paths_of(value, path=()):
    """The paths of all values within one, its own included."""
    yield list(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for name, inner in items:
        yield from paths_of(inner, (*path, name))


RESPONSE_ITEMS = [
    {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": URL, "detail": "auto"}]},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "x"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, {"role": "user", "content": "x"}]

# Requests that are answered, and which together have every field.
REQUESTS = [
    (CHAT, {"model": "ocellus", "messages": [{"role": "system", "content": "x"}, user(text_part("x"), PICTURE)], "max_tokens": 1, "n": 1,
            "stream": True, "stream_options": {"include_usage": True}, "temperature": 0, "top_p": 1, "top_k": 1, "min_p": 0,
            "typical_p": 1, "top_n_sigma": 0, "seed": 1, "stop": ["x"], "repetition_penalty": 1, "frequency_penalty": 0,
            "presence_penalty": 0, "dry_multiplier": 0, "dry_base": 2, "dry_allowed_length": 2, "logit_bias": {"1": 1},
            "logprobs": True, "top_logprobs": 1, "ignore_eos": True, "user": "u", "metadata": {"a": "b"}, "grammar": "root ::= \"a\"",
            "chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 0, "max_completion_tokens": 1, "unknown": 1}),
    (CHAT, {"messages": CALLED, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": True, "max_tokens": 1}),
    (CHAT, {"messages": CALLED, "tools": [TOOL], "tool_choice": "auto", "max_tokens": 1}),
    (CHAT, {"messages": HELLO, "max_tokens": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}}),
    (CHAT, {"messages": HELLO, "max_tokens": 1, "structured_outputs": {"json": json.dumps(SCHEMA)}}),
    (CHAT, {"messages": HELLO, "max_tokens": 1, "structured_outputs": {"choice": ["a", "b"]}}),
    (CHAT, {"messages": HELLO, "max_tokens": 1, "structured_outputs": {"regex": "a"}}),
    (CHAT, {"messages": HELLO, "score_choices": ["a", "b"]}),
    (CHAT, {"messages": [user({"type": "video_url", "video_url": {"url": picture_url(b"x", "jpeg"), "fps": 1}})], "max_tokens": 1}),
    (RESPONSES, {"instructions": "x", "input": RESPONSE_ITEMS, "tools": [{"type": "function", **TOOL["function"]}], "tool_choice": "auto",
                 "max_output_tokens": 1, "reasoning": {"effort": "none"}, "include": ["message.output_text.logprobs"], "store": False}),
    (RESPONSES, {"input": "x", "max_output_tokens": 1, "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}}),
    ("/v1/completions", {"prompt": ["x", [1]], "echo": True, "best_of": 1, "logprobs": 1, "max_tokens": 1}),
    ("/v1/embeddings", {"input": ["x", [1], text_part("x"), PICTURE], "model": "ocellus", "encoding_format": "float", "user": "u"}),
    ("/tokenize", {"content": "x", "add_special": True, "parse_special": True, "with_pieces": True}),
    ("/detokenize", {"tokens": [1]})]
MUCH = 1_900_000
HOSTILE = {"lists in lists": b"[" * (MUCH // 2) + b"]" * (MUCH // 2),
           "objects in objects": b'{"a":' * (MUCH // 6) + b"1" + b"}" * (MUCH // 6),
           "a long text": b'"' + b"a b " * (MUCH // 4) + b'"',
           "JSON in a text": b'"' + rb'{\"a\":' * (MUCH // 14) + b"1" + b"}" * (MUCH // 14) + b'"',
           "lists in a text": b'"' + b"[" * MUCH + b'"',
           "quotes of Gemma 4": b'"' + rb'<|\"|>' * (MUCH // 6) + b'"',
           "many numbers": b"[" + b"1," * 19_000 + b"1]",
           "many objects": b"[" + b"{}," * 19_000 + b"{}]",
           "many members": b"{" + b",".join(b'"%d":"%s"' % (i, b"y" * 900) for i in range(1990)) + b"}",
           "a long number": b"1" * MUCH, "a large number": b"1e999999"}
ALL = os.environ.get("OCELLUS_ALL_FIELDS") == "1"  # minutes; else each field has some of the shapes


class Hostile(OwnServerTest, FolderTest):
    """Deep and huge values in every field, with a model that shows tools in Gemma 4's form."""

    def start(self, *flags):
        old = b"{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
        pair = self.changed_model(old, b"{# <|tool> <|tool_call>call: #}".ljust(len(old)))
        server = Server(*pair, "--images", 2, *flags)
        self.addCleanup(server.process.kill)
        return server

    def post_raw(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request("POST", path, body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def assert_grown_less(self, before_kb, most_mb):
        if os.environ.get("OCELLUS_SANITIZED") != "1":  # sanitizers keep what was freed
            self.assertLess(memory_kb(self.server.process, "VmHWM") - before_kb, most_mb * 1024)

    @long
    def test_no_value_in_any_field_ends_the_server_or_takes_more_than_was_printed(self):
        self.server = self.start("--deadline", 10)
        self.post_raw(CHAT, json.dumps(REQUESTS[0][1]))
        most = self.server.metric("ocellus_http_bytes_limit") / 2**20
        before = memory_kb(self.server.process, "VmRSS")
        shapes = list(HOSTILE)
        number = 0
        for path, request in REQUESTS:
            for place in paths_of(request):
                for shape in shapes if ALL else [shapes[number % len(shapes)], shapes[(number + 5) % len(shapes)]]:
                    body = json.dumps(changed(request, place, "HERE")).encode().replace(b'"HERE"', HOSTILE[shape])
                    with self.subTest(path=path, place=place, shape=shape):
                        status, answer = self.post_raw(path, body)
                        self.assertIn(status, (200, 400, 404, 413, 504), answer[:300])
                        if status != 200:
                            self.assertLess(len(answer), 6000)
                            self.assertNotIn(b"mark=", answer)
                    number += 1
        self.assertIsNone(self.server.process.poll())
        self.assert_grown_less(before, most)
        self.assertEqual(self.server.ask(HELLO, max_tokens=1, temperature=0), self.server.ask(HELLO, max_tokens=1, temperature=0))
        self.assertEqual(self.server.stop()[0], 0)

    def test_arguments_of_earlier_calls_nest_as_deep_as_a_request_may(self):
        self.server = self.start()
        for count in [31, 33, 22_500, 60_000]:
            arguments = '{"a":' * count + "1" + "}" * count
            status, answer = self.server.post({"messages": changed(CALLED, [1, "tool_calls", 0, "function", "arguments"], arguments), **SHORT})
            self.assertEqual(status, 200 if count < 32 else 400, answer)
            if count > 32:
                self.assertEqual(answer["error"]["param"], "messages[1].tool_calls[0].function.arguments")
        self.assertEqual(self.server.stop()[0], 0)

    def test_long_lists_of_tokens_and_embeddings_are_written_while_they_are_read(self):
        self.server = self.start()
        self.post_raw("/tokenize", json.dumps({"content": "a b " * 1000, "with_pieces": True}))
        before = memory_kb(self.server.process, "VmRSS")
        pathlib.Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5")
        status, answer = self.post_raw("/tokenize", json.dumps({"content": "a b " * 500_000, "with_pieces": True}))
        self.assertEqual((status, len(json.loads(answer)["tokens"])), (200, 1_000_001))
        self.assert_grown_less(before, 80)  # 16 MB for the request, 64 for its tokens
        status, answer = self.post_raw("/v1/embeddings", json.dumps({"input": ["a"] * 600}))
        data = json.loads(answer)["data"]
        self.assertEqual([one["index"] for one in data], list(range(600)))
        self.assertEqual(data[0]["embedding"], data[599]["embedding"])
        self.assert_grown_less(before, 80)  # 16 MB for the request, 64 for its tokens


if __name__ == "__main__":
    unittest.main()
