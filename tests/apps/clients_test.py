"""Clients from PyPI against `ocellus serve` on this machine, with the bundled model: openai's own, LiteLLM, LangChain's
ChatOpenAI, instructor and lm-eval. They take minutes to install, so this runs when it is asked for: as a program, which makes a
virtual environment below the build folder. Where PyPI cannot be reached it is skipped, with exit code 77."""

import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from program import GREEN_STAR, HAS_HTTP, board, needs_http, run
from server import Server, caption_of, image_part, user
from virtual_environment import go_on_with

PACKAGES = ["openai", "litellm", "langchain_openai", "instructor", "lm_eval"]
HAS_CLIENTS = all(importlib.util.find_spec(package) for package in PACKAGES)
HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
# Nothing but the server is asked for anything.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LANGCHAIN_TRACING_V2="false", LANGSMITH_TRACING="false",
                  HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")


@unittest.skipUnless(HAS_CLIENTS, "the clients are not installed: run this file as a program")
@needs_http
class ClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--token", "secret")
        cls.base_url = cls.server.url + "/v1"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()


class OpenAi(ClientsTest):
    def setUp(self):
        import openai
        self.client = openai.OpenAI(base_url=self.base_url, api_key="secret", max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def test_chat_with_several_answers_and_what_was_read_before(self):
        for _ in range(2):
            answer = self.client.chat.completions.create(model="ocellus", messages=caption_of("113"), n=2, temperature=0,
                                                         store=False, metadata={"a": "b"}, user="me")
            self.assertEqual([choice.message.content for choice in answer.choices], [GREEN_STAR] * 2)
        self.assertGreater(answer.usage.prompt_tokens_details.cached_tokens, 64)
        self.assertRegex(answer.system_fingerprint, "fp_")

    def test_a_stream_of_several_answers(self):
        said = ["", ""]
        with self.client.chat.completions.stream(model="ocellus", messages=caption_of("113"), n=2, temperature=0) as stream:
            for event in stream:
                if event.type == "chunk":
                    for choice in event.chunk.choices:
                        said[choice.index] += choice.delta.content or ""
            final = stream.get_final_completion()
        self.assertEqual(said, [GREEN_STAR] * 2)
        self.assertEqual([choice.message.content for choice in final.choices], said)

    def test_completions_whole_and_as_a_stream(self):
        fields = {"model": "ocellus", "prompt": "A large green star", "max_tokens": 6, "extra_body": {"ignore_eos": True}}
        whole = self.client.completions.create(**fields, echo=True)
        pieces = list(self.client.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
        said = "".join(piece.choices[0].text for piece in pieces if piece.choices)
        self.assertEqual(whole.choices[0].text, "A large green star" + said)
        self.assertEqual(pieces[-1].usage.completion_tokens, 6)

    def test_embeddings_in_base64_and_as_floats(self):
        packed = self.client.embeddings.create(model="ocellus", input=["one", "two"])  # base64, by default
        plain = self.client.embeddings.create(model="ocellus", input=["one", "two"], encoding_format="float")
        self.assertEqual(len(packed.data), 2)
        for one, other in zip(packed.data, plain.data):
            self.assertEqual(len(one.embedding), len(other.embedding))
            for a, b in zip(one.embedding, other.embedding):
                self.assertAlmostEqual(a, b, places=6)

    def test_errors_are_the_clients_own(self):
        import openai
        for call in [lambda: self.client.completions.create(model="ocellus", prompt=""),
                     lambda: self.client.embeddings.create(model="ocellus", input="x", dimensions=4),
                     lambda: self.client.chat.completions.create(model="ocellus", messages=caption_of("113"), n=100)]:
            with self.assertRaises(openai.BadRequestError):
                call()
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").embeddings.create(model="ocellus", input="x")
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="text-embedding-3-small", input="x")


def thing():
    """What an answer is to be."""
    from pydantic import BaseModel, Field

    class Thing(BaseModel):
        color: str = Field(max_length=20)
        count: int = Field(ge=0, le=9)
    return Thing


class Structured(ClientsTest):
    """Answers that are objects, by every client's own way; what cannot be read as one is an error of the client's."""

    def setUp(self):
        import openai
        self.client = openai.OpenAI(base_url=self.base_url, api_key="secret", max_retries=0, timeout=60)
        self.addCleanup(self.client.close)
        self.thing = thing()
        self.fields = {"model": "ocellus", "messages": caption_of("113"), "max_tokens": 200}

    def test_openai_parses_answers_and_calls_functions(self):
        import openai
        parsed = self.client.chat.completions.parse(**self.fields, response_format=self.thing)
        self.assertIsInstance(parsed.choices[0].message.parsed, self.thing)
        tool = openai.pydantic_function_tool(self.thing)
        called = self.client.chat.completions.parse(**self.fields, tools=[tool], tool_choice="required")
        self.assertIsInstance(called.choices[0].message.tool_calls[0].function.parsed_arguments, self.thing)
        with self.client.chat.completions.stream(**self.fields, tools=[tool], tool_choice="required") as stream:
            final = stream.get_final_completion()
        self.assertIsInstance(final.choices[0].message.tool_calls[0].function.parsed_arguments, self.thing)
        answer = self.client.chat.completions.create(**self.fields, logprobs=True, top_logprobs=2)
        self.assertEqual(len(answer.choices[0].logprobs.content[0].top_logprobs), 2)

    def test_instructor_fills_a_model_by_schema_and_by_call(self):
        import instructor
        for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
            with self.subTest(mode=mode):
                filled = instructor.from_openai(self.client, mode=mode).chat.completions.create(
                    **self.fields, response_model=self.thing, max_retries=0)
                self.assertIsInstance(filled, self.thing)

    def test_langchain_has_structured_output_both_ways(self):
        from langchain_openai import ChatOpenAI
        chat = ChatOpenAI(base_url=self.base_url, api_key="secret", model="ocellus", max_retries=0, max_tokens=200)
        for method in ("json_schema", "function_calling"):
            with self.subTest(method=method):
                found = chat.with_structured_output(self.thing, method=method).invoke("How many stars?")
                self.assertIsInstance(found, self.thing)

    def test_litellm_hands_schemas_on(self):
        import litellm
        answer = litellm.completion(**{**self.fields, "model": "openai/ocellus"}, response_format=self.thing,
                                    api_base=self.base_url, api_key="secret")
        self.thing.model_validate_json(answer.choices[0].message.content)


class LiteLlm(ClientsTest):
    def setUp(self):
        import litellm
        self.litellm = litellm
        self.fields = {"api_base": self.base_url, "api_key": "secret", "num_retries": 0, "timeout": 60}

    def test_chat_stream_completion_and_embedding(self):
        fields = {"model": "openai/ocellus", "messages": caption_of("113"), "temperature": 0, **self.fields}
        answer = self.litellm.completion(**fields)
        self.assertEqual(answer.choices[0].message.content, GREEN_STAR)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        pieces = self.litellm.completion(**fields, stream=True, stream_options={"include_usage": True})
        self.assertEqual("".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices), GREEN_STAR)
        text = self.litellm.text_completion(model="text-completion-openai/ocellus", prompt="A large green", max_tokens=4,
                                            **self.fields)
        self.assertTrue(text.choices[0].text)
        vectors = self.litellm.embedding(model="openai/ocellus", input=["one", "two"], **self.fields)
        self.assertEqual(len(vectors.data), 2)

    def test_responses_whole_and_as_a_stream(self):
        fields = {"model": "openai/ocellus", "input": "A large green", "max_output_tokens": 40, "temperature": 0, **self.fields}
        whole = self.litellm.responses(**fields)
        said = "".join(part.text for item in whole.output if item.type == "message" for part in item.content)
        self.assertTrue(said)
        pieces = [event.delta for event in self.litellm.responses(**fields, stream=True) if event.type == "response.output_text.delta"]
        self.assertEqual("".join(pieces), said)

    def test_errors_are_the_clients_own(self):
        fields = {"model": "openai/ocellus", "messages": [user("x")], **self.fields}
        with self.assertRaises(self.litellm.BadRequestError):
            self.litellm.completion(**fields, n=100)
        with self.assertRaises(self.litellm.AuthenticationError):
            self.litellm.completion(**{**fields, "api_key": "wrong"})
        with self.assertRaises(self.litellm.NotFoundError):
            self.litellm.completion(**{**fields, "model": "openai/gpt-4o"})


class LangChain(ClientsTest):
    def test_messages_pictures_streams_and_batches(self):
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
        from langchain_openai import ChatOpenAI
        model = ChatOpenAI(base_url=self.base_url, api_key="secret", model="ocellus", temperature=0, max_retries=0,
                           max_tokens=60)
        seen = HumanMessage(content=caption_of("113")[0]["content"])
        answer = model.invoke([seen])
        self.assertEqual(answer.content, GREEN_STAR)
        self.assertGreater(answer.usage_metadata["output_tokens"], 10)
        self.assertEqual("".join(piece.content for piece in model.stream([seen])), GREEN_STAR)
        self.assertEqual([one.content for one in model.batch([[seen]] * 3)], [GREEN_STAR] * 3)
        talk = [SystemMessage("You describe pictures."),
                HumanMessage(content=user(image_part(board("115")), "What is on the left?")["content"]),
                AIMessage("A large cyan star."), HumanMessage("What color is it?")]
        self.assertTrue(model.invoke(talk).content)

    def test_responses_with_pictures_and_earlier_turns(self):
        from langchain_core.messages import HumanMessage
        from langchain_openai import ChatOpenAI
        model = ChatOpenAI(base_url=self.base_url, api_key="secret", model="ocellus", temperature=0, max_retries=0,
                           max_tokens=60, use_responses_api=True)
        seen = HumanMessage(content=caption_of("113")[0]["content"])
        answer = model.invoke([seen])
        self.assertEqual(answer.text, GREEN_STAR)
        self.assertEqual("".join(piece.text for piece in model.stream([seen])), GREEN_STAR)
        self.assertTrue(model.invoke([seen, answer, HumanMessage("What color is it?")]).text)
        wanted = thing()
        self.assertIsInstance(model.with_structured_output(wanted, method="json_schema").invoke("How many stars?"), wanted)

    def test_embeddings_of_documents(self):
        from langchain_openai import OpenAIEmbeddings
        # Else LangChain sends tokens of another model's vocabulary.
        embeddings = OpenAIEmbeddings(base_url=self.base_url, api_key="secret", model="ocellus",
                                      check_embedding_ctx_length=False)
        one, other = embeddings.embed_documents(["a green star", "a cyan circle"])
        query = embeddings.embed_query("a green star")
        similar, different = [sum(a * b for a, b in zip(query, vector)) for vector in [one, other]]
        self.assertAlmostEqual(similar, 1, places=4)
        self.assertLess(different, similar)


class Instructor(ClientsTest):
    def test_answers_without_a_model_to_fill_in_pass_through(self):
        import instructor
        import openai
        client = instructor.from_openai(openai.OpenAI(base_url=self.base_url, api_key="secret", max_retries=0),
                                        mode=instructor.Mode.JSON)
        answer = client.chat.completions.create(model="ocellus", response_model=None, messages=caption_of("113"),
                                                temperature=0)
        self.assertEqual(answer.choices[0].message.content, GREEN_STAR)


class LmEval(ClientsTest):
    """EleutherAI's harness with tasks of our own, by log-likelihood and by what is written. It has no tokenizer: it asks the
    server for tokens, as it finds that it may."""
    questions = [("A large green star at the", [" top left", " zebra crossing"], 0), ("Two small red", [" xylophone", " circles"], 1),
                 ("A sign reading 165 at the bottom", [" right", " quantum"], 0)]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        os.environ["HF_HOME"] = str(cls.folder / "cache")  # read when its packages are loaded, here first
        rows = [{"question": question, "choices": choices, "label": label} for question, choices, label in cls.questions]
        data = cls.folder / "questions.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        common = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}, "test_split": "test",
                  "doc_to_text": "{{question}}"}
        said = {"output_type": "generate_until", "doc_to_target": "{{choices[label]}}", "metric_list": [{"metric": "exact_match"}],
                "generation_kwargs": {"until": [" and", ","], "max_gen_toks": 12}}
        chosen = {"output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "label", "target_delimiter": "",
                  "metric_list": [{"metric": "acc"}]}
        rolling = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{question}}",
                   "metric_list": [{"metric": "word_perplexity"}]}
        for name, task in [("said", said), ("chosen", chosen), ("rolling", rolling)]:
            (cls.folder / f"{name}.yaml").write_text(json.dumps({**common, "task": name, **task}))

    def evaluate(self, *tasks, **fields):
        """The results of the tasks, and for each what it got for every question."""
        import lm_eval
        from lm_eval.tasks import TaskManager
        found = lm_eval.simple_evaluate(
            model="local-completions", tasks=list(tasks), bootstrap_iters=0, log_samples=True,
            task_manager=TaskManager(include_path=str(self.folder), include_defaults=False),
            model_args={"model": "ocellus", "base_url": self.base_url + "/completions", "auth_token": "secret",
                        "header": {"Authorization": "Bearer secret"}, "max_retries": 1, **fields})
        return found["results"], {task: [one["filtered_resps"] for one in found["samples"][task]] for task in tasks}

    def test_choices_and_answers_are_the_same_one_by_one_at_once_and_in_batches(self):
        results, first = self.evaluate("chosen", "said")
        self.assertEqual(results["chosen"]["acc,none"], 1)
        self.assertTrue(all(text for (text,) in first["said"]))
        for fields in [{}, {"num_concurrent": 4}, {"batch_size": 4}, {"batch_size": 2, "num_concurrent": 2}, {"tokenized_requests": False}]:
            with self.subTest(fields=fields):
                _, again = self.evaluate("chosen", "said", **fields)
                self.assertEqual(again["said"], first["said"])
                for one, other in zip(sum(again["chosen"], []), sum(first["chosen"], [])):
                    self.assertAlmostEqual(one[0], other[0], delta=0.05)  # other steps round otherwise
                    self.assertEqual(one[1], other[1])

    def test_what_is_chosen_is_as_probable_as_the_program_says(self):
        _, found = self.evaluate("chosen")
        path = self.folder / "text.txt"
        for (question, choices, label), scored in zip(self.questions, found["chosen"]):
            with self.subTest(question=question):
                path.write_text(question + choices[label])
                beginning, length = len(self.tokens(question)), len(self.tokens(question + choices[label]))
                done = run("perplexity", path, "--tokens", length, "--window", length, "--context", beginning)
                perplexity = float(re.search(r"^perplexity +(\S+)$", done.stdout, re.MULTILINE)[1])
                self.assertAlmostEqual(scored[label][0], -math.log(perplexity) * (length - beginning), delta=0.05)

    def tokens(self, text):
        _, _, answer = self.server.request("POST", "/tokenize", json.dumps({"content": text}), {"Authorization": "Bearer secret"})
        return json.loads(answer)["tokens"]

    def test_whole_texts_have_a_perplexity_after_a_token_that_is_given(self):
        (start,) = self.tokens("<|im_start|>")
        results, _ = self.evaluate("rolling", custom_prefix_token_id=start)
        self.assertGreater(results["rolling"]["word_perplexity,none"], 1)


def main():
    if not HAS_CLIENTS and HAS_HTTP:
        try:
            go_on_with("clients", HERE / "clients_requirements.txt")
        except subprocess.CalledProcessError:
            print("clients_test: skipped: its packages could not be installed; is PyPI within reach?", file=sys.stderr)
            sys.exit(SKIPPED)
    unittest.main()


if __name__ == "__main__":
    main()
