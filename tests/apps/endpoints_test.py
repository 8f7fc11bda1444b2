"""The endpoints of `ocellus serve` beside chat: completions, embeddings and tokens; several answers to one request; and
what sessions keep of the prompts that they have read."""

import base64
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


class Tokens(EndpointTest):
    def test_texts_become_tokens_and_tokens_become_texts(self):
        for text in ["", BEGINNING, "Grüße, 世界! 🐙", "<|im_start|>user\n", "a\0b"]:
            with self.subTest(text=text):
                tokens = self.send("/tokenize", {"content": text})["tokens"]
                self.assertEqual(self.send("/detokenize", {"tokens": tokens}), {"content": text})
        with_pieces = self.send("/tokenize", {"content": "A star é", "with_pieces": True})["tokens"]
        bytes_of = [piece if isinstance(piece, list) else list(piece.encode()) for piece in
                    [one["piece"] for one in with_pieces]]
        self.assertEqual(bytes(sum(bytes_of, [])).decode(), "A star é")
        self.assertIn([195], [one["piece"] for one in with_pieces])
        special = "<|im_start|>"
        self.assertEqual(len(self.send("/tokenize", {"content": special})["tokens"]), 1)
        self.assertGreater(len(self.send("/tokenize", {"content": special, "parse_special": False})["tokens"]), 1)

    def test_what_is_no_text_and_no_token_is_refused(self):
        for path, body, param in [("/tokenize", {}, "content"), ("/tokenize", {"content": 5}, "content"),
                                  ("/tokenize", {"content": "x", "with_pieces": 1}, "with_pieces"),
                                  ("/detokenize", {}, "tokens"), ("/detokenize", {"tokens": "x"}, "tokens"),
                                  ("/detokenize", {"tokens": [-1]}, "tokens"), ("/detokenize", {"tokens": [10**7]}, "tokens"),
                                  ("/detokenize", {"tokens": [None]}, "tokens")]:
            with self.subTest(path=path, body=body):
                self.assert_refused_field(path, body, param)


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
        picture = image_part(board("072"))
        questions = ["Caption this image.", "What is on the left?", "What color is the background?"]
        alone = [self.answer("ask", "--prompt", question, board("072")).strip() for question in questions]
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
        for name in ["006", "014", "006"]:
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
