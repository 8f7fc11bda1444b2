"""Thinking models: how long they think, and where their thoughts are to be seen. The model is the bundled one with two of
its tokens renamed, and a chat template that opens a thought: what it thinks is what it would answer."""

import json
import struct
import unittest

from program import GREEN_STAR, MMPROJ, MODEL, OK, USAGE, FolderTest, board, needs_http, run
from server import Server, caption_of

MARKS = 5  # tokens around a thought that reaches its bound: "<think>\n" and "\n</think>\n\n"
EMPTY_MARKS = 4  # "<think>\n\n</think>\n\n"


def stored(text):
    return struct.pack("<Q", len(text)) + text


def thinking_model(folder):
    """The arguments for the pair. The header keeps its length."""
    content = MODEL.read_bytes()

    def replace(old, new):
        nonlocal content
        assert content.count(old) == 1, old
        content = content.replace(old, new)

    replace(stored(b"<row_6_col_5>"), stored(b"<think>"))
    replace(stored(b"<row_6_col_6>"), stored(b"</think>"))
    start = content.index(b"<|im_start|>{% for message")
    length = struct.unpack("<Q", content[start - 8:start])[0]
    template = content[start:start + length]
    opened = template.replace(b"'Assistant:' }}", b"'Assistant:<think>\\n' }}  ")
    assert len(opened) == len(template) + 11
    replace(stored(template), stored(opened))
    path = folder / "thinking.gguf"
    path.write_bytes(content)
    return ["-m", str(path), "--mmproj", str(MMPROJ)]


class Commands(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = thinking_model(self.folder)

    def think(self, tokens, *flags):
        (answer,) = self.objects("caption", *self.model, "--think-tokens", tokens, "-n", 6, *flags, board("113"))
        return answer

    def test_a_thought_is_bounded_and_apart_from_the_answer(self):
        answer = self.think(5)
        self.assertEqual((answer["thought_tokens"], answer["thought_mark_tokens"]), (5, MARKS))
        self.assertTrue(answer["thought"])
        self.assertNotIn("think>", answer["thought"] + answer["answer"])

    def test_without_a_thought_there_is_none(self):
        answer = self.think(0)
        self.assertEqual((answer["thought_tokens"], answer["thought_mark_tokens"]), (0, EMPTY_MARKS))
        self.assertNotIn("thought", answer)

    def test_thoughts_are_planned(self):
        few, many = (self.think(tokens)["arena_bytes"] for tokens in (0, 1024))
        (unset,) = self.objects("caption", *self.model, "-n", 6, board("113"))
        self.assertGreater(many - few, 1000 * 8192)
        self.assertEqual(unset["arena_bytes"], many)

    def test_a_plan_counts_thoughts(self):
        def planned(*flags):
            (plan,) = self.objects("plan", *self.model, *flags)
            return plan["text_tokens"]
        self.assertEqual([planned("--think-tokens", tokens) for tokens in (0, 100)], [512, 612])
        self.assertEqual(planned(), 512 + 1024)
        self.assertEqual(planned("--text-tokens", 300, "--think-tokens", 100), 300)

    def test_thoughts_are_shown_on_stderr_only(self):
        flags = ["caption", *self.model, "--think-tokens", 5, "-n", 6, board("113")]
        thought = self.think(5)["thought"]
        hidden, shown = run(*flags), run(*flags, "--show-thoughts")
        self.assertEqual((hidden.returncode, shown.returncode), (OK, OK))
        self.assertEqual(hidden.stdout, shown.stdout)
        self.assertNotIn(thought, hidden.stdout + hidden.stderr)
        self.assertIn(thought, shown.stderr)

    def test_every_command_takes_the_bound(self):
        question = "Caption this image."
        (asked,) = self.objects("ask", *self.model, "--think-tokens", 3, "--prompt", question, board("113"))
        self.assertEqual(asked["thought_tokens"], 3)
        (said,) = self.objects("chat", *self.model, "--think-tokens", 3, board("113"), stdin=question + "\n")
        self.assertEqual(said["thought_tokens"], 3)
        watched = self.objects("watch", "synthetic", *self.model, "--think-tokens", 3, "--frames", 1)[0]
        self.assertEqual(watched["thought_tokens"], 3)
        self.assertTrue(watched["thought"])

    def test_a_conversation_plans_no_more_than_the_models_positions(self):
        done = run("chat", *self.model, "--think-tokens", 9000, stdin="/stats\n")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))

    def test_a_model_that_does_not_think_refuses_the_bound(self):
        for command in (["caption"], ["ask", "--prompt", "What?"], ["chat"]):
            self.assert_refused([*command, "--think-tokens", 5, board("113")], USAGE, "the model does not think")
        self.assert_refused(["plan", "--shape", "SmolVLM-256M", "--think-tokens", 5], USAGE, "shapes do not think")
        self.assert_refused(["caption", *self.model, "--think-tokens", -1, board("113")], USAGE, "think-tokens")

    def test_no_thought_is_what_such_a_model_has_anyway(self):
        self.assertEqual(self.answer("caption", "--think-tokens", 0, board("113")), GREEN_STAR + "\n")

    def test_an_answer_that_ends_in_its_thought_is_remarked_on(self):
        done = run("caption", *self.model, "--think-tokens", 200, board("113"))
        self.assertEqual((done.returncode, done.stdout), (OK, "\n"))
        self.assertRegex(done.stderr, "ended its answer inside its thought")


@needs_http
class Serving(FolderTest):
    def setUp(self):
        super().setUp()
        self.server = Server(*thinking_model(self.folder), "--think-tokens", 4)
        self.addCleanup(self.server.stop)

    def ask(self, **fields):
        status, answer = self.server.post({"messages": caption_of("113"), "max_tokens": 6, "ignore_eos": True, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def test_thoughts_are_beside_the_content(self):
        answer = self.ask()
        (choice,) = answer["choices"]
        self.assertTrue(choice["message"]["reasoning_content"])
        self.assertTrue(choice["message"]["content"])
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], MARKS + 4 + 6)
        self.assertEqual(answer["usage"]["completion_tokens_details"], {"reasoning_tokens": 4})

    def test_a_request_has_a_bound_of_its_own(self):
        answer = self.ask(thinking_token_budget=9)
        self.assertEqual(answer["usage"]["completion_tokens_details"], {"reasoning_tokens": 9})
        answer = self.ask(thinking={"type": "enabled", "budget_tokens": 9})
        self.assertEqual(answer["usage"]["completion_tokens_details"], {"reasoning_tokens": 9})
        self.assertGreater(self.ask(thinking_token_budget=-1)["usage"]["completion_tokens_details"]["reasoning_tokens"], 100)
        for none in ({"thinking_token_budget": 0}, {"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False},
                     {"thinking": False}, {"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled", "budget_tokens": 9}},
                     {"reasoning_effort": "none"}, {"chat_template_kwargs": {"thinking": False}}):
            answer = self.ask(**none)
            self.assertEqual(answer["usage"]["completion_tokens"], EMPTY_MARKS + 6)
            self.assertNotIn("reasoning_content", answer["choices"][0]["message"])
        for usual in ({"chat_template_kwargs": {"enable_thinking": True}}, {"enable_thinking": True}, {"thinking": {"type": "enabled"}},
                      {"reasoning_effort": "medium"}):
            self.assertEqual(self.ask(**usual)["usage"]["completion_tokens_details"], {"reasoning_tokens": 4})
        for wrong in (-2, "many", 1.5):
            status, answer = self.server.post({"messages": caption_of("113"), "thinking_token_budget": wrong})
            self.assertEqual((status, answer["error"]["param"]), (400, "thinking_token_budget"), answer)
        status, answer = self.server.post({"messages": caption_of("113"), "chat_template_kwargs": {"enable_thinking": 1}})
        self.assertEqual((status, answer["error"]["param"]), (400, "chat_template_kwargs.enable_thinking"), answer)

    def test_a_thought_leaves_the_answer_its_tokens(self):
        server = Server(*thinking_model(self.folder), "--think-tokens", 9000, "--text-tokens", 100)
        self.addCleanup(server.stop)
        status, answer = server.post({"messages": caption_of("113"), "max_tokens": 6, "ignore_eos": True})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertTrue(answer["choices"][0]["message"]["content"])
        counts = answer["usage"]
        thought = counts["completion_tokens_details"]["reasoning_tokens"]
        self.assertEqual(counts["completion_tokens"], thought + MARKS + 6)

    def test_streams_have_both_in_their_deltas(self):
        whole = self.ask()["choices"][0]["message"]
        events = self.server.events(caption_of("113"), max_tokens=6, ignore_eos=True)
        deltas = [json.loads(event)["choices"][0]["delta"] for event in events[:-1]]
        for field in ("reasoning_content", "content"):
            self.assertEqual("".join(delta.get(field, "") for delta in deltas), whole[field])
        has_thought = [bool(delta.get("reasoning_content")) for delta in deltas]
        first = next(i for i, delta in enumerate(deltas) if delta.get("content"))
        self.assertFalse(any(has_thought[first:]))

    def test_the_metrics_count_all_tokens(self):
        answer = self.ask()
        self.assertEqual(self.server.metric("ocellus_generation_tokens_total"), answer["usage"]["completion_tokens"])


@needs_http
class ServingOthers(FolderTest):
    def test_a_model_that_does_not_think_refuses_a_thought(self):
        server = Server()
        self.addCleanup(server.stop)
        status, answer = server.post({"messages": caption_of("113"), "thinking_token_budget": 5})
        self.assertEqual((status, answer["error"]["param"]), (400, "thinking_token_budget"))
        status, answer = server.post({"messages": caption_of("113"), "thinking_token_budget": 0})
        self.assertEqual(status, 200)
        self.assertNotIn("reasoning_content", answer["choices"][0]["message"])


if __name__ == "__main__":
    unittest.main()
