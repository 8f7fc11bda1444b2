"""Tokens of the model, which `ocellus serve` shows and takes with the fields of llama.cpp's server and of vLLM's."""

import json
import unittest

from endpoints_test import BEGINNING, EndpointTest


class Tokens(EndpointTest):
    def test_texts_become_tokens_and_tokens_become_texts(self):
        for text in ["", BEGINNING, "Grüße, 世界! 🐙", "<|im_start|>user\n", "a\0b"]:
            with self.subTest(text=text):
                tokens = self.send("/tokenize", {"content": text})["tokens"]
                self.assertEqual(self.send("/detokenize", {"tokens": tokens}), {"content": text, "prompt": text})
        with_pieces = self.send("/tokenize", {"content": "A star é", "with_pieces": True})["tokens"]
        bytes_of = [piece if isinstance(piece, list) else list(piece.encode()) for piece in
                    [one["piece"] for one in with_pieces]]
        self.assertEqual(bytes(sum(bytes_of, [])).decode(), "A star é")
        self.assertIn([195], [one["piece"] for one in with_pieces])
        special = "<|im_start|>"
        self.assertEqual(len(self.send("/tokenize", {"content": special})["tokens"]), 1)
        self.assertGreater(len(self.send("/tokenize", {"content": special, "parse_special": False})["tokens"]), 1)

    def test_texts_are_taken_under_the_names_of_vllm_too(self):
        """With the fields of vLLM's server, whose answer has a count, and a start by default."""
        for text in ["", BEGINNING, "<|im_start|>user\n"]:
            with self.subTest(text=text):
                tokens = self.send("/tokenize", {"content": text})["tokens"]
                for fields in [{}, {"add_special_tokens": False}, {"add_special_tokens": True, "return_token_strs": None}]:
                    answer = self.send("/tokenize", {"prompt": text, **fields})
                    self.assertEqual((answer["tokens"], answer["count"]), (tokens, len(tokens)))  # the model has no start
                    self.assertGreater(answer["max_model_len"], 1000)
        pieces = self.send("/tokenize", {"prompt": BEGINNING, "with_pieces": True})["tokens"]
        self.assertEqual("".join(one["piece"] for one in pieces), BEGINNING)

    def test_the_tokenizer_tells_of_its_marks(self):
        status, _, answer = self.server.request("GET", "/tokenizer_info")
        self.assertEqual((status, json.loads(answer)), (200, {"bos_token": None, "eos_token": None}))

    def test_what_is_no_text_and_no_token_is_refused(self):
        for path, body, param in [("/tokenize", {}, "content"), ("/tokenize", {"content": 5}, "content"),
                                  ("/tokenize", {"content": "x", "with_pieces": 1}, "with_pieces"),
                                  ("/tokenize", {"prompt": 5}, "prompt"), ("/tokenize", {"prompt": ["x"]}, "prompt"),
                                  ("/tokenize", {"prompt": "x", "content": "x"}, "content"),
                                  ("/tokenize", {"prompt": "x", "add_special": True}, "add_special"),
                                  ("/tokenize", {"prompt": "x", "add_special_tokens": 1}, "add_special_tokens"),
                                  ("/tokenize", {"prompt": "x", "return_token_strs": True}, "return_token_strs"),
                                  ("/detokenize", {}, "tokens"), ("/detokenize", {"tokens": "x"}, "tokens"),
                                  ("/detokenize", {"tokens": [-1]}, "tokens"), ("/detokenize", {"tokens": [10**7]}, "tokens"),
                                  ("/detokenize", {"tokens": [None]}, "tokens")]:
            with self.subTest(path=path, body=body):
                self.assert_refused_field(path, body, param)


if __name__ == "__main__":
    unittest.main()
