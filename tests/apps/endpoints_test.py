"""The endpoints of `ocellus serve` beside chat: completions and embeddings (tokens: tokens_test.py); several answers to one request; and
what sessions keep of the prompts that they have read."""

import base64
import concurrent.futures
import json
import math
import pathlib
import shutil
import struct
import tempfile
import unittest

from program import GREEN_STAR, board
from server import Server, ServerTest, caption_of, image_part, user

BEGINNING = "A large green star"


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other))


class EndpointTest(ServerTest):
    def send(self, path, body, status=200, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        got, _, answer = self.server.request("POST", path, data, headers)
        self.assertEqual(got, status, answer)
        return json.loads(answer)

    def assert_refused_field(self, path, body, param, code=None):
        error = self.send(path, body, 400)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual((error["param"], error["type"]), (param, "invalid_request_error"), error)
        self.assertRegex(error["message"], r"\.\Z")
        if code:
            self.assertEqual(error["code"], code)

    def pieces(self, path, body):
        """The events of a stream without its end."""
        events = self.server.stream(path, body)
        self.assertEqual(events.pop(), "[DONE]")
        return [json.loads(event) for event in events]


class Completions(EndpointTest):
    path = "/v1/completions"

    def test_a_prompt_goes_on_without_a_chat_template(self):
        answer = self.send(self.path, {"prompt": BEGINNING, "max_tokens": 5, "ignore_eos": True})
        self.assertEqual((answer["object"], answer["id"][:5]), ("text_completion", "cmpl-"))
        self.assertEqual((answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]), (4, 5))
        (choice,) = answer["choices"]
        self.assertEqual((choice["index"], choice["finish_reason"]), (0, "length"))
        said = "".join(piece["choices"][0]["text"] for piece in
                       self.pieces(self.path, {"prompt": BEGINNING, "max_tokens": 5, "ignore_eos": True}))
        self.assertEqual(said, choice["text"])
        self.assertTrue(said.startswith(" "), "white space belongs to the text")

    def test_prompts_are_texts_tokens_or_lists_of_them_and_may_be_echoed(self):
        tokens = self.send("/tokenize", {"content": BEGINNING})["tokens"]
        fields = {"max_tokens": 4, "ignore_eos": True}
        (text,) = self.send(self.path, {"prompt": BEGINNING, **fields})["choices"]
        (echoed,) = self.send(self.path, {"prompt": tokens, "echo": True, **fields})["choices"]
        self.assertEqual(echoed["text"], BEGINNING + text["text"])
        answer = self.send(self.path, {"prompt": ["Two", BEGINNING], "n": 2, "echo": True, **fields})
        texts = [choice["text"] for choice in answer["choices"]]
        self.assertEqual(texts[2:], [echoed["text"]] * 2)
        self.assertEqual(texts[0], texts[1])
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
        self.assertEqual(answer["usage"]["prompt_tokens"], 4 + len(self.send("/tokenize", {"content": "Two"})["tokens"]))
        self.assertEqual(self.send(self.path, {"prompt": [tokens], "best_of": 1, "suffix": "", **fields})["choices"],
                         [text])

    def test_what_cannot_be_continued_is_refused_by_its_field(self):
        for body, param in [({}, "prompt"), ({"prompt": None}, "prompt"), ({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"),
                            ({"prompt": {}}, "prompt"), ({"prompt": ["x", ""]}, "prompt[1]"), ({"prompt": [-1]}, "prompt"),
                            ({"prompt": [10**9]}, "prompt"), ({"prompt": [2**64]}, "prompt"), ({"prompt": [1.5]}, "prompt"),
                            ({"prompt": ["x"] * 65}, "prompt"), ({"prompt": "x", "suffix": "y"}, "suffix"),
                            ({"prompt": "x", "best_of": 3}, "best_of"), ({"prompt": "x", "n": 9}, "n"),
                            ({"prompt": "x", "echo": "yes"}, "echo"), ({"prompt": "x", "max_tokens": -2}, "max_tokens")]:
            with self.subTest(body=body):
                self.assert_refused_field(self.path, body, param)
        self.assert_refused_field(self.path, {"prompt": "word " * 3000}, "prompt", "context_length_exceeded")
        self.assertEqual(self.send(self.path, {"prompt": "x", "model": "y"}, 404)["error"]["code"], "model_not_found")


class PromptLogprobs(EndpointTest):
    """What evaluations by log-likelihood send: echo with logprobs, and no token or one after it."""
    path = "/v1/completions"

    def score(self, prompt, **fields):
        return self.send(self.path, {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 0, "temperature": 0, **fields})

    def test_tokens_of_a_prompt_have_the_probabilities_with_which_the_model_goes_on(self):
        tokens = self.send("/tokenize", {"content": BEGINNING})["tokens"]
        (choice,) = self.score(tokens)["choices"]
        found = choice["logprobs"]
        self.assertEqual((choice["text"], choice["finish_reason"]), (BEGINNING, "length"))
        self.assertEqual("".join(found["tokens"]), BEGINNING)
        self.assertEqual((found["token_logprobs"][0], found["top_logprobs"][0]), (None, None))
        self.assertEqual([BEGINNING[at:] for at in found["text_offset"]],
                         [BEGINNING[len("".join(found["tokens"][:i])):] for i in range(len(tokens))])
        for i in range(1, len(tokens)):
            (alone,) = self.send(self.path, {"prompt": tokens[:i], "max_tokens": 1, "logprobs": 20, "ignore_eos": True})["choices"]
            top = alone["logprobs"]["top_logprobs"][0]
            self.assertAlmostEqual(max(found["top_logprobs"][i].values()), max(top.values()), places=4)
            if found["tokens"][i] in top:
                self.assertAlmostEqual(found["token_logprobs"][i], top[found["tokens"][i]], places=4)
            else:
                self.assertLess(found["token_logprobs"][i], min(top.values()))

    def test_what_the_model_says_itself_is_its_first_choice(self):
        (said,) = self.send(self.path, {"prompt": BEGINNING, "max_tokens": 12, "logprobs": 1, "ignore_eos": True})["choices"]
        own_tokens = [self.send("/tokenize", {"content": piece})["tokens"] for piece in said["logprobs"]["tokens"]]
        self.assertEqual([len(one) for one in own_tokens], [1] * 12)
        tokens = self.send("/tokenize", {"content": BEGINNING})["tokens"] + sum(own_tokens, [])
        for extra in [0, 1]:
            answer = self.score(tokens, max_tokens=extra)
            found = answer["choices"][0]["logprobs"]
            self.assertEqual(len(found["tokens"]), len(tokens) + answer["usage"]["completion_tokens"])
            self.assertEqual((answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]), (len(tokens), extra))
            own = slice(len(tokens) - 12, len(tokens))
            self.assertEqual(found["tokens"][own], said["logprobs"]["tokens"])
            for one, other, top in zip(found["token_logprobs"][own], said["logprobs"]["token_logprobs"], found["top_logprobs"][own]):
                self.assertAlmostEqual(one, other, delta=0.01)  # a prompt's rows are summed in another order than an answer's
                self.assertEqual(one, max(top.values()))

    def test_one_token_after_the_prompt_has_a_log_probability_also_where_the_model_ends(self):
        (said,) = self.send(self.path, {"prompt": "User: Hi<end_of_utterance>\nAssistant:", "max_tokens": 60})["choices"]
        self.assertEqual(said["finish_reason"], "stop")
        prompt = self.send("/tokenize", {"content": "User: Hi<end_of_utterance>\nAssistant:" + said["text"]})["tokens"]
        for length in range(len(prompt) - 2, len(prompt) + 1):
            found = self.score(prompt[:length], max_tokens=1)["choices"][0]["logprobs"]
            self.assertEqual([len(found[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [length + 1] * 4)

    def test_several_prompts_are_scored_beside_other_requests_as_alone(self):
        prompts = [self.send("/tokenize", {"content": text})["tokens"] for text in [BEGINNING, "Two red circles.", "A", "word " * 200]]
        alone = [self.score(prompt)["choices"][0]["logprobs"] for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            beside = pool.submit(lambda: [self.server.ask(caption_of("113")) for _ in range(3)])
            together = self.score(prompts)["choices"]
            self.assertEqual(beside.result(), [GREEN_STAR] * 3)
        self.assertEqual([choice["logprobs"]["tokens"] for choice in together], [one["tokens"] for one in alone])
        for choice, one in zip(together, alone):
            for a, b in zip(choice["logprobs"]["token_logprobs"][1:], one["token_logprobs"][1:]):
                self.assertAlmostEqual(a, b, places=3)

    def test_without_log_probabilities_an_answer_may_be_empty_too(self):
        (choice,) = self.send(self.path, {"prompt": BEGINNING, "echo": True, "max_tokens": 0})["choices"]
        self.assertEqual((choice["text"], choice["finish_reason"]), (BEGINNING, "length"))

    def test_what_cannot_be_scored_is_refused(self):
        for prompt, code in [("word " * 3000, "context_length_exceeded"), ([[1] * 1900] * 10, "unsupported_value")]:
            self.assert_refused_field(self.path, {"prompt": prompt, "echo": True, "logprobs": 4, "max_tokens": 0}, "prompt", code)


class Responses(EndpointTest):
    """OpenAI's newer form of conversations; its own client is in openai_client_test.py."""
    path = "/v1/responses"
    thing = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["count"],
             "additionalProperties": False}
    tool = {"type": "function", "name": "look", "description": "Looks.", "parameters": thing, "strict": True}

    def picture(self, name, **fields):
        return {"type": "input_image", "image_url": image_part(board(name))["image_url"]["url"], **fields}

    def asked(self, name="113", text="Caption this image."):
        return {"role": "user", "content": [{"type": "input_text", "text": text}, self.picture(name)]}

    def respond(self, given, **fields):
        return self.send(self.path, {"input": given, **fields})

    def text_of(self, answer):
        return "".join(part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"])

    def events(self, body):
        status, headers, answer = self.server.request("POST", self.path, json.dumps({**body, "stream": True}).encode())
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"), answer)
        events = []
        for one in answer.decode().split("\n\n")[:-1]:
            name, data = one.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            self.assertEqual(name, "event: " + events[-1]["type"])
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        return events

    def test_a_picture_is_answered_about_as_in_a_chat(self):
        answer = self.respond([self.asked()])
        _, chat = self.server.post({"messages": caption_of("113")})
        self.assertEqual((answer["object"], answer["status"], answer["error"], answer["store"]), ("response", "completed", None, False))
        (item,) = answer["output"]
        self.assertEqual((item["type"], item["role"], item["status"]), ("message", "assistant", "completed"))
        self.assertEqual(item["content"], [{"type": "output_text", "text": GREEN_STAR, "annotations": [], "logprobs": []}])
        self.assertEqual((answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]),
                         (chat["usage"]["prompt_tokens"], chat["usage"]["completion_tokens"]))

    def test_items_of_earlier_turns_are_read_as_messages(self):
        first = self.respond([self.asked("115", "What is on the left?")], instructions="Be brief.")
        said = self.text_of(first)
        again = self.respond([self.asked("115", "What is on the left?"), *first["output"],
                              {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
                              {"role": "user", "content": "What color is it?"}], instructions="Be brief.")
        _, chat = self.server.post({"messages": [{"role": "system", "content": "Be brief."}, user("What is on the left?", image_part(board("115"))),
                                                 {"role": "assistant", "content": said}, {"role": "user", "content": "What color is it?"}]})
        self.assertEqual((self.text_of(again), again["usage"]["input_tokens"]),
                         (chat["choices"][0]["message"]["content"], chat["usage"]["prompt_tokens"]))
        self.assertEqual(self.text_of(self.respond("Hello.")), self.server.ask([{"role": "user", "content": "Hello."}]))

    def test_a_stream_has_the_events_of_its_items(self):
        events = self.events({"input": [self.asked()], "metadata": {"a": "b"}})
        types = [event["type"] for event in events]
        deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        self.assertEqual("".join(deltas), GREEN_STAR)
        self.assertGreater(len(deltas), 20)
        self.assertEqual(types, ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                                 *["response.output_text.delta"] * len(deltas), "response.output_text.done", "response.content_part.done",
                                 "response.output_item.done", "response.completed"])
        whole = events[-1]["response"]
        self.assertEqual((self.text_of(whole), whole["id"], whole["metadata"]), (GREEN_STAR, events[0]["response"]["id"], {"a": "b"}))
        self.assertEqual(events[-2]["item"], whole["output"][0])
        self.assertEqual(len({event["item_id"] for event in events if "item_id" in event}), 1)

    def test_an_answer_that_is_cut_is_incomplete(self):
        answer = self.respond([self.asked()], max_output_tokens=3)
        self.assertEqual((answer["status"], answer["incomplete_details"], answer["max_output_tokens"]),
                         ("incomplete", {"reason": "max_output_tokens"}, 3))
        self.assertEqual(self.events({"input": "x", "max_output_tokens": 1})[-1]["type"], "response.incomplete")

    def test_forms_hold(self):
        answer = self.respond([self.asked()], text={"format": {"type": "json_schema", "name": "thing", "schema": self.thing, "strict": True}})
        self.assertIn(json.loads(self.text_of(answer))["count"], range(10))
        self.assertEqual(answer["text"]["format"]["name"], "thing")
        self.assertEqual(self.text_of(self.respond([self.asked()], text={"format": {"type": "text"}, "verbosity": "medium"})), GREEN_STAR)

    def test_calls_are_items_and_results_go_on(self):
        for choice in ["required", {"type": "function", "name": "look"}]:
            fields = {"tools": [self.tool], "tool_choice": choice}
            answer = self.respond([self.asked()], **fields)
            (call,) = answer["output"]
            self.assertEqual((call["type"], call["name"], call["status"], answer["tools"]), ("function_call", "look", "completed", [self.tool]))
            self.assertIn(json.loads(call["arguments"])["count"], range(10))
            events = self.events({"input": [self.asked()], **fields})
            self.assertEqual([event["type"] for event in events][2:-1],
                             ["response.output_item.added", "response.function_call_arguments.delta",
                              "response.function_call_arguments.done", "response.output_item.done"])
            self.assertEqual(events[-1]["response"]["output"][0]["arguments"], call["arguments"])
        read = [0]
        for output in ["Three.", [{"type": "input_text", "text": "Three."}, self.picture("115")]]:
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": output}
            more = self.respond([self.asked(), call, result, {"role": "user", "content": "And?"}], max_output_tokens=4)
            read.append(more["usage"]["input_tokens"])
            self.assertGreater(read[-1], read[-2] + 64)

    def test_log_probabilities_are_beside_the_text(self):
        for fields in [{"include": ["message.output_text.logprobs"], "top_logprobs": 2}, {"top_logprobs": 2}]:
            (item,) = self.respond([self.asked()], max_output_tokens=5, **fields)["output"]
            found = item["content"][0]["logprobs"]
            self.assertEqual((len(found), {len(one["top_logprobs"]) for one in found}), (5, {2}))
            streamed = self.events({"input": [self.asked()], "max_output_tokens": 5, **fields})[-1]["response"]["output"][0]
            self.assertEqual([one["token"] for one in streamed["content"][0]["logprobs"]], [one["token"] for one in found])

    def test_what_is_not_served_is_refused_by_its_place(self):
        call = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
        for body, param in [({}, "input"), ({"input": []}, "input"), ({"input": 5}, "input"), ({"input": [5]}, "input[0]"),
                            ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"), ({"input": [{"content": "x"}]}, "input[0].role"),
                            ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]}, "input[0].content[0].type"),
                            ({"input": [{"role": "user", "content": [self.picture("113", file_id="x")]}]}, "input[0].content[0]"),
                            ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0].image_url"),
                            ({"input": [{"role": "user", "content": [self.picture("113", detail="sharp")]}]}, "input[0].content[0].detail"),
                            ({"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]}, "input[0].type"),
                            ({"input": ["x"]}, "input[0]"), ({"input": [{**call, "arguments": {}}]}, "input[0].arguments"),
                            ({"input": [{**call, "name": "a b"}]}, "input[0].name"),
                            *[({"input": "x", **fields}, param) for fields, param in [
                                ({"previous_response_id": "resp_1"}, "previous_response_id"), ({"conversation": "c"}, "conversation"),
                                ({"background": True}, "background"), ({"truncation": "auto"}, "truncation"), ({"n": 2}, "n"),
                                ({"prompt": {"id": "p"}}, "prompt"), ({"messages": [{}]}, "messages"), ({"max_output_tokens": 0}, "max_output_tokens"),
                                ({"reasoning": {"effort": "high"}}, "reasoning.effort"), ({"text": {"format": {"type": "x"}}}, "text.format.type"),
                                ({"text": {"verbosity": "low"}}, "text.verbosity"), ({"instructions": [1]}, "instructions"),
                                ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"pattern": 5}}}}, "text.format.schema"),
                                ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"tools": [{**self.tool, "name": "a b"}]}, "tools[0].name"),
                                ({"tools": [{**self.tool, "parameters": {"type": 5}}], "tool_choice": {"type": "function", "name": "look"}}, "tools[0].parameters.type"),
                                ({"tools": [self.tool], "tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name"),
                                ({"tools": [self.tool], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, "tool_choice.type"),
                                ({"include": "x"}, "include"), ({"top_logprobs": 50}, "top_logprobs")]]]:
            with self.subTest(body=str(body)[:100]):
                self.assert_refused_field(self.path, body, param)
        for method in ["GET", "DELETE"]:
            self.assertEqual(self.server.request(method, "/v1/responses/resp_1")[0], 404)
        for fields in [{"store": True}, {"store": False}, {"truncation": "disabled"}, {"reasoning": {"effort": "none", "summary": "auto"}},
                       {"include": ["reasoning.encrypted_content"]}, {"parallel_tool_calls": False}, {"service_tier": "auto"}]:
            self.assertEqual(self.respond("x", max_output_tokens=1, **fields)["object"], "response")


class Embeddings(EndpointTest):
    path = "/v1/embeddings"

    def embed(self, *inputs, **fields):
        return self.send(self.path, {"input": list(inputs), **fields})

    def test_texts_and_pictures_become_vectors_of_length_1(self):
        tokens = self.send("/tokenize", {"content": BEGINNING})["tokens"]
        picture, other = image_part(board("113")), image_part(board("115"))
        answer = self.embed(BEGINNING, picture, other, tokens, picture, {"type": "text", "text": BEGINNING})
        self.assertEqual((answer["object"], answer["usage"]["prompt_tokens"]), ("list", 12))
        self.assertEqual([one["index"] for one in answer["data"]], list(range(6)))
        text, first, second, as_tokens, again, as_part = [one["embedding"] for one in answer["data"]]
        self.assertEqual([text, first, text], [as_tokens, again, as_part])
        for vector in [text, first, second]:
            self.assertAlmostEqual(math.sqrt(cosine(vector, vector)), 1, places=5)
        self.assertLess(cosine(first, second), 0.999)
        self.assertEqual(self.send(self.path, {"input": BEGINNING})["data"][0]["embedding"], text)

    def test_base64_holds_the_same_floats(self):
        plain = self.embed("one")["data"][0]["embedding"]
        packed = base64.b64decode(self.embed("one", encoding_format="base64")["data"][0]["embedding"])
        self.assertEqual(list(struct.unpack(f"<{len(packed) // 4}f", packed)),
                         list(struct.unpack(f"<{len(plain)}f", struct.pack(f"<{len(plain)}f", *plain))))

    def test_pictures_are_compared_as_by_a_search_of_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--owner", "ann", folder]
            boards = ["113", "115", "063"]
            self.answer("library", "add", *flags, *map(board, boards))
            found = self.objects("library", "search", *flags, "--image", board("113"))
        vectors = [one["embedding"] for one in self.embed(*[image_part(board(name)) for name in boards])["data"]]
        self.assertEqual(len(found), 3)
        for hit, expected in zip(found, sorted((cosine(vectors[0], other) for other in vectors), reverse=True)):
            self.assertAlmostEqual(hit["score"], expected, places=3)

    def test_an_embedding_leaves_answers_as_they_are(self):
        before = self.server.ask(caption_of("113"))
        self.embed("x", image_part(board("115")))
        self.assertEqual((before, self.server.ask(caption_of("113"))), (GREEN_STAR, GREEN_STAR))

    def test_what_cannot_be_embedded_is_refused_by_its_field(self):
        broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        for body, param in [({}, "input"), ({"input": ""}, "input"), ({"input": []}, "input"), ({"input": ["x", 5]}, "input[1]"),
                            ({"input": [[]]}, "input[0]"), ({"input": ["x"] * 2049}, "input"), ({"input": {"type": "audio"}}, "input.type"),
                            ({"input": "x", "dimensions": 8}, "dimensions"), ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
                            ({"input": ["x", broken]}, "input[1].image_url.url")]:
            with self.subTest(body=str(body)[:80]):
                self.assert_refused_field(self.path, body, param)
        self.assert_refused_field(self.path, {"input": ["x", "word " * 3000]}, "input[1]", "context_length_exceeded")


class SeveralAnswers(EndpointTest):
    def test_answers_to_one_request_have_seeds_of_their_own(self):
        fields = {"temperature": 2, "max_tokens": 60}
        _, answer = self.server.post({"messages": caption_of("113"), "n": 3, "seed": 5, **fields})
        said = [choice["message"]["content"] for choice in answer["choices"]]
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2])
        self.assertGreater(len(set(said)), 1)
        self.assertEqual(said, [self.server.ask(caption_of("113"), seed=5 + i, **fields) for i in range(3)])
        _, one = self.server.post({"messages": caption_of("113"), **fields})
        self.assertEqual(answer["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"])

    def test_a_stream_has_all_of_them_one_after_the_other(self):
        body = {"messages": caption_of("113"), "n": 2, "stream_options": {"include_usage": True}}
        pieces = self.pieces("/v1/chat/completions", body)
        self.assertEqual(pieces[-1]["choices"], [])
        self.assertEqual(pieces[-1]["usage"]["completion_tokens"], 86)
        for index in range(2):
            own = [piece["choices"][0] for piece in pieces[:-1] if piece["choices"][0]["index"] == index]
            self.assertEqual(own[0]["delta"], {"role": "assistant", "content": ""})
            self.assertEqual("".join(choice["delta"].get("content", "") for choice in own), GREEN_STAR)
            self.assertEqual(own[-1]["finish_reason"], "stop")

    def test_a_flag_bounds_them(self):
        server = Server("--choices", 2)
        self.addCleanup(server.stop)
        self.assertEqual(server.post({"messages": [user("x")], "n": 2, "max_tokens": 1})[0], 200)
        status, answer = server.post({"messages": [user("x")], "n": 3, "max_tokens": 1})
        self.assertEqual((status, answer["error"]["param"]), (400, "n"))
        self.assertIn("--choices 3", answer["error"]["message"])


class KeptPrompts(EndpointTest):
    def usage(self, messages, server=None, headers=None, **fields):
        status, answer = (server or self.server).post({"messages": messages, **fields}, headers)
        self.assertEqual(status, 200, answer)
        usage = answer["usage"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], answer

    def test_a_picture_is_read_once_for_many_questions_and_answers_stay_the_same(self):
        picture = image_part(board("095"))
        questions = ["Caption this image.", "What is on the left?", "What color is the background?"]
        alone = [self.answer("ask", "--prompt", question, board("095")).strip() for question in questions]
        for i, question in enumerate(questions + questions):
            prompt, cached, answer = self.usage([user(picture, question)])
            self.assertEqual(answer["choices"][0]["message"]["content"], alone[i % 3])
            self.assertGreater(prompt, cached)
            if i > 0:
                self.assertGreater(cached, 64)

    def test_a_conversation_goes_on_from_its_last_turn(self):
        messages = [{"role": "system", "content": "Be brief."}, user(image_part(board("115")), "What is on the left?")]
        fresh = Server("--no-prompt-reuse")
        self.addCleanup(fresh.stop)
        before = 0
        for following in ["What color is it?", "What is on the right?", "And below?"]:
            prompt, cached, answer = self.usage(messages)
            self.assertEqual(self.usage(messages, fresh)[0], prompt)
            self.assertEqual(self.usage(messages, fresh)[1], 0)
            said = answer["choices"][0]["message"]["content"]
            self.assertEqual(fresh.ask(messages), said)
            self.assertGreaterEqual(cached, before)
            before = cached
            messages += [{"role": "assistant", "content": said}, user(following)]
        self.assertGreater(before, 64)

    def test_other_beginnings_are_read_anew(self):
        for name in ["028", "036", "028"]:
            expected = self.answer("caption", board(name)).strip()
            self.assertEqual(self.server.ask(caption_of(name)), expected)
            told = [{"role": "system", "content": "Name: " + name}, *caption_of(name)]
            self.assertEqual(self.usage(told, seed=1)[2]["choices"][0]["finish_reason"], "stop")

    def test_users_with_keys_of_their_own_share_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "keys"
            path.write_text("one-secret ann\nother-secret bob\nthird-secret metrics\n")
            path.chmod(0o600)
            server = Server("--api-keys", path)
        self.addCleanup(server.stop)
        ann, bob = [{"Authorization": f"Bearer {key}"} for key in ["one-secret", "other-secret"]]
        self.assertEqual(self.usage(caption_of("113"), server, ann)[1], 0)
        self.assertEqual(self.usage(caption_of("113"), server, bob)[1], 0)
        self.assertGreater(self.usage(caption_of("113"), server, ann)[1], 64)
        _, _, metrics = server.request("GET", "/metrics", headers={"Authorization": "Bearer third-secret"})
        self.assertIn(b"ocellus_views_known_total 0\n", metrics)

    def test_metrics_count_what_was_not_read_again(self):
        names = ["ocellus_prompt_tokens_cached_total", "ocellus_request_queue_time_seconds_count", "ocellus_views_known_total"]
        self.usage(caption_of("113"))
        before = [self.server.metric(name) for name in names]
        _, cached, _ = self.usage(caption_of("113"))
        # A picture that was read at another place is not encoded again.
        self.usage([{"role": "system", "content": "Look."}, *caption_of("113")])
        after = [self.server.metric(name) for name in names]
        self.assertGreaterEqual(after[0] - before[0], cached)
        self.assertEqual(after[1] - before[1], 2)
        self.assertEqual(after[2] - before[2], 1)

    def test_a_cache_that_changes_with_its_prompt_is_not_gone_on_from(self):
        for flags in [["--kv-bits", 2], ["--evict", "snapkv", "--keep", 0.5]]:
            with self.subTest(flags=flags):
                server = Server(*flags)
                self.addCleanup(server.stop)
                (alone,) = self.objects("caption", board("113"), *flags)
                for _ in range(2):
                    _, cached, answer = self.usage(caption_of("113"), server, n=2)
                    self.assertEqual(cached, 0)
                    self.assertEqual([choice["message"]["content"] for choice in answer["choices"]],
                                     [alone["answer"]] * 2)


class Videos(EndpointTest):
    flags = ["--clip-frames", 4]

    def video(self, *names, **fields):
        frames = [base64.b64encode(pathlib.Path(board(name)).read_bytes()).decode() for name in names]
        return {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64," + ",".join(frames), **fields}}

    def test_frames_are_read_as_the_clip_of_a_folder(self):
        names = ["113", "063", "098"]
        question = "What is on the left?"
        with tempfile.TemporaryDirectory() as folder:
            for i, name in enumerate(names):
                shutil.copy(board(name), f"{folder}/frame{i + 1}.png")
            for rate in [1, 0.5]:
                alone = self.objects("ask", "--prompt", question, "--clip", folder, "--fps", rate)[0]
                for _ in range(2):  # read, and gone on from
                    _, answer = self.server.post({"messages": [user(question, self.video(*names, fps=rate))]})
                    self.assertEqual(answer["choices"][0]["message"]["content"], alone["answer"])
                    self.assertEqual(answer["usage"]["prompt_tokens"], alone["prompt_tokens"])
                self.assertGreater(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 3 * 64)

    def test_videos_that_cannot_be_read_are_refused_by_their_field(self):
        sound = self.video("113")["video_url"]["url"]
        where = "messages[0].content[0].video_url.url"
        for url in ["", "x", "https://example.com/a.mp4", "data:video/mp4;base64,AAAA", "data:video/jpeg;base64,",
                    sound + ",", sound + ",*", sound[:-100] + ",AAAA"]:
            with self.subTest(url=url[:60]):
                part = {"type": "video_url", "video_url": {"url": url}}
                self.assert_refused_field("/v1/chat/completions", {"messages": [user(part)]}, where, "invalid_image")
        many = self.video(*["113"] * 5)
        self.assert_refused_field("/v1/chat/completions", {"messages": [user(many)]}, "messages", "context_length_exceeded")
        self.assert_refused_field("/v1/chat/completions", {"messages": [user(self.video("113", fps=0))]}, "fps")
        self.assert_refused_field("/v1/embeddings", {"input": [self.video("113")]}, "input[0].video_url.url")


if __name__ == "__main__":
    unittest.main()
