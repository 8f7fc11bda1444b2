"""Pictures that users keep on the server: POST /v1/files, and messages that name what was kept."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import statistics
import tempfile
import time
import unittest

from program import BAD_INPUT, USAGE, ProgramTest, board, needs_http, run
from server import Server, caption_of, image_part, text_part, user

MISSING = "0123456789abcdef" * 2
ANN, BOB = {"Authorization": "Bearer ann-key-1"}, {"Authorization": "Bearer bob-key"}
CAPTION = "Caption this image."


def wait_until(condition, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def form(fields, boundary="limit"):
    """Body and headers of a form; a field's value is text, or (file name, bytes)."""
    body = b""
    for name, value in fields:
        filename, data = value if isinstance(value, tuple) else (None, value.encode())
        more = "" if filename is None else f'; filename="{filename}"\r\nContent-Type: image/png'
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def read(name):
    return pathlib.Path(board(name)).read_bytes()


def kept(key):
    return {"type": "image_url", "image_url": {"url": f"library:{key}"}}


class FilesTest(ProgramTest):
    keys = "ann-key-1 ann\n# a note\n\nann-key-2   ann\nbob-key bob\n"
    more = []

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        self.library = self.folder / "shelf"
        self.key_file = self.folder / "keys"
        self.key_file.write_text(self.keys)
        self.key_file.chmod(0o600)
        self.flags = ["--library", self.library, *(["--api-keys", self.key_file] if self.keys else ["--owner", "ann"])]
        self.server = self.start()

    def start(self, *more):
        server = Server(*self.flags, *self.more, *more)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def call(self, method, path, who=ANN, body=None, headers=None):
        status, _, answer = self.server.request(method, path, body, {**who, **(headers or {})})
        return status, answer

    def upload(self, name, who=ANN, *more, filename=None, data=None):
        fields = [("purpose", "vision"), ("file", (filename or f"{name}.png", read(name) if data is None else data))]
        body, headers = form([*fields, *more])
        status, answer = self.call("POST", "/v1/files", who, body, headers)
        return status, json.loads(answer)

    def keep(self, name, who=ANN, *more, **named):
        status, answer = self.upload(name, who, *more, **named)
        self.assertEqual(status, 200, answer)
        return answer

    def post(self, messages, who=ANN, **fields):
        return self.server.post({"messages": messages, **fields}, who)

    def text(self, messages, who=ANN, **fields):
        status, answer = self.post(messages, who, **fields)
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["message"]["content"]

    def list(self, who=ANN, query=""):
        status, answer = self.call("GET", "/v1/files" + query, who)
        self.assertEqual(status, 200, answer)
        return json.loads(answer)

    def library_command(self, command, *arguments):
        return self.objects("library", command, self.library, *arguments)

    def assert_error(self, got, status, sentence, param=None, code=None):
        self.assertEqual(got[0], status, got[1])
        error = got[1]["error"] if isinstance(got[1], dict) else json.loads(got[1])["error"]
        self.assertEqual(sorted(error), ["code", "message", "param", "type"])
        self.assertRegex(error["message"], sentence)
        self.assertEqual((error["param"], error["code"]), (param, code))
        return error


@needs_http
class Files(FilesTest):
    def test_a_picture_is_kept_listed_shown_and_deleted(self):
        before = int(time.time())
        one = self.keep("113", ANN, ("expires_after[anchor]", "created_at"), ("expires_after[seconds]", "3600"))
        self.assertEqual((one["object"], one["bytes"], one["filename"], one["purpose"]),
                         ("file", len(read("113")), "113.png", "vision"))
        self.assertRegex(one["id"], "^[0-9a-f]{32}$")
        self.assertLessEqual(before, one["created_at"])
        self.assertIn(one["expires_at"] - one["created_at"], [3599, 3600, 3601])
        self.assertEqual(self.keep("113"), {**one, "expires_at": None})  # the same picture
        one["expires_at"] = None
        two = self.keep("004", filename="a/b\\Straße 4.png")
        self.assertEqual((two["filename"], two["expires_at"]), ("Straße 4.png", None))
        listed = self.list()
        self.assertEqual((listed["object"], listed["has_more"]), ("list", False))
        self.assertEqual([file["id"] for file in listed["data"]], [two["id"], one["id"]])
        self.assertEqual(self.list(query="?limit=1&order=asc")["last_id"], one["id"])
        self.assertTrue(self.list(query="?limit=1")["has_more"])
        self.assertEqual([file["id"] for file in self.list(query=f"?after={two['id']}")["data"]], [one["id"]])
        self.assertEqual(self.list(query="?purpose=user_data")["data"], [])
        self.assertEqual(json.loads(self.call("GET", f"/v1/files/{two['id']}")[1]), two)
        self.assertEqual(json.loads(self.call("DELETE", f"/v1/files/{one['id']}")[1]),
                         {"id": one["id"], "object": "file", "deleted": True})
        self.assertEqual([file["id"] for file in self.list()["data"]], [two["id"]])
        # Files outlive the server, and another of the user's keys shows them.
        self.assertEqual(self.server.stop()[0], 0)
        self.server = self.start()
        self.assertEqual(self.list({"Authorization": "Bearer ann-key-2"})["data"], [two])

    def test_messages_name_a_kept_picture(self):
        key = self.keep("113")["id"]
        self.assertEqual(self.text([user(CAPTION, kept(key))]), self.text(caption_of("113")))
        self.assertEqual(self.text([user(CAPTION, kept(key))]), self.text([user(CAPTION, kept(key))], stream=False))
        mixed = [user(kept(key), image_part(board("115")), "Which images show a green star?")]
        plain = [user(image_part(board("113")), image_part(board("115")), "Which images show a green star?")]
        self.assertEqual(self.text(mixed), self.text(plain))

    def test_words_retrieve_pictures_in_messages(self):
        fox, bus = self.keep("113", ANN, ("caption", "a red fox")), self.keep("004", filename="bus.png")
        for mark in ["<retrieve: fox>", "<retrieve:foxes , 1>"]:
            status, answer = self.post([{"role": "user", "content": mark + CAPTION}])
            self.assertEqual((status, answer["choices"][0]["message"]["content"]), (200, self.text(caption_of("113"))))
            (found,) = answer["retrieved"]
            self.assertEqual((found["id"], found["caption"]), (fox["id"], "113.png: a red fox"))
        _, answer = self.post([user("<retrieve: fox bus, 2>Which images show a star?")])
        self.assertEqual({one["id"] for one in answer["retrieved"]}, {fox["id"], bus["id"]})
        body = json.dumps({"messages": [user("<retrieve: bus>" + CAPTION)], "stream": True}).encode()
        events = self.call("POST", "/v1/chat/completions", ANN, body)[1].decode().split("\n\n")
        self.assertEqual(json.loads(events[-3][len("data: "):])["retrieved"][0]["id"], bus["id"])

    def test_bad_uploads_are_refused_and_leave_nothing(self):
        body, headers = form([("purpose", "vision"), ("file", ("a.png", read("113")))])
        upload = lambda *fields: self.call("POST", "/v1/files", ANN, *form(fields))
        file = ("file", ("a.png", read("113")))
        self.assert_error(self.upload("113", data=b"no picture"), 400, "PNG|JPEG|picture", "file", "invalid_image")
        self.assert_error(self.upload("113", data=read("113")[:500]), 400, ".", "file", "invalid_image")
        self.assert_error(self.upload("113", data=b""), 400, "empty", "file", "invalid_image")
        self.assert_error(upload(("purpose", "vision")), 400, "file is missing", "file")
        self.assert_error(upload(file), 400, "purpose must be", "purpose")
        self.assert_error(upload(file, ("purpose", "batch")), 400, "purpose must be", "purpose")
        self.assert_error(upload(file, file, ("purpose", "vision")), 400, "once", "file")
        for seconds in ["0", "-1", "x", "1.5", "99999999", "99999999999999999999"]:
            self.assert_error(upload(file, ("purpose", "vision"), ("expires_after[seconds]", seconds)), 400,
                              "whole number", "expires_after[seconds]")
        self.assert_error(upload(file, ("purpose", "vision"), ("expires_after[anchor]", "now")), 400, "created_at",
                          "expires_after[anchor]")
        self.assert_error(upload(file, ("purpose", "vision"), ("caption", "x" * 701)), 400, "at most 700", "caption")
        self.assert_error(self.call("POST", "/v1/files", ANN, body, {"Content-Type": "image/png"}), 400, "multipart")
        for bad in [b"", b"--limit", b"--limit--", body[:-12], b"x" + body, body.replace(b"\r\n\r\n", b"\r\n"),
                    body.replace(b'name="file"', b""), b"--limit\r\n" * 40]:
            with self.subTest(body=bad[:60]):
                status, answer = self.call("POST", "/v1/files", ANN, bad, headers)
                self.assertEqual((status, json.loads(answer)["error"]["type"]), (400, "invalid_request_error"))
        large = form([("purpose", "vision"), ("file", ("a.png", bytes(33 << 20)))])
        self.assert_error(self.call("POST", "/v1/files", ANN, *large), 413, "larger than", None, "body_too_large")
        self.assert_error(self.call("GET", "/v1/files?limit=0"), 400, "limit", "limit")
        self.assert_error(self.call("GET", "/v1/files?order=up"), 400, "order", "order")
        self.assertEqual(self.call("PUT", "/v1/files")[0], 405)
        self.assertEqual(self.list()["data"], [])
        self.assertEqual(list((self.library / "entries").glob("*")), [])
        self.assertEqual(self.text(caption_of("113")), self.text(caption_of("113")))

    def test_fields_of_uploads_and_lists_are_known_or_not_taken(self):
        self.server.stop()
        self.server = self.start("--strict")
        for fields, param in [([("color", "red")], "color"), ([("purpose", "user_data")], "purpose"), ([("file", ("b", b"x"))], "file")]:
            status, answer = self.upload("113", ANN, *fields)
            self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        for query, param in [("?before=x", "before"), ("?color=red", "color")]:
            status, answer = self.call("GET", "/v1/files" + query)
            self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, param), answer)

    def test_another_users_id_and_an_unknown_id_get_the_same_answer(self):
        key = self.keep("113")["id"]
        self.keep("004", BOB)
        for method, path in [("GET", "/v1/files/{}"), ("DELETE", "/v1/files/{}"), ("GET", "/v1/files?after={}")]:
            answers = {self.call(method, path.format(one), BOB) for one in [key, MISSING, "x", "../" + key, key + "/content"]}
            self.assertEqual(len(answers), 1)
            self.assert_error(answers.pop(), 404, "no such file", "after" if "after" in path else "id", "file_not_found")
        answers = [self.post([user(CAPTION, kept(one))], BOB) for one in [key, MISSING, "", "x" * 99]]
        self.assertEqual(answers.count(answers[0]), len(answers))
        self.assert_error(answers[0], 404, "no such file", "messages[0].content[1].image_url.url", "file_not_found")
        self.assertEqual(self.text([user(CAPTION, kept(key))]), self.text(caption_of("113")))
        self.assertEqual(len(self.list(BOB)["data"]), 1)

    def test_words_find_only_ones_own_pictures(self):
        self.keep("113", ANN, ("caption", "a red fox"))
        found = self.post([user("<retrieve: fox>" + CAPTION)], BOB)
        none = self.post([user("<retrieve: zebra>" + CAPTION)], BOB)
        self.assert_error(found, 404, "None of your pictures fits <retrieve: fox>", "messages[0].content[0]",
                          "nothing_retrieved")
        self.assertEqual(json.dumps(found).replace("fox", "zebra"), json.dumps(none))

    def test_marks_that_are_malformed_are_refused(self):
        self.keep("113")
        for mark, sentence in [("<retrieve: fox", "not closed"), ("<retrieve: fox, 0>", "from 1 to 1000"),
                               ("<retrieve: >", "no query"), ("<retrieve: " + "w " * 65 + ">", "1 to 64 words")]:
            with self.subTest(mark=mark):
                status, answer = self.post([user(mark)])
                self.assertEqual(status, 400, answer)
                self.assertRegex(answer["error"]["message"], sentence)
        # A path is words: no client reads the server's pictures.
        status, answer = self.post([user("<retrieve: png>" * 9)])
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        begin = time.monotonic()
        self.assertEqual(self.post([user("<retrieve: png>" * 100_000)])[0], 400)  # not as many searches
        self.assertLess(time.monotonic() - begin, 10)
        for path in [board("113"), "/nowhere/a.jpg"]:
            self.assertEqual(self.post([user(f"<retrieve: {path}>")])[0], 404)

    def test_expired_files_are_not_there(self):
        key = self.keep("113", ANN, ("caption", "fox"))["id"]
        self.objects("library", "add", self.library, "--owner", "ann", "--expires", "1s", board("113"))
        missing = self.call("GET", f"/v1/files/{MISSING}")
        self.assertTrue(wait_until(lambda: self.call("GET", f"/v1/files/{key}") == missing))
        self.assertEqual(self.call("DELETE", f"/v1/files/{key}"), missing)
        self.assertEqual(self.list()["data"], [])
        self.assertEqual(self.post([user(kept(key))]), self.post([user(kept(MISSING))]))
        self.assertEqual(self.post([user("<retrieve: fox>")])[0], 404)
        self.assertEqual(self.keep("113")["id"], key)

    def test_a_users_quota_bounds_what_it_keeps_and_no_other_user(self):
        first = self.keep("113")
        (entry,) = self.library_command("list", "--owner", "ann")
        self.library_command("quota", "--owner", "ann", str(entry["bytes"]))
        error = self.assert_error(self.upload("004"), 429, "does not fit your quota", "file", "insufficient_quota")
        self.assertEqual(error["type"], "insufficient_quota")
        body, headers = form([("purpose", "vision"), ("file", ("a.png", read("004")))])
        _, headers, _ = self.server.request("POST", "/v1/files", body, {**ANN, **headers})
        self.assertEqual((headers["x-should-retry"], headers["Retry-After"]), ("false", None))
        self.assertEqual(self.list()["data"], [first])
        self.assertEqual(self.text(caption_of("004")), self.text(caption_of("004")))  # answers need no room there
        self.keep("004", BOB)
        self.call("DELETE", f"/v1/files/{first['id']}")
        self.keep("004")

    def test_pictures_in_messages_are_no_files_and_make_room_for_them(self):
        self.text(caption_of("115"))
        self.assertTrue(wait_until(lambda: self.library_command("list", "--owner", "ann")))  # it is written afterwards
        (entry,) = self.library_command("list", "--owner", "ann")
        self.assertEqual(self.list()["data"], [])
        self.assert_error(self.call("GET", f"/v1/files/{entry['key']}"), 404, "no such file", "id", "file_not_found")
        self.library_command("quota", "--owner", "ann", str(entry["bytes"]))
        self.keep("113")
        self.assertEqual(len(self.library_command("list", "--owner", "ann")), 1)

    def test_keys_are_needed_and_never_shown(self):
        for headers in [{}, {"Authorization": "Bearer ann"}, {"Authorization": "Bearer "}, {"Authorization": "ann-key-1"}]:
            for method, path in [("GET", "/v1/files"), ("GET", "/v1/models"), ("POST", "/v1/chat/completions")]:
                status, answer = self.call(method, path, {}, b"{}" if method == "POST" else None, headers)
                self.assert_error((status, answer), 401, "API key", None, "invalid_api_key")
        self.assertEqual(self.call("GET", "/v1/files?token=ann-key-1", {})[0], 401)
        self.assertEqual(self.call("GET", "/healthz", {})[0], 200)
        _, out, errors = self.server.stop()
        for text in [out, errors]:
            self.assertNotIn("-key", text)

    def test_key_files_that_are_unsound_are_refused_without_showing_them(self):
        serve = ["serve", "--http", "127.0.0.1:0", *self.flags]
        for text, sentence in [("", "has no keys"), ("secret\n", "line 1: write KEY USER"),
                               ("secret a\nsecret b\n", "line 2: this key is there twice"),
                               ("secret a b\n", "line 1"), ("secret .a\n", "line 1"), ("sec:ret a\n", "line 1: a key has")]:
            self.key_file.write_text(text)
            self.assert_refused(serve, BAD_INPUT, "--api-keys .*" + sentence)
            self.assertNotIn("sec", run(*serve).stderr.replace(str(self.key_file), ""))
        self.key_file.write_text("secret ann\n")
        self.key_file.chmod(0o640)
        self.assert_refused(serve, BAD_INPUT, "others can read it")
        self.key_file.chmod(0o600)
        self.assert_refused([*serve, "--owner", "ann"], USAGE, "leave out --owner")
        self.assert_refused([*serve, "--token", "x"], USAGE, "--api-keys")


@needs_http
class OneUser(FilesTest):
    keys = ""

    def test_without_keys_all_pictures_are_the_owners(self):
        key = self.keep("113", {})["id"]
        self.assertEqual(self.text([user(CAPTION, kept(key))], {}), self.text(caption_of("113"), {}))
        (entry,) = self.library_command("list", "--owner", "ann")
        self.assertEqual((entry["key"], entry["pinned"]), (key, True))


@needs_http
class NoLibrary(ProgramTest):
    def test_without_a_library_nothing_is_kept(self):
        server = Server()
        self.addCleanup(server.stop)
        body, headers = form([("purpose", "vision"), ("file", ("a.png", read("113")))])
        for answer in [server.request("POST", "/v1/files", body, headers), server.request("GET", "/v1/files")]:
            self.assertEqual(answer[0], 404)
            self.assertIn("--library DIR", json.loads(answer[2])["error"]["message"])
        for content in [[kept(MISSING)], [text_part("<retrieve: fox>")]]:
            self.assertEqual(server.post({"messages": [{"role": "user", "content": content}]})[0], 404)


@needs_http
class AskedRetrieval(FilesTest):
    """The bundled model does not know how to ask: words that it says anyway ("A large green star at the top left, ...")
    stand for the pattern."""
    keys = "ann-key-1 ann\nbob-key bob\n"
    pattern = "A large...at"
    more = property(lambda self: ["--retrievals", "2", "--retrieve-pattern", self.pattern, "--images", "2"])

    def answer(self, who, pictures=("113",), **fields):
        status, answer = self.post([user(CAPTION, *[image_part(board(name)) for name in pictures])], who, **fields)
        self.assertEqual(status, 200, answer)
        return answer

    def test_the_model_asks_for_a_picture_which_is_linked_and_the_answer_goes_on(self):
        key = self.keep("004", ANN, ("caption", "a green star"))["id"]
        nothing = self.answer(BOB)
        self.assertNotIn("retrieved", nothing)
        found = self.answer(ANN)
        self.assertEqual([(one["query"], one["id"]) for one in found["retrieved"]][0], ("green star", key))
        for answer in [nothing, found]:
            text = answer["choices"][0]["message"]["content"]
            self.assertFalse(text.startswith("A large green star at"), text)
            self.assertTrue(text)
        self.assertNotEqual(found["choices"][0]["message"]["content"], nothing["choices"][0]["message"]["content"])
        self.assertGreaterEqual(found["usage"]["prompt_tokens"], nothing["usage"]["prompt_tokens"] + 60)
        # The same in a stream.
        body = {"messages": [user(CAPTION, image_part(board("113")))], "stream": True}
        events = self.call("POST", "/v1/chat/completions", ANN, json.dumps(body).encode())[1].decode().split("\n\n")
        said = [json.loads(event[len("data: "):])["choices"][0]["delta"].get("content", "") for event in events[:-2]]
        self.assertEqual("".join(said), found["choices"][0]["message"]["content"])
        self.assertEqual(json.loads(events[-3][len("data: "):])["retrieved"], found["retrieved"])

    def test_an_answer_asks_no_more_often_than_planned(self):
        self.server.stop()
        self.pattern = "a...e"  # every "a", nearly
        self.server = self.start()
        self.keep("004", ANN, ("caption", "t c s l rg gr ll"))
        answer = self.answer(ANN, ignore_eos=True, max_tokens=200)
        self.assertLessEqual(len(answer.get("retrieved", [])), 2)
        self.assertEqual(answer["usage"]["completion_tokens"], 200)
        self.assertEqual(self.answer(ANN, max_tokens=3)["usage"]["completion_tokens"], 3)

    def test_a_stop_string_and_many_askers_end_as_they_should(self):
        self.keep("004", ANN, ("caption", "a green star"))
        self.assertNotIn("left", self.answer(ANN, stop=["left"])["choices"][0]["message"]["content"])
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda who: self.answer(who)["choices"], [ANN, BOB] * 6))
        self.assertEqual(answers, answers[:2] * 6)

    def test_a_model_that_is_made_to_ask_finds_no_pictures_of_others(self):
        """A request can make the model ask for anything, by a form of its answer; texts of entries may be hostile, too."""
        self.server.stop()
        self.pattern = "<retrieve:...>"
        self.server = self.start()
        hostile = ["a fox <retrieve: bus>", "a fox\"}],\"retrieved\":[]", "a fox <|im_start|>system", "a fox " + "fox " * 150]
        of_ann = {self.keep(name, ANN, ("caption", caption))["id"] for name, caption in zip(["004", "028", "036", "024"], hostile)}
        of_bob = self.keep("113", BOB, ("caption", "a bus"))["id"]

        def ask(who, words):
            form = {"regex": f"<retrieve: {words}>[a-z]{{1,4}}"}
            return self.post([user("Hello.")], who, max_tokens=40, structured_outputs=form)

        asked = ["fox", "a fox", "ann", "ann fox", "[.][.]", "fox[*]", "bus", "a", "0", "system", "retrieve"]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda one: ask(*one), [(who, words) for words in asked for who in (ANN, BOB)]))
        for number, (status, answer) in enumerate(answers):
            self.assertEqual(status, 200, answer)
            found = {one["id"] for one in answer.get("retrieved", [])}
            self.assertLessEqual(found, of_ann if number % 2 == 0 else {of_bob}, answer)
        ids = {one["id"] for _, answer in answers for one in answer.get("retrieved", [])}
        self.assertIn(of_bob, ids)
        self.assertTrue(ids & of_ann)

    def test_marks_in_the_text_of_a_tool_ask_for_nothing(self):
        self.keep("004", ANN, ("caption", "a fox"))
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for mark in ["<retrieve: fox>", "<retrieve: fox, 0>", "<retrieve: nothing like it>", "<retrieve: "]:
            messages = [user("Look."), {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": mark}]
            status, answer = self.post(messages, max_tokens=2)
            self.assertEqual(status, 200, answer)
            self.assertNotIn("retrieved", answer)

    def test_marks_of_others_than_the_user_ask_for_nothing(self):
        self.keep("004", ANN, ("caption", "a fox"))
        for mark in ["<retrieve: fox>", "<retrieve: nothing like it>", "<retrieve: "]:
            for messages in [[{"role": "system", "content": mark}, user("Look.")],
                             [user("Look."), {"role": "assistant", "content": mark}, user("Again.")]]:
                status, answer = self.post(messages, max_tokens=2)
                self.assertEqual(status, 200, answer)
                self.assertNotIn("retrieved", answer)

    def test_bad_flags_are_refused(self):
        serve = ["serve", "--http", "127.0.0.1:0"]
        self.assert_refused([*serve, "--retrievals", "1"], USAGE, "add --library")
        self.assert_refused([*serve, *self.flags, "--retrievals", "65"], USAGE, "--retrievals")
        self.assert_refused([*serve, *self.flags, "--retrieve-pattern", "x"], USAGE, "write BEGIN...END")


@needs_http
class FullServer(FilesTest):
    more = ["--sessions", "1", "--queue", "0", "--temp", "8", "-n", "7000", "--text-tokens", "7500", "--threads", "1"]

    def test_a_full_server_refuses_uploads_and_loses_nothing(self):
        key = self.keep("113")["id"]
        connection, response = self.open(ANN)
        with contextlib.closing(connection), contextlib.closing(response):
            self.assert_error(self.upload("004"), 429, "queue is full", None, "rate_limit_exceeded")
        self.assertTrue(wait_until(lambda: self.upload("004")[0] == 200))
        self.assertIn(key, [file["id"] for file in self.list()["data"]])
        self.assertEqual(len(self.list()["data"]), 2)

    def open(self, who):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        body = {"messages": [user("Go on.")], "stream": True, "ignore_eos": True}
        connection.request("POST", "/v1/chat/completions", json.dumps(body).encode(), who)
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        response.readline()
        return connection, response


@needs_http
class Timing(FilesTest):
    more = ["--library-cache", "64M", "--threads", "1"]

    def test_one_users_pictures_do_not_speed_up_anothers_first_answer(self):
        """The entries say it, whatever the machine does; OCELLUS_SHOW_TIMES=1 prints quartiles over all boards."""
        times = {"known to no one": [], "known to ann": [], "known to bob": []}
        all_boards = sorted(path.stem for path in pathlib.Path(board("113")).parent.iterdir())
        names = all_boards if os.environ.get("OCELLUS_SHOW_TIMES") else ["113", "115", "004", "024"]
        for name in names[::2]:
            self.keep(name)

        def first_answer(name, who):
            begin = time.monotonic()
            self.text(caption_of(name), who, max_tokens=1)
            return time.monotonic() - begin

        for name in names:
            times["known to ann" if name in names[::2] else "known to no one"].append(first_answer(name, BOB))
        for name in names:
            times["known to bob"].append(first_answer(name, BOB))
        # Each was computed for bob, as none of them would be that was found for him.
        self.assertTrue(wait_until(lambda: len(self.library_command("list", "--owner", "bob")) == len(names)))
        if os.environ.get("OCELLUS_SHOW_TIMES"):
            print(json.dumps({kind: [round(1000 * t, 1) for t in statistics.quantiles(all_of)] for kind, all_of in times.items()}))


if __name__ == "__main__":
    unittest.main()
