"""OpenAI's own client for Python against `ocellus serve`. Run as a program it makes itself a virtual environment with
that client, below the build folder, where it is not installed; run with other tests it is skipped then."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from program import GREEN_STAR, HAS_HTTP, board, needs_http
from server import ENDLESS, Server, caption_of, image_part, picture_url, user
from virtual_environment import go_on_with

HAS_CLIENT = importlib.util.find_spec("openai") is not None
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if HAS_CLIENT:
    import openai


@unittest.skipUnless(HAS_CLIENT, "the openai package is not installed: run this file as a program")
@needs_http
class ClientTest(unittest.TestCase):
    def start(self, *flags, key="any"):
        server = Server(*flags)
        self.addCleanup(server.stop)
        client = self.client(server, key)
        return server, client

    def client(self, server, key):
        client = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=60)
        self.addCleanup(client.close)
        return client

    def test_the_lines_of_the_page_work(self):
        server, _ = self.start()
        (lines,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "apps/serve/README.md").read_text(), re.MULTILINE | re.DOTALL)
        done = subprocess.run([sys.executable, "-c", lines.replace("http://127.0.0.1:8000", server.url)], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, check=True)
        self.assertEqual(done.stdout.strip(), json.loads((ROOT / "apps/samples/captions.json").read_text())["board_01.png"])

    def test_chat_pictures_and_streams_work(self):
        _, client = self.start()
        model = client.models.list().data[0].id
        self.assertEqual(client.models.retrieve(model).id, model)
        answer = client.chat.completions.create(model=model, messages=caption_of("113"), temperature=0, seed=1,
                                                max_completion_tokens=100, stop=["never said"])
        self.assertEqual(answer.choices[0].message.content, GREEN_STAR)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertRegex(answer._request_id, "req-")

        messages = [{"role": "system", "content": "You describe pictures."},
                    user(image_part(board("115")), "What is on the left?"),
                    {"role": "assistant", "content": "A large cyan star."},
                    {"role": "user", "content": "What color is it?"}]
        told = client.chat.completions.create(model=model, messages=messages)
        self.assertTrue(told.choices[0].message.content)

        chunks = list(client.chat.completions.create(model=model, messages=caption_of("113"), stream=True,
                                                     stream_options={"include_usage": True}))
        said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(said, GREEN_STAR)
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")
        self.assertEqual(chunks[-1].usage.completion_tokens, answer.usage.completion_tokens)
        self.assertEqual(chunks[-1].usage.prompt_tokens, answer.usage.prompt_tokens)
        extra = client.chat.completions.create(model=model, messages=caption_of("113"), temperature=2,
                                               extra_body={"top_k": 1, "min_p": 0.1, "repetition_penalty": 1.0})
        self.assertEqual(extra.choices[0].message.content, GREEN_STAR)

    def test_responses_with_pictures_streams_and_items_given_back(self):
        _, client = self.start()
        url = image_part(board("113"))["image_url"]["url"]
        asked = [{"role": "user", "content": [{"type": "input_text", "text": "Caption this image."},
                                              {"type": "input_image", "image_url": url, "detail": "auto"}]}]
        answer = client.responses.create(model="ocellus", input=asked, temperature=0, store=False)
        self.assertEqual((answer.output_text, answer.status), (GREEN_STAR, "completed"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
        with client.responses.stream(model="ocellus", input=asked, temperature=0) as stream:
            said = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            final = stream.get_final_response()
        self.assertEqual((said, final.output_text, final.usage.output_tokens), (GREEN_STAR, GREEN_STAR, answer.usage.output_tokens))
        events = list(client.responses.create(model="ocellus", input=asked, temperature=0, stream=True))
        self.assertEqual((events[0].type, events[-1].response.output_text), ("response.created", GREEN_STAR))
        more = client.responses.create(model="ocellus", instructions="Be brief.",
                                       input=[*asked, *answer.output, {"role": "user", "content": "And what color?"}])
        self.assertTrue(more.output_text)
        with self.assertRaises(openai.BadRequestError) as caught:
            client.responses.create(model="ocellus", input="And?", previous_response_id=answer.id)
        self.assertEqual(caught.exception.param, "previous_response_id")
        with self.assertRaises(openai.NotFoundError):
            client.responses.retrieve(answer.id)

    def test_responses_are_parsed_and_call_functions(self):
        from pydantic import BaseModel, Field

        class Thing(BaseModel):
            color: str = Field(max_length=20)
            count: int = Field(ge=0, le=9)
        _, client = self.start()
        fields = {"model": "ocellus", "input": "What is there?", "max_output_tokens": 200}
        self.assertIsInstance(client.responses.parse(**fields, text_format=Thing).output_parsed, Thing)
        with client.responses.stream(**fields, text_format=Thing) as stream:
            self.assertIsInstance(stream.get_final_response().output_parsed, Thing)
        tool = openai.pydantic_function_tool(Thing)["function"]
        tools = [{"type": "function", "name": tool["name"], "parameters": tool["parameters"], "strict": True}]
        called = client.responses.parse(**fields, tools=tools, tool_choice="required")
        (call,) = called.output
        Thing.model_validate_json(call.arguments)
        with client.responses.stream(**fields, tools=tools, tool_choice="required") as stream:
            said = "".join(event.delta for event in stream if event.type == "response.function_call_arguments.delta")
            self.assertEqual(stream.get_final_response().output[0].arguments, said)
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "Done."}
        told = client.responses.create(model="ocellus", input=[{"role": "user", "content": "What is there?"}, *called.output, result])
        self.assertEqual(told.status, "completed")

    def test_files_are_kept_named_and_deleted(self):
        with tempfile.TemporaryDirectory() as folder:
            _, client = self.start("--library", folder, "--owner", "ann")
            with open(board("113"), "rb") as picture:
                kept = client.files.create(file=picture, purpose="vision",
                                           expires_after={"anchor": "created_at", "seconds": 3600})
            self.assertEqual((kept.filename, kept.bytes), ("113.png", pathlib.Path(board("113")).stat().st_size))
            self.assertEqual(client.files.retrieve(kept.id), kept)
            self.assertEqual([file.id for file in client.files.list()], [kept.id])
            named = [user("Caption this image.", {"type": "image_url", "image_url": {"url": "library:" + kept.id}})]
            answers = [client.chat.completions.create(model="ocellus", messages=messages, temperature=0)
                       for messages in [named, caption_of("113")]]
            self.assertEqual(*[answer.choices[0].message.content for answer in answers])
            self.assertTrue(client.files.delete(kept.id).deleted)
            with self.assertRaises(openai.NotFoundError):
                client.files.retrieve(kept.id)

    def test_the_asynchronous_client_gets_many_answers_at_once(self):
        import asyncio
        server, _ = self.start()

        async def ask_all():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0) as client:
                return await asyncio.gather(*[client.chat.completions.create(model="ocellus", messages=caption_of("113"))
                                              for _ in range(8)])
        for answer in asyncio.run(ask_all()):
            self.assertEqual(answer.choices[0].message.content, GREEN_STAR)

    def test_errors_are_the_clients_own(self):
        _, client = self.start()
        with self.assertRaises(openai.NotFoundError) as caught:
            client.chat.completions.create(model="gpt-4o", messages=caption_of("113"))
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.NotFoundError):
            client.models.retrieve("gpt-4o")
        for fields, param in [({"n": 100}, "n"), ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
                              ({"top_logprobs": 2}, "top_logprobs"), ({"temperature": 9}, "temperature"),
                              ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}},
                               "response_format.json_schema.schema")]:
            with self.subTest(param=param), self.assertRaises(openai.BadRequestError) as caught:
                client.chat.completions.create(model="ocellus", messages=caption_of("113"), **fields)
            self.assertEqual(caught.exception.param, param)
        for url in ["https://example.com/a.png", picture_url(b"GIF89a", "gif"), "data:image/png;base64,!"]:
            with self.subTest(url=url), self.assertRaises(openai.BadRequestError) as caught:
                client.chat.completions.create(
                    model="ocellus", messages=[user("x", {"type": "image_url", "image_url": {"url": url}})])
            self.assertEqual(caught.exception.code, "invalid_image")

    def test_a_wrong_token_is_an_authentication_error(self):
        server, client = self.start("--token", "secret", key="secret")
        self.assertEqual(client.chat.completions.create(model="ocellus", messages=caption_of("113"),
                                                        max_tokens=1).choices[0].finish_reason, "length")
        with self.assertRaises(openai.AuthenticationError):
            self.client(server, "wrong").chat.completions.create(model="ocellus", messages=caption_of("113"))

    def test_a_full_queue_is_a_rate_limit_error(self):
        _, client = self.start("--sessions", 1, "--queue", 0, *ENDLESS)
        with client.chat.completions.create(model="ocellus", messages=[user("Tell me a story.")], stream=True,
                                            extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
            with self.assertRaises(openai.RateLimitError):
                client.chat.completions.create(model="ocellus", messages=caption_of("113"))
        # The stream was left; its place is free soon, and the client's own patience is enough.
        patient = client.with_options(max_retries=5)
        answer = patient.chat.completions.create(model="ocellus", messages=caption_of("113"), temperature=0)
        self.assertEqual(answer.choices[0].message.content, GREEN_STAR)


if __name__ == "__main__":
    if not HAS_CLIENT and HAS_HTTP:
        go_on_with("openai", HERE / "openai_requirements.txt")
    unittest.main()
