"""The requests with which Open WebUI asks `ocellus serve`, as version 0.12.4 of November 2026 sent them to it, its own page's
among them; sent here without it, as its packages take gigabytes. Fields that its settings add are from its sources.

A chat that is kept has about thirty tools of its own with every message, without tool_choice."""

import json
import unittest

from program import GREEN_STAR
from server import ServerTest, caption_of

CHAT = "/v1/chat/completions"
HEADERS = {"Authorization": "Bearer any", "Accept": "*/*", "Accept-Encoding": "gzip, deflate, br",
           "User-Agent": "Python/3.11 aiohttp/3.14.5"}
TOLD = "### Task:\nGenerate 1-3 broad tags.\n### Output:\nJSON format: { \"tags\": [\"tag1\", \"tag2\"] }\n### Chat History:\n" \
       "<chat_history>\nUSER: Hello.\nASSISTANT: " + GREEN_STAR + "\n</chat_history>"
TOOL = {"type": "function", "function": {"name": "get_current_timestamp", "description": "Get the time.",
                                         "parameters": {"properties": {}, "type": "object"}}}


class OpenWebUi(ServerTest):
    def setUp(self):
        self.model = self.get("/v1/models")["data"][0]["id"]

    def get(self, path):
        """A connection is verified, and models are listed, with the same request."""
        for more in [{}, {"Content-Type": "application/json"}]:
            status, headers, answer = self.server.request("GET", path, headers={**HEADERS, **more})
            self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        return json.loads(answer)

    def send(self, path=CHAT, **fields):
        data = json.dumps({"model": self.model, **fields}).encode()
        status, _, answer = self.server.request("POST", path, data, {**HEADERS, "Content-Type": "application/json"})
        return status, json.loads(answer)

    def assert_answered(self, **fields):
        status, answer = self.send(**fields)
        self.assertEqual(status, 200, answer)
        return answer

    def test_a_connection_is_verified_by_its_models(self):
        answer = self.get("/v1/models")
        self.assertEqual(answer["object"], "list")
        self.assertEqual([one["object"] for one in answer["data"]], ["model"])

    def test_a_picture_is_captioned_as_a_stream_with_and_without_counts(self):
        asked = {"model": self.model, "messages": caption_of("113"), "temperature": 0}
        for more in [{}, {"stream_options": {"include_usage": True}}]:
            events = self.server.stream(CHAT, {**asked, **more})
            self.assertEqual(events.pop(), "[DONE]")
            pieces = [json.loads(event) for event in events]
            self.assertEqual(bool(pieces[-1].get("usage")), bool(more))
            self.assertEqual("".join(one["choices"][0]["delta"].get("content") or "" for one in pieces if one["choices"]), GREEN_STAR)

    def test_an_edited_talk_with_a_system_message_goes_on(self):
        talk = [{"role": "system", "content": "User Context:\n\nBe brief."}, *caption_of("113"),
                {"role": "assistant", "content": GREEN_STAR}, {"role": "user", "content": "What color is the star?"}]
        self.assertTrue(self.assert_answered(stream=False, messages=talk)["choices"][0]["message"]["content"])

    def test_titles_tags_follow_ups_and_searches_are_written(self):
        """One message each, whole; only titles have a bound."""
        for fields in [{"max_tokens": 1000}, {}, {"max_completion_tokens": 1000}]:
            with self.subTest(fields=fields):
                answer = self.assert_answered(messages=[{"role": "user", "content": TOLD}], stream=False, **fields)
                self.assertIsInstance(answer["choices"][0]["message"]["content"], str)

    def test_parameters_of_its_panel_are_read_or_change_nothing(self):
        for fields in [{"temperature": 0.1, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "seed": 7, "stop": ["zzz"]},
                       {"frequency_penalty": 0.1, "presence_penalty": 0.1, "logit_bias": {"5": 1}, "repeat_last_n": 64, "repeat_penalty": 1.1},
                       {"num_ctx": 4096, "num_keep": 5, "num_batch": 512, "num_thread": 2, "num_gpu": 1, "use_mmap": True,
                        "use_mlock": True, "keep_alive": "5m", "think": False},
                       {"mirostat_eta": 0.1, "mirostat_tau": 5, "tfs_z": 1, "foo": 1},
                       {"response_format": {"type": "json_object"}}]:
            with self.subTest(fields=fields):
                self.assert_answered(messages=[{"role": "user", "content": "Hello."}], max_tokens=3, stream=False, **fields)

    def test_what_is_refused_is_told_in_a_sentence_which_it_shows(self):
        for fields in [{"mirostat": 1}, {"format": "json"}, {"reasoning_effort": "low"}]:
            for stream in [False, True]:
                with self.subTest(fields=fields, stream=stream):
                    status, answer = self.send(messages=[{"role": "user", "content": "Hello."}], stream=stream, **fields)
                    self.assertEqual((status, answer["error"]["param"]), (400, *fields), answer)
                    self.assertRegex(answer["error"]["message"], r"\A.+\.\Z")

    def test_its_tools_are_left_alone_or_called_where_that_is_said(self):
        said = {"messages": [{"role": "user", "content": "Hello."}], "stream": False, "temperature": 0, "tools": [TOOL]}
        without = self.assert_answered(**said, tool_choice="none")["choices"][0]["message"]["content"]
        self.assertTrue(without)
        for more in [{}, {"tool_choice": "auto"}]:
            choice = self.assert_answered(**said, **more)["choices"][0]
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (without, "stop"))
        (call,) = self.assert_answered(**said, tool_choice="required")["choices"][0]["message"]["tool_calls"]
        self.assertEqual(call["function"]["name"], "get_current_timestamp")

    def test_its_searches_ask_for_embeddings(self):
        status, answer = self.send("/v1/embeddings", input=["one", "two"])
        self.assertEqual((status, len(answer["data"])), (200, 2))


if __name__ == "__main__":
    unittest.main()
