"""The endpoint for OpenAI's clients: answers, errors, who is served when, and how it ends."""

import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import tempfile
import time
import unittest

from pictures import flat_jpeg, make_png, read_png, without_tables
from program import (BAD_INPUT, BOARDS, GREEN_STAR, HAS_HTTP, OK, OVER_BUDGET, RUNTIME, SOURCE, USAGE, ProgramTest,
                     board, goldens, long, memory_kb, needs_webp, run)
from server import ENDLESS, Server, ServerTest, caption_of, image_part, picture_url, text_part, user
from webp import lossless_webp

IMAGES = SOURCE / "tests" / "data" / "images"
LEFT = "What is on the left?"


def wait_until(condition, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def png(width, height):
    """A sound PNG of one gray."""
    return make_png(width, height, [bytes([128]) * width] * height if width < 10**6 else [], kind="grey")


class ServeTest(ServerTest):
    def assert_error(self, body, status, param, sentence, code=None):
        got, answer = self.server.post(body)
        self.assertEqual((got, answer["error"]["param"]), (status, param), answer)
        self.assertRegex(answer["error"]["message"], sentence)
        if code:
            self.assertEqual(answer["error"]["code"], code)

    def tokens_of(self, text):
        return json.loads(self.server.request("POST", "/tokenize", json.dumps({"content": text}))[2])["tokens"]

    def assert_serves(self):
        self.assertEqual(self.server.ask(caption_of("113")), GREEN_STAR)


class Answers(ServeTest):
    def test_a_picture_is_captioned_as_by_the_command(self):
        (alone,) = self.objects("caption", board("113"))
        status, answer = self.server.post({"messages": caption_of("113")})
        self.assertEqual(status, 200)
        self.assertEqual(answer["choices"][0]["message"],
                         {"role": "assistant", "content": alone["answer"], "refusal": None})
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        self.assertEqual(answer["usage"], {"prompt_tokens": alone["prompt_tokens"],
                                           "completion_tokens": alone["generated_tokens"],
                                           "total_tokens": alone["prompt_tokens"] + alone["generated_tokens"],
                                           "prompt_tokens_details": {"cached_tokens": 0}})
        self.assertEqual(answer["object"], "chat.completion")

    def test_pictures_go_first_whichever_side_of_the_text_they_stand_on(self):
        picture = image_part(board("115"))
        self.assertEqual(self.server.ask([user(picture, LEFT)]), "A large cyan star.")
        self.assertEqual(self.server.ask([user(LEFT, picture)]), "A large cyan star.")

    def test_several_pictures_are_asked_about_as_by_the_command(self):
        for count in [4, 8]:
            question = next(one for one in goldens() if one["n"] == count)
            paths = [BOARDS / path for path in question["images"]]
            prompt = question["prompt"].split("\n")[-1]
            (alone,) = self.objects("ask", "--prompt", prompt, *paths)
            status, answer = self.server.post({"messages": [user(*map(image_part, paths), prompt)]})
            self.assertEqual(status, 200)
            self.assertEqual(answer["choices"][0]["message"]["content"], alone["answer"])
            self.assertEqual(answer["usage"]["prompt_tokens"], alone["prompt_tokens"])

    def test_text_between_pictures_stays_there(self):
        parts = [image_part(board("115")), text_part("one"), image_part(board("113")), text_part(LEFT)]
        (alone,) = self.objects("ask", "--prompt", "<image>one<image>" + LEFT, board("115"), board("113"), "-n", 8)
        _, answer = self.server.post({"messages": [user(*parts)], "max_tokens": 8})
        self.assertEqual(answer["usage"]["prompt_tokens"], alone["prompt_tokens"])
        self.assertEqual(answer["choices"][0]["message"]["content"], alone["answer"])

    def test_a_conversation_is_read_as_chat_has_led_it(self):
        questions = [LEFT, "What color is it?", "What is on the right?"]
        turns = self.objects("chat", board("115"), stdin="\n".join(questions) + "\n")
        messages = [user(image_part(board("115")), questions[0])]
        for turn, following in zip(turns, questions[1:] + [None]):
            _, answer = self.server.post({"messages": messages})
            said = answer["choices"][0]["message"]["content"]
            self.assertEqual(said, turn["answer"])
            messages.append({"role": "assistant", "content": said})
            messages.append({"role": "user", "content": following})
        # To chat earlier answers are no prompt: they are in the session already.
        whole = sum(turn["prompt_tokens"] for turn in turns) + sum(turn["generated_tokens"] for turn in turns[:-1])
        self.assertEqual(answer["usage"]["prompt_tokens"], whole)

    def test_pictures_of_later_turns_are_numbered_as_in_chat(self):
        stdin = f"{LEFT}\n/image {board('113')}\nWhat is blue?\n"
        turns = self.objects("chat", board("115"), stdin=stdin)
        messages = [user(image_part(board("115")), LEFT), {"role": "assistant", "content": turns[0]["answer"]},
                    user("What is blue?", image_part(board("113")))]
        _, answer = self.server.post({"messages": messages})
        self.assertEqual(answer["choices"][0]["message"]["content"], turns[1]["answer"])
        self.assertEqual(answer["usage"]["prompt_tokens"],
                         turns[0]["prompt_tokens"] + turns[0]["generated_tokens"] + turns[1]["prompt_tokens"])

    def test_system_messages_are_read_before_all_others(self):
        _, plain = self.server.post({"messages": caption_of("113")})
        for role in ["system", "developer"]:
            _, told = self.server.post({"messages": [{"role": role, "content": "Be brief."}, *caption_of("113")]})
            self.assertGreater(told["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"] + 2)

    def test_messages_of_one_role_in_a_row_are_one_message(self):
        apart = [user(image_part(board("115"))), user(LEFT)]
        self.assertEqual(self.server.ask(apart), "A large cyan star.")

    def test_an_answer_goes_on_from_an_assistant_message_that_is_last(self):
        asked = [user(image_part(board("115")), LEFT)]
        begun = [*asked, {"role": "assistant", "content": "A large"}]
        whole = self.server.ask(asked)
        self.assertEqual("A large " + self.server.ask(begun).strip(), whole)
        for fields in [{"continue_final_message": True}, {"add_generation_prompt": False},
                       {"continue_final_message": True, "add_generation_prompt": False}]:
            _, answer = self.server.post({"messages": begun, **fields})
            self.assertEqual("A large " + answer["choices"][0]["message"]["content"].strip(), whole)
        _, ended = self.server.post({"messages": begun, "continue_final_message": False})
        _, goes_on = self.server.post({"messages": begun})
        self.assertGreater(ended["usage"]["prompt_tokens"], goes_on["usage"]["prompt_tokens"] + 2)

    def test_messages_stand_where_the_models_own_template_has_them(self):
        """An assistant first, a system or developer message later, both more than once. A bar is where the texts that the
        bundled model was trained with are tokenised apart."""
        end = "|<end_of_utterance>\n|"
        for messages, prompt in [
                ([("assistant", "Hello!"), ("user", "Describe")], f"Assistant:| Hello!{end}User: |Describe{end}Assistant:"),
                ([("assistant", "A red star."), ("assistant", "Two."), ("user", "And?")],
                 f"Assistant:| A red star.\nTwo.{end}User: |And?{end}Assistant:"),
                ([("user", "Describe"), ("assistant", "A board."), ("system", "Be terse."), ("user", "Again")],
                 f"User: |Describe{end}Assistant:| A board.{end}System: |Be terse.{end}User: |Again{end}Assistant:"),
                ([("user", "Describe"), ("developer", "Be terse.")], f"User: |Describe{end}System: |Be terse.{end}Assistant:"),
                ([("system", "Be kind."), ("user", "Hi"), ("system", "Be terse."), ("assistant", "A")],
                 f"Be kind.|\n\n|User: |Hi{end}System: |Be terse.{end}Assistant:| A")]:
            with self.subTest(messages=messages):
                status, answer = self.server.post({"messages": [{"role": role, "content": text} for role, text in messages],
                                                   "max_tokens": 8})
                self.assertEqual(status, 200, answer)
                tokens = [token for text in ["<|im_start|>", *prompt.split("|")] for token in self.tokens_of(text)]
                status, _, raw = self.server.request("POST", "/v1/completions", json.dumps({"prompt": tokens, "max_tokens": 8}))
                raw = json.loads(raw)
                self.assertEqual(answer["usage"]["prompt_tokens"], len(tokens))
                self.assertEqual(answer["choices"][0]["message"]["content"].strip(), raw["choices"][0]["text"].strip())

    def test_the_rest_of_a_message_keeps_the_white_space_before_it(self):
        asked = [user(image_part(board("115")), LEFT)]
        whole = self.server.ask(asked)
        begun = [*asked, {"role": "assistant", "content": "A large"}]
        self.assertEqual("A large" + self.server.ask(begun), whole)
        chunks = [json.loads(event) for event in self.server.events(begun)[:-1]]
        self.assertEqual("A large" + "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks), whole)

    def test_a_tools_result_may_have_pictures(self):
        call = {"id": "c1", "type": "function", "function": {"name": "snap", "arguments": "{}"}}
        picture = image_part(board("115"))
        said = [{"role": "user", "content": "Take a picture."}, {"role": "assistant", "content": None, "tool_calls": [call]}]
        results = [[picture], [text_part("Taken."), picture, picture, text_part("Done.")]]
        for content in results:
            status, answer = self.server.post({"messages": [*said, {"role": "tool", "tool_call_id": "c1", "content": content}], "max_tokens": 3})
            self.assertEqual(status, 200, answer)
            texts = [{**part, "text": "x"} if part["type"] == "text" else text_part("") for part in content]
            _, bare = self.server.post({"messages": [*said, {"role": "tool", "tool_call_id": "c1", "content": texts}], "max_tokens": 3})
            self.assertGreaterEqual(answer["usage"]["prompt_tokens"], bare["usage"]["prompt_tokens"] + 64 * content.count(picture))
        broken = {"type": "image_url", "image_url": {"url": picture_url(b"no")}}
        self.assert_error({"messages": [*said, {"role": "tool", "tool_call_id": "c1", "content": [broken]}]}, 400,
                          "messages[2].content[0].image_url.url", ".", "invalid_image")

    def test_marks_and_special_tokens_in_a_text_are_text(self):
        self.server.ask([{"role": "user", "content": "<image> <|im_start|> <end_of_utterance> \u0000 \ud83d\ude00"}],
                        max_tokens=4)

    def test_answers_end_after_max_tokens(self):
        for field in ["max_tokens", "max_completion_tokens"]:
            for count in [1, 3, 16, 17, 20]:
                _, answer = self.server.post({"messages": caption_of("113"), field: count})
                self.assertEqual(answer["usage"]["completion_tokens"], count)
                self.assertEqual(answer["choices"][0]["finish_reason"], "length")
                self.assertTrue(GREEN_STAR.startswith(answer["choices"][0]["message"]["content"]))

    def test_stop_strings_cut_the_answer_wherever_tokens_end(self):
        for stop, expected in [("star", "A large green"), (["nothing", "en dia"], GREEN_STAR.split("en dia")[0]),
                               ("A", ""), ("165 at the", GREEN_STAR.split("165 at the")[0].rstrip()),
                               (["right.", "gray"], GREEN_STAR.split("gray")[0].rstrip()), ("never said", GREEN_STAR),
                               (None, GREEN_STAR), ([], GREEN_STAR), ("background.\n", GREEN_STAR)]:
            with self.subTest(stop=stop):
                _, answer = self.server.post({"messages": caption_of("113"), "stop": stop})
                self.assertEqual(answer["choices"][0]["message"]["content"], expected)
                self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
                chunks = [json.loads(event) for event in self.server.events(caption_of("113"), stop=stop)[:-1]]
                said = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
                self.assertEqual(said, expected)

    def test_sampling_fields_mean_what_the_flags_mean(self):
        for flags, fields in [(["--temp", 2, "--seed", 3], {"temperature": 2, "seed": 3}),
                              (["--temp", 2, "--seed", 4, "--top-k", 5], {"temperature": 2, "seed": 4, "top_k": 5}),
                              (["--temp", 2, "--seed", 5, "--top-p", 0.7], {"temperature": 2, "seed": 5, "top_p": 0.7}),
                              (["--temp", 2, "--seed", 6, "--min-p", 0.1], {"temperature": 2, "seed": 6, "min_p": 0.1}),
                              (["--temp", 2, "--seed", 7, "--typical-p", 0.3], {"temperature": 2, "seed": 7, "typical_p": 0.3}),
                              (["--temp", 2, "--seed", 8, "--top-n-sigma", 1], {"temperature": 2, "seed": 8, "top_n_sigma": 1}),
                              (["--repeat-penalty", 1.9], {"repetition_penalty": 1.9}),
                              (["--repeat-penalty", 1.9], {"repeat_penalty": 1.9}),
                              (["--frequency-penalty", 1.5], {"frequency_penalty": 1.5}),
                              (["--presence-penalty", 2], {"presence_penalty": 2}),
                              (["--dry-multiplier", 5, "--dry-base", 2, "--dry-allowed-length", 1],
                               {"dry_multiplier": 5, "dry_base": 2, "dry_allowed_length": 1}),
                              (["--logit-bias", "40=-100", "--logit-bias", "99=4.5"], {"logit_bias": {"40": -100, "99": 4.5}})]:
            with self.subTest(fields=fields):
                self.assertEqual(self.server.ask(caption_of("113"), **fields),
                                 self.answer("caption", board("113"), *flags).strip())
        self.assertEqual(self.server.ask(caption_of("113"), temperature=2, top_p=0, seed=9), GREEN_STAR)

    def test_fields_that_ask_for_nothing_are_fine(self):
        self.assertEqual(self.server.ask(caption_of("113"), n=1, tools=None, logprobs=False, logit_bias={}, user="me",
                                         response_format={"type": "text"}, presence_penalty=0, frequency_penalty=0.0,
                                         stream=False, stop=None, metadata={"a": "b"}, model="ocellus"), GREEN_STAR)


    def test_unknown_fields_are_ignored_with_one_note_or_refused_on_request(self):
        body = {"messages": caption_of("113"), "best_of": 2, "guided\x1b[31m": {"a": [1]}, "stream": False}
        told = Server(quiet=False)
        self.addCleanup(told.process.kill)
        for _ in range(3):
            self.assertEqual(told.ask(body["messages"], **{"best_of": 2, "guided\x1b[31m": "x"}), GREEN_STAR)
        exit_code, _, errors = told.stop()
        self.assertEqual(exit_code, OK)
        self.assertEqual(errors.count("unknown field"), 2, errors)
        self.assertIn("best_of", errors)
        self.assertNotIn("\x1b", errors)
        strict = Server("--strict")
        self.addCleanup(strict.process.kill)
        status, answer = strict.post(body)
        self.assertEqual((status, answer["error"]["code"]), (400, "unknown_parameter"))
        self.assertEqual(strict.ask(caption_of("113")), GREEN_STAR)
        strict.stop()

    def test_messages_of_agents_and_plain_picture_urls_are_taken(self):
        picture = {"type": "image_url", "image_url": picture_url(pathlib.Path(board("113")).read_bytes())}
        self.assertEqual(self.server.ask([user("Caption this image.", picture)]), GREEN_STAR)
        for silent in [{"content": None}, {"content": None, "tool_calls": []}, {"content": "", "tool_calls": []}, {"tool_calls": []},
                       {"content": [], "refusal": "No."}, {"content": None, "function_call": None, "name": "me"}]:
            with self.subTest(silent=silent):
                status, answer = self.server.post({"messages": [user("Hello."), {"role": "assistant", **silent}, user("And?")],
                                                   "max_tokens": 2})
                self.assertEqual(status, 200, answer)

    def test_low_detail_is_a_picture_without_its_tiles(self):
        def asked(detail):
            url = picture_url(pathlib.Path(board("113")).read_bytes())
            return {"messages": [user("Hello.", {"type": "image_url", "image_url": {"url": url, "detail": detail}})], "max_tokens": 2}
        tiny = SOURCE / "tests" / "data" / "families" / "smolvlm"
        tiled = Server("--model", tiny / "model.gguf", "--mmproj", tiny / "mmproj.gguf")
        self.addCleanup(tiled.process.kill)
        for server, has_tiles in ((tiled, True), (self.server, False)):
            high, low, again = (server.post(asked(detail))[1]["usage"] for detail in ("high", "low", "auto"))
            self.assertEqual(high["prompt_tokens"], again["prompt_tokens"])
            self.assertEqual(low["prompt_tokens"] < high["prompt_tokens"], has_tiles)
        self.assertEqual(tiled.stop()[0], OK)
        status, answer = self.server.post(asked("sharp"))
        self.assertEqual((status, answer["error"]["param"]), (400, "messages[0].content[1].image_url.detail"))

    def test_urls_escaped_as_other_makers_of_json_do_it_are_read(self):
        plain = json.dumps({"messages": caption_of("113")})
        for escaped in [plain.replace("/", "\\/"), plain.replace("+", "\\u002b").replace("/", "\\u002F"),
                        plain.replace(": ", " :\n\t ")]:
            status, answer = self.server.post(escaped.encode())
            self.assertEqual(answer["choices"][0]["message"]["content"], GREEN_STAR)


class Streams(ServeTest):
    def test_pieces_add_up_to_the_answer(self):
        events = self.server.events(caption_of("113"))
        self.assertEqual(events[-1], "[DONE]")
        chunks = [json.loads(event) for event in events[:-1]]
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual("".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks), GREEN_STAR)
        self.assertGreater(len(chunks), 20)
        self.assertEqual([chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]], [None] * (len(chunks) - 1))
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")
        self.assertEqual({chunk["object"] for chunk in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        self.assertNotIn("usage", chunks[-1])

    def test_usage_comes_last_if_requested(self):
        self.server.ask(caption_of("113"))  # its beginning is known from then on
        _, whole = self.server.post({"messages": caption_of("113")})
        events = self.server.events(caption_of("113"), stream_options={"include_usage": True})
        last = json.loads(events[-2])
        self.assertEqual((last["choices"], last["usage"]), ([], whole["usage"]))
        self.assertIsNone(json.loads(events[0])["usage"])

    def test_an_error_before_the_first_piece_is_a_plain_answer(self):
        self.assert_error({"messages": [user("x" * 30000)], "stream": True}, 400, "messages[0].content[0]",
                          "plan more text tokens", "context_length_exceeded")


class Errors(ServeTest):
    flags = ["--images", 2]

    def test_fields_of_the_wrong_shape_are_named(self):
        hello = [{"role": "user", "content": "Hello."}]
        for fields, param in [
                ({}, "messages"), ({"messages": None}, "messages"), ({"messages": []}, "messages"),
                ({"messages": {}}, "messages"), ({"messages": "x"}, "messages"), ({"messages": [1]}, "messages[0]"),
                ({"messages": [{}]}, "messages[0].role"), ({"messages": [{"role": 1}]}, "messages[0].role"),
                ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
                ({"messages": [{"role": "user"}]}, "messages[0].content"),
                ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
                ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
                ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
                ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
                ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
                ({"messages": [user({"type": "image_url"})]}, "messages[0].content[0].image_url"),
                ({"messages": [user({"type": "image_url", "image_url": "x"})]}, "messages[0].content[0].image_url"),
                ({"messages": [user({"type": "image_url", "image_url": {}})]}, "messages[0].content[0].image_url.url"),
                ({"messages": [{"role": "system", "content": [image_part(board("113"))]}, *hello]},
                 "messages[0].content[0].type"),
                ({"messages": hello, "continue_final_message": True, "add_generation_prompt": True},
                 "continue_final_message"),
                ({"messages": hello, "chat_template_kwargs": {"add_vision_id": 1}}, "chat_template_kwargs.add_vision_id"),
                ({"messages": [*hello, {"role": "assistant", "content": "", "tool_calls": [1]}]},
                 "messages[1].tool_calls[0]"),
                ({"messages": hello, "max_tokens": 0}, "max_tokens"), ({"messages": hello, "max_tokens": -2}, "max_tokens"),
                ({"messages": hello, "max_tokens": 1.5}, "max_tokens"), ({"messages": hello, "max_tokens": "1"}, "max_tokens"),
                ({"messages": hello, "max_tokens": 10**30}, "max_tokens"),
                ({"messages": hello, "max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
                ({"messages": hello, "temperature": -0.1}, "temperature"), ({"messages": hello, "temperature": 3}, "temperature"),
                ({"messages": hello, "temperature": "hot"}, "temperature"), ({"messages": hello, "top_p": 2}, "top_p"),
                ({"messages": hello, "min_p": -1}, "min_p"), ({"messages": hello, "ignore_eos": 1}, "ignore_eos"), ({"messages": hello, "top_k": 0.5}, "top_k"),
                ({"messages": hello, "seed": 1.5}, "seed"), ({"messages": hello, "seed": 2**64}, "seed"),
                ({"messages": hello, "repetition_penalty": 0}, "repetition_penalty"),
                ({"messages": hello, "repetition_penalty": 1, "repeat_penalty": 1.1}, "repetition_penalty"),
                ({"messages": hello, "frequency_penalty": 2.5}, "frequency_penalty"),
                ({"messages": hello, "presence_penalty": "much"}, "presence_penalty"),
                ({"messages": hello, "typical_p": 2}, "typical_p"), ({"messages": hello, "dry_base": 0.5}, "dry_base"),
                ({"messages": hello, "dry_allowed_length": 0}, "dry_allowed_length"),
                ({"messages": hello, "logit_bias": [1]}, "logit_bias"), ({"messages": hello, "logit_bias": {"a": 1}}, "logit_bias"),
                ({"messages": hello, "logit_bias": {"1": 101}}, "logit_bias"), ({"messages": hello, "logit_bias": {"-1": 1}}, "logit_bias"),
                ({"messages": hello, "logit_bias": {"10000000": 1}}, "logit_bias"),
                ({"messages": hello, "logit_bias": {"01": 1}}, "logit_bias"),
                ({"messages": hello, "logit_bias": {str(i): 1 for i in range(65)}}, "logit_bias"),
                ({"messages": hello, "stop": 5}, "stop"), ({"messages": hello, "stop": [5]}, "stop"),
                ({"messages": hello, "stop": ["x"] * 17}, "stop"),
                ({"messages": hello, "stop": "x" * 257}, "stop"),
                ({"messages": hello, "stream": "yes"}, "stream"), ({"messages": hello, "stream": 1}, "stream"),
                ({"messages": hello, "stream_options": {"include_usage": True}}, "stream_options"),
                ({"messages": hello, "stream": True, "stream_options": 5}, "stream_options"),
                ({"messages": hello, "model": 5}, "model")]:
            with self.subTest(fields=str(fields)[:100]):
                self.assert_error(fields, 400, param, ".")

    def test_unsupported_fields_are_refused_by_name(self):
        hello = [{"role": "user", "content": "Hello."}]
        for field, value in [("n", 0), ("n", 9), ("n", "x"), ("tool_choice", "required"), ("functions", [{}]),
                             ("top_logprobs", 2), ("audio", {"voice": "x"}),
                             ("modalities", ["audio"]), ("min_tokens", 5), ("prompt_logprobs", 1), ("chat_template", "x")]:
            with self.subTest(field=field):
                self.assert_error({"messages": hello, field: value}, 400, field, f"^{field} ")
        for field, value, instead in [("guided_regex", "a", "structured_outputs"), ("json_schema", {"a": 1}, "response_format"),
                                      ("n_predict", 5, "max_tokens"), ("reasoning_effort", "low", "thinking_token_budget")]:
            with self.subTest(field=field):
                self.assert_error({"messages": hello, field: value}, 400, field, f"^{field} is not supported by this server: use {instead}\\.")
        self.server.ask(hello, min_tokens=0, functions=[], length_penalty=1.0)

    def test_a_body_that_is_not_json_is_refused(self):
        for body, place in [(b"", "The body is empty"), (b'{"a":\n  tru}', "line 2, column 6"), (b'{"a": "\xff"}', "line 1, column 8")]:
            status, answer = self.server.post(body)
            self.assertEqual(status, 400)
            self.assertIn(place, answer["error"]["message"])
        for body in [b"", b"{", b"[]", b"null", b"5", b"\xff\xfe", b'{"messages": "\xff"}', b'{"a": NaN}', b"{}{}",
                     b"[" * 100000, b'{"a":' * 100000, b"[" + b"1," * 3000000 + b"1]", b'{"messages": "\\ud800"}']:
            with self.subTest(body=body[:20]):
                status, answer = self.server.post(body)
                self.assertEqual(status, 400, answer)
        self.assert_serves()

    def test_pictures_of_every_bad_kind_are_refused_by_place(self):
        sound = pathlib.Path(board("113")).read_bytes()
        jpeg = (IMAGES / "baseline_420.jpg").read_bytes()
        text = base64.b64encode(sound).decode()
        urls = ["", "x", "data:", "data:image/png;base64,", "data:image/png," + text, "data:text/plain;base64," + text,
                "data:image/png;base64," + text[:-1],
                "data:image/png;base64,****", "data:image/png;base64,====", "data:image/png;base64,QQ",
                "data:image/png;base64,QR==", "http://127.0.0.1/x.png", "https://example.com/x.png", "file:///etc/passwd",
                "/etc/passwd", picture_url(b"\0" * 100), picture_url((IMAGES / "picture.gif").read_bytes()[:60]),
                picture_url((IMAGES / "picture.bmp").read_bytes()[:60]), picture_url(sound[:40]), picture_url(sound[:-100]),
                picture_url(sound[:len(sound) // 2]), picture_url(jpeg[:len(jpeg) // 3]), picture_url(jpeg[:100]),
                picture_url(png(100000, 100)), picture_url(png(0, 5)), picture_url(png(2**31 - 1, 2**31 - 1)),
                picture_url(png(16384, 12289)), picture_url(png(16385, 100)), picture_url((IMAGES / "thin_20000x1.png").read_bytes()), picture_url(b"\x89PNG\r\n\x1a\n"), picture_url(b"\xff\xd8\xff\xd9")]
        for url in urls:
            with self.subTest(url=url[:60], size=len(url)):
                part = {"type": "image_url", "image_url": {"url": url}}
                self.assert_error({"messages": [user("Look.", part)]}, 400, "messages[0].content[1].image_url.url", ".",
                                  "invalid_image")
        self.assert_serves()

    def test_odd_but_sound_pictures_are_looked_at(self):
        for name in ["gray.jpg", "cmyk.jpg", "progressive_422.jpg", "gray_1.png", "palette_alpha.png",
                     "rgba_16_interlaced.png", "picture.gif", "picture.bmp"]:
            with self.subTest(name=name):
                self.server.ask([user(image_part(IMAGES / name), "Caption this image.")], max_tokens=2)

    @needs_webp
    def test_a_webp_is_answered_about_like_a_png_of_its_pixels(self):
        webp = lossless_webp(*read_png(pathlib.Path(board("113"))))
        part = {"type": "image_url", "image_url": {"url": picture_url(webp, "webp")}}
        status, answer = self.server.post({"messages": [user(part, "Describe this image.")]})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["choices"][0]["message"]["content"].strip(), GREEN_STAR)
        self.assert_error({"messages": [user({"type": "image_url", "image_url": {"url": picture_url(webp[:-9], "webp")}})]},
                          400, "messages[0].content[0].image_url.url", "truncated", "invalid_image")

    def test_too_many_pictures_and_too_much_text_are_refused(self):
        picture = image_part(board("113"))
        self.assert_error({"messages": [user(picture, picture, picture, "x")]}, 400,
                          "messages[0].content[2].image_url.url", "--images 3", "context_length_exceeded")
        self.assert_error({"messages": [user("word " * 3000)]}, 400, "messages[0].content[0]", "plan more text tokens",
                          "context_length_exceeded")
        self.assert_serves()

    def test_unknown_models_and_paths_are_not_found(self):
        self.assert_error({"messages": [user("x")], "model": "gpt-4o"}, 404, "model", "gpt-4o", "model_not_found")
        for method, path, status in [("GET", "/v1/models/gpt-4o", 404), ("GET", "/v1/chat", 404),
                                     ("GET", "/v1/chat/completions", 405), ("POST", "/v1/models", 405),
                                     ("GET", "/v1/completions", 405), ("POST", "/v1/complete", 404), ("GET", "/../etc/passwd", 404)]:
            with self.subTest(path=path):
                got, _, answer = self.server.request(method, path)
                self.assertEqual(got, status)
                self.assertIn("message", json.loads(answer)["error"])

    def test_bodies_that_are_too_large_are_refused(self):
        status, _, answer = self.server.request("POST", "/v1/chat/completions", b"x" * (33 << 20))
        self.assertEqual((status, json.loads(answer)["error"]["code"]), (413, "body_too_large"))
        self.assert_serves()


class Endpoints(ServeTest):
    def test_the_model_is_listed_and_its_name_accepted(self):
        _, _, text = self.server.request("GET", "/v1/models")
        (model,) = json.loads(text)["data"]
        status, _, text = self.server.request("GET", "/v1/models/" + model["id"])
        self.assertEqual((status, json.loads(text)["id"]), (200, model["id"]))
        _, answer = self.server.post({"messages": caption_of("113"), "model": model["id"], "max_tokens": 1})
        self.assertEqual(answer["model"], model["id"])

    def test_requests_have_names_of_their_own_or_the_clients(self):
        body = json.dumps({"messages": [user("x")], "max_tokens": 1})
        for given in ["mine-1", None, "bad name", "x" * 65]:
            headers = {"X-Request-Id": given} if given else {}
            _, answered, _ = self.server.request("POST", "/v1/chat/completions", body, headers)
            if given == "mine-1":
                self.assertEqual(answered["x-request-id"], given)
            else:
                self.assertRegex(answered["x-request-id"], r"\Areq-[0-9a-f]+\Z")

    def test_metrics_count_requests_and_tokens(self):
        before = self.server.metric("ocellus_generation_tokens_total")
        self.server.ask(caption_of("113"))
        self.server.post(b"{")
        self.assertEqual(self.server.metric("ocellus_generation_tokens_total"), before + 43)
        self.assertGreater(self.server.metric('ocellus_requests_total{code="200"}'), 0)
        self.assertGreater(self.server.metric('ocellus_requests_total{code="400"}'), 0)
        self.assertGreater(self.server.metric("ocellus_time_to_first_token_seconds_count"), 0)
        self.assertGreater(self.server.metric('ocellus_inter_token_latency_seconds_bucket{le="+Inf"}'), 0)
        self.assertEqual(self.server.metric("ocellus_num_requests_running"), 0)
        for path in ["/healthz", "/health"]:
            status, _, text = self.server.request("GET", path)
            self.assertEqual((status, json.loads(text)), (200, {"status": "ok"}))

    def test_many_requests_at_once_are_answered_as_alone(self):
        names = ["113", "115", "063", "113", "115", "063"]
        requests = [(caption_of(name), {} if i < 3 else {"temperature": 2, "seed": i}) for i, name in enumerate(names)]
        alone = [self.server.ask(messages, **fields) for messages, fields in requests]
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            together = list(pool.map(lambda one: self.server.ask(one[0], **one[1]), requests * 2))
        self.assertEqual(together, alone * 2)

    def test_names_and_origins_of_others_are_refused(self):
        for headers in [{"Host": "example.com"}, {"Host": "localhost", "Origin": "http://example.com"}]:
            status, _, _ = self.server.request("POST", "/v1/chat/completions", b"{}", headers)
            self.assertEqual(status, 403)


class Load(ServeTest):
    flags = ["--sessions", 1, "--queue", 1, *ENDLESS]

    def setUp(self):
        self.assertTrue(wait_until(lambda: self.server.metric("ocellus_num_requests_running") == 0))

    def test_a_full_queue_refuses_and_clients_that_leave_make_room(self):
        connection, _ = self.server.open_stream([user("Tell me a story.")])
        gone = self.server.metric('ocellus_requests_total{code="499"}')
        waiting = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        waiting.request("POST", "/v1/chat/completions", json.dumps({"messages": [user("x")], "ignore_eos": True}))
        self.assertTrue(wait_until(lambda: self.server.metric("ocellus_num_requests_waiting") == 1))
        self.assertEqual(self.server.metric("ocellus_num_requests_running"), 1)
        self.assertTrue(wait_until(lambda: self.server.metric("ocellus_kv_cache_usage_perc") > 0))
        status, headers, answer = self.server.request("POST", "/v1/chat/completions",
                                                      json.dumps({"messages": [user("x")]}))
        self.assertEqual((status, headers["Retry-After"]), (429, "1"))
        self.assertEqual(json.loads(answer)["error"]["code"], "rate_limit_exceeded")
        begin = time.monotonic()
        waiting.close()
        connection.close()
        self.assertTrue(wait_until(lambda: self.server.metric('ocellus_requests_total{code="499"}') == gone + 2))
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(self.server.ask(caption_of("113"), temperature=0), GREEN_STAR)

    def test_clients_that_leave_while_their_prompt_is_read_do_not_harm_the_next(self):
        for delay_s in [0, 0.01, 0.03, 0.06, 0.1, 0.15]:
            leaving = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            leaving.request("POST", "/v1/chat/completions", json.dumps({"messages": caption_of("115")}))
            time.sleep(delay_s)
            leaving.close()
            self.assertEqual(self.server.ask(caption_of("113"), temperature=0), GREEN_STAR)

    def test_a_waiting_request_is_answered_when_its_turn_comes(self):
        connection, _ = self.server.open_stream([user("Tell me a story.")])
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.server.ask, caption_of("113"), temperature=0)
            self.assertTrue(wait_until(lambda: self.server.metric("ocellus_num_requests_waiting") == 1))
            connection.close()
            self.assertEqual(answer.result(timeout=30), GREEN_STAR)


class Turns(ServeTest):
    flags = ["--sessions", 1, "--queue", 16, "--text-tokens", 2000]

    def test_a_client_with_many_requests_keeps_no_other_from_its_turn(self):
        ended = []

        def ask(name, **fields):
            self.server.post({"messages": [user("Tell me a story.")], "user": name, **fields})
            ended.append(name)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            busy = [pool.submit(ask, "busy", ignore_eos=True, max_tokens=150) for _ in range(8)]
            self.assertTrue(wait_until(lambda: self.server.metric("ocellus_num_requests_waiting") == 7))
            pool.submit(ask, "modest", max_tokens=4).result(60)
            self.assertLessEqual(ended.index("modest"), 2)
            other = pool.submit(ask, "other", max_tokens=4)
            again = pool.submit(ask, "modest", max_tokens=4)
            for one in [other, again, *busy]:
                one.result(60)
        self.assertEqual(ended.count("busy"), 8)
        self.assertLessEqual(ended.index("other"), 6)


class SameBits(ServeTest):
    flags = ["--sessions", 1, "--batch-invariant", "--images", 2, "--text-tokens", 2000]

    def ask(self, messages, **fields):
        """The tokens with their log-probabilities, and how many tokens of the prompt were known."""
        status, answer = self.server.post({"max_tokens": 6, "logprobs": True, "messages": messages, **fields})
        self.assertEqual(status, 200, answer)
        tokens = [(one["token"], one["logprob"]) for one in answer["choices"][0]["logprobs"]["content"]]
        return tokens, answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_an_answer_has_the_same_bits_whatever_its_session_has_read(self):
        pictures = user(image_part(board("113")), LEFT, image_part(board("115")))
        turns = [user("Tell me about the ring. " * 20), {"role": "assistant", "content": "A ring."}, pictures,
                 {"role": "assistant", "content": "A large green star."}, user("Is it red?"),
                 {"role": "assistant", "content": "No."}, user("What else is there?")]
        other = [user("Something else, to take the session.")]
        ways = [[other], [turns], [turns[:1]], [turns[:3]], [turns[:5]], [other, turns[:1], turns[:3]],
                [turns[:3] + [{"role": "assistant", "content": "Two stars."}, user("Is it red?")]],
                [turns[:2] + [user(image_part(board("113")), "And here?")]]]
        sampled = {"temperature": 1, "seed": 7}
        self.ask(other)
        alone, cached = self.ask(turns, **sampled)
        self.assertLess(cached, 8)
        most = 0
        for number, before in enumerate(ways):
            self.ask(other)
            for conversation in before:
                self.ask(conversation, max_tokens=1)
            again, cached = self.ask(turns, **sampled)
            self.assertEqual(again, alone, (number, cached))
            most = max(most, cached)
        self.assertGreater(most, 200)

    def test_the_fingerprint_tells(self):
        plain = Server()
        self.addCleanup(plain.stop)
        body = {"messages": [user("Hello.")], "max_tokens": 1}
        prints = [server.post(body)[1]["system_fingerprint"] for server in (self.server, plain)]
        self.assertNotEqual(*prints)


class Elsewhere(ServeTest):
    flags = ["--cors", "https://one.example", "--cors", "http://localhost:3000"]

    def test_pages_of_the_origins_that_are_named_may_ask_and_no_others(self):
        body = json.dumps({"messages": caption_of("113")})
        for origin in ["https://one.example", "http://localhost:3000"]:
            asking = {"Origin": origin, "Sec-Fetch-Site": "cross-site", "Access-Control-Request-Method": "POST",
                      "Access-Control-Request-Headers": "content-type", "Access-Control-Request-Private-Network": "true"}
            status, headers, _ = self.server.request("OPTIONS", "/v1/chat/completions", headers=asking)
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, origin))
            self.assertEqual(headers["Access-Control-Allow-Private-Network"], "true")
            status, headers, answer = self.server.request("POST", "/v1/chat/completions", body, {"Origin": origin})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, origin))
            self.assertEqual(json.loads(answer)["choices"][0]["message"]["content"], GREEN_STAR)
        for headers in [{"Origin": "https://two.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]:
            for method, path in [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/health")]:
                status, answered, _ = self.server.request(method, path, body if method == "POST" else None, headers)
                self.assertEqual((status, answered["Access-Control-Allow-Origin"]), (403, None))
                self.assertEqual(answered["Cross-Origin-Resource-Policy"], "same-origin")


class Deadlines(ServeTest):
    flags = ["--sessions", 1, "--queue", 2, "--deadline", 1, "--text-tokens", 8000, "--temp", 8, "-n", 8000]

    @long
    def test_an_answer_ends_at_its_deadline_and_one_that_has_not_begun_fails(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            begin = time.monotonic()
            first = pool.submit(self.server.post, {"messages": [user("Tell me a story.")], "ignore_eos": True})
            self.assertTrue(wait_until(lambda: self.server.metric("ocellus_num_requests_running") == 1))
            second = pool.submit(self.server.post, {"messages": [user("Another one.")], "ignore_eos": True})
            status, answer = first.result(timeout=30)
            self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "length"))
            self.assertGreater(answer["usage"]["completion_tokens"], 0)
            status, answer = second.result(timeout=30)
            self.assertLess(time.monotonic() - begin, 5)
            # It began when the first one ended, or was late by then.
            self.assertTrue(status == 504 and answer["error"]["code"] == "deadline_exceeded" or
                            answer["choices"][0]["finish_reason"] == "length")


class Photos(ServeTest):
    flags = ["--sessions", 1]

    def photo(self, **recipe):
        """A picture part with a JPEG of 12 megapixels."""
        return {"type": "image_url", "image_url": {"url": picture_url(flat_jpeg(4000, 3000, **recipe), "jpeg")}}

    @unittest.skipIf(os.environ.get("OCELLUS_SANITIZED") == "1", "sanitizers take memory of their own")
    def test_a_photo_of_12_megapixels_is_taken_by_default_and_in_memory_that_was_planned(self):
        self.assert_serves()
        (plan,) = self.objects("plan", "--image-pixels", "4000x3000")
        if plan["scratch_bytes"] > 100_000_000:
            self.skipTest("this build holds JPEGs whole")
        self.assertLess(plan["scratch_bytes"], 12_000_000)
        photo = self.photo(filler=6_000_000)
        before = memory_kb(self.server.process, "VmHWM")
        self.assertTrue(self.server.ask([user("Caption this image.", photo)], max_tokens=4))
        # The body, and the request while it is read; the engine's memory was there before, but for pages of it that
        # nobody had touched.
        self.assertLess(memory_kb(self.server.process, "VmHWM") - before, (2 * 8_000_000 + plan["scratch_bytes"]) / 1024)

    def test_a_camera_s_jpeg_without_huffman_tables_is_answered_about(self):
        whole = (SOURCE / "apps/samples/board_01.jpg").read_bytes()
        answers = []
        for jpeg in (whole, without_tables(whole)):
            part = {"type": "image_url", "image_url": {"url": picture_url(jpeg, "jpeg")}}
            answers.append(self.server.ask([user(part, "Describe this image.")]))
        self.assertEqual(answers[0], answers[1])

    def test_a_panorama_and_a_progressive_photo_of_12_megapixels_are_taken_by_default(self):
        self.assertTrue(self.server.ask([user("Caption this image.", self.photo(frame=0xC2))], max_tokens=4))
        url = picture_url(flat_jpeg(16384, 300), "jpeg")
        part = {"type": "image_url", "image_url": {"url": url}}
        self.assertTrue(self.server.ask([user("Caption this image.", part)], max_tokens=4))

    def test_a_large_photo_decoded_as_a_whole_is_refused_unless_planned(self):
        photo = self.photo(frame=0xC2, sampling=0x11)
        status, answer = self.server.post({"messages": [user(photo)]})
        if status == 200:
            self.skipTest("this build holds JPEGs whole")
        self.assertEqual((status, answer["error"]["code"]), (400, "invalid_image"))
        self.assertEqual(answer["error"]["param"], "messages[0].content[0].image_url.url")
        pixels = re.search(r"plan for (\d+) whole pixels \(max_whole_pixels, --whole-pixels\)", answer["error"]["message"])[1]
        self.assert_serves()
        for planned in (pixels, "8000x3000"):
            server = Server(*self.flags, "--whole-pixels", planned)
            try:
                self.assertTrue(server.ask([user("Caption this image.", photo)], max_tokens=4))
            finally:
                server.stop()


class Memory(ServeTest):
    @unittest.skipIf(os.environ.get("OCELLUS_SANITIZED") == "1", "sanitizers keep what was freed")
    def test_large_bodies_stay_below_the_bound_that_was_told_and_give_their_memory_back(self):
        self.assert_serves()
        size = 30 << 20
        begin = b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,'
        bodies = [begin + b"QUJD" * (size // 4) + b'"}}]}]}', begin + b"*" * size + b'"}}]}]}', begin + b"A" * size,
                  b'{"messages":"' + b"x" * size + b'"}', b"[" * size, b'{"messages":[' + b"1," * (size // 2) + b"1]}",
                  b'{"a":{}' + b',"a":{}' * (size // 7) + b"}", b'"' + b"\\u0041" * (size // 6) + b'"']
        before = memory_kb(self.server.process, "VmRSS")

        def send(body):
            try:
                return self.server.post(body)[0]
            except (BrokenPipeError, ConnectionResetError):
                return 503  # refused in the middle, and closed before the rest was sent
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            statuses = list(pool.map(send, bodies * 3))
        self.assertLessEqual(set(statuses), {400, 413, 429, 503})
        most_kb = self.server.metric("ocellus_http_bytes_limit") / 1024
        self.assertGreater(most_kb, 1024)
        self.assertLess(memory_kb(self.server.process, "VmHWM") - before, most_kb)
        self.assertTrue(wait_until(lambda: self.server.metric("ocellus_http_body_bytes") == 0))
        is_back = wait_until(lambda: memory_kb(self.server.process, "VmRSS") < before * 1.05 + 2048)
        self.assertTrue(is_back, memory_kb(self.server.process, "VmRSS") - before)
        self.assert_serves()


class Ends(ProgramTest):
    def setUp(self):
        if not HAS_HTTP:
            self.skipTest("built without an HTTP server")

    def test_signals_end_it_with_exit_code_0_whatever_it_does(self):
        for how in [signal.SIGINT, signal.SIGTERM]:
            server = Server("--sessions", 1, *ENDLESS)
            connection, response = server.open_stream([user("Tell me a story.")])
            begin = time.monotonic()
            exit_code, out, errors = server.stop(how)
            self.assertEqual((exit_code, out, errors), (OK, "", ""))
            self.assertLess(time.monotonic() - begin, 5)
            self.assertIn(b'"code":"shutting_down"', response.read())
            connection.close()

    def test_it_can_start_again_on_its_port_at_once(self):
        server = Server()
        connection, _ = server.open_stream([user("Hello.")])
        server.stop()
        connection.close()
        again = Server(address=f"127.0.0.1:{server.port}")
        self.assertEqual(again.url, server.url)
        again.stop()

    def test_a_token_is_asked_for(self):
        server = Server("--token", "secret")
        try:
            for token, status in [(None, 401), ("wrong", 401), ("secret", 200)]:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                self.assertEqual(server.post({"messages": [user("x")], "max_tokens": 1}, headers)[0], status)
                self.assertEqual(server.request("GET", "/v1/models", headers=headers)[0], status)
                self.assertEqual(server.request("GET", "/metrics", headers=headers)[0], status)
            self.assertEqual(server.request("GET", "/healthz")[0], 200)
        finally:
            server.stop()

    def test_a_token_can_come_from_a_file_that_only_its_owner_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "token"
            path.write_text("secret\n")
            path.chmod(0o600)
            server = Server("--token-file", path)
            try:
                self.assertEqual(server.request("GET", "/v1/models")[0], 401)
                headers = {"Authorization": "Bearer secret"}
                self.assertEqual(server.request("GET", "/v1/models", headers=headers)[0], 200)
            finally:
                server.stop()
            for command in [["serve", "--http", "127.0.0.1:0"], ["watch", "synthetic", "--http", "127.0.0.1:0"]]:
                path.chmod(0o640)
                self.assert_refused([*command, "--token-file", path], BAD_INPUT, "--token-file .*others can read it.*chmod 600")
                path.chmod(0o600)
                self.assert_refused([*command, "--token-file", path, "--token", "x"], USAGE, "--token")
                self.assert_refused([*command, "--token-file", folder], BAD_INPUT, "--token-file")
                self.assert_refused([*command, "--token-file", folder + "/none"], BAD_INPUT, "No such file")
                empty = pathlib.Path(folder) / "empty"
                empty.touch(0o600)
                self.assert_refused([*command, "--token-file", empty], BAD_INPUT, "it is empty")
                pipe = pathlib.Path(folder) / f"pipe-{command[0]}"  # without a writer
                os.mkfifo(pipe, 0o600)
                self.assert_refused([*command, "--token-file", pipe], BAD_INPUT, "it is empty")

    def test_impossible_options_of_serve_are_refused_in_one_sentence(self):
        for flags, exit_code, sentence in [
                (["--http", "x"], USAGE, "write ADDRESS:PORT"), (["--http", "0.0.0.0:0"], USAGE, "needs --token"),
                (["--http", "300.0.0.1:0", "--token", "x"], USAGE, "not an IPv4 or IPv6"), (["--token", "a b"], USAGE, "--token"),
                (["--queue", -1], USAGE, "--queue"), (["--cors", "*"], USAGE, "--cors"), (["--deadline", 0], USAGE, "--deadline"),
                (["--budget", "50M"], OVER_BUDGET, "the plan needs"), (["--sessions", 0], USAGE, "--sessions")]:
            with self.subTest(flags=flags):
                address = [] if "--http" in flags else ["--http", "127.0.0.1:0"]
                self.assert_refused(["serve", *address, *flags], exit_code, sentence)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assert_refused(["serve", "--quiet", "--http", f"127.0.0.1:{taken.getsockname()[1]}"], RUNTIME,
                                "cannot be listened on")

    def test_the_plan_is_shown_before_it_listens(self):
        done = run("serve", "--http", "192.0.2.1:0", "--token", "x", "--sessions", 2)
        self.assertEqual(done.returncode, RUNTIME)
        self.assertRegex(done.stderr, r"(?m)^total +\d+")
        self.assertRegex(done.stderr, r"(?m)^HTTP, outside the plan: at most \d+ bytes \(\d+\.\d MiB\)$")


if __name__ == "__main__":
    unittest.main()
