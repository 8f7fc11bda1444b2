"""Answers of `watch` in JSON: in its lines, as metrics, for commands and posts."""

import http.server
import json
import os
import socket
import threading
import time
import unittest

from constraint_test import ConstraintTest
from program import OK, USAGE, needs_http
from watch_test import Watching, lines_of

ANSWER = {"count": 5, "what": "red ring"}
ON = ["--on", "count > 3 and what contains 'ring'"]


class AnswerEvents(ConstraintTest):
    def setUp(self):
        super().setUp()
        schema = self.file("schema.json", json.dumps({"const": ANSWER}))
        self.watch = ["synthetic", "--change", 0, "--json", "--schema", schema]

    def lines(self, *flags, frames=2):
        out = self.answer("watch", *self.watch, *flags, "--frames", frames)
        notes = [note["text"] for note in lines_of(out, "note")]
        return lines_of(out, "caption")[0], notes, lines_of(out, "end")[0].get("events")

    def test_a_line_has_its_answer_unless_it_was_cut_off(self):
        self.assertEqual(self.lines(frames=1)[0]["answer"], ANSWER)
        self.assertNotIn("answer", self.lines("-n", 8, frames=1)[0])

    def test_questions_are_answered_in_words(self):
        with Watching(*self.watch) as watch:
            watch.wait_for(lambda: watch.of_kind("caption", id=2))
            for question in ("Describe image 1.", "When did the green star appear?", "What changed?"):
                watch.type(question)
            answers = watch.wait_for(lambda: watch.of_kind("answer") if len(watch.of_kind("answer")) == 3 else None)
            watch.type("/quit")
            self.assertEqual(watch.finish(), OK)
        for answer in answers:
            self.assertEqual(answer["error"], "")
            self.assertRegex(answer["text"], r"\A[A-Z][^{}]*\.\Z")

    def test_ready_schemas_are_found_by_name(self):
        for name in ("count", "objects", "yes_no"):
            self.assertIsInstance(json.loads(self.answer("ask", "--prompt", "?", "--schema", name)), dict)

    def test_a_command_gets_the_answer_once_while_the_condition_stays_true(self):
        out = self.folder / "out"
        _, notes, events = self.lines(*ON, "--run", f"cat >{out}; echo $OCELLUS_ID $OCELLUS_SEQUENCE >>{out}; echo x")
        self.assertEqual(out.read_text(), json.dumps(ANSWER, separators=(",", ":")) + "\n1 1\n")
        self.assertEqual(notes, [ON[1] + ": true in answer 1."])
        self.assertEqual(events["run"], {"done": 1, "dropped": 0, "failed": 0})
        self.assertEqual(self.lines("--on", "none == 1")[1], ["--on: answer 1 has no none."])

    @needs_http
    def test_metrics_have_the_newest_number_and_a_stop_ends_a_command_with_its_children(self):
        flags = ["--run", "sleep 100 | cat", "--metric", "count", "--metric", "what", "--http", "127.0.0.1:0"]
        with Watching(*self.watch, *ON, *flags) as watch:
            watch.wait_for(lambda: watch.of_kind("caption", id=2))
            metrics = watch.get("/metrics")[1].decode()
            watch.process.terminate()
            self.assertEqual(watch.finish(limit_s=9), OK)
            self.assertEqual(watch.of_kind("end")[0]["events"]["run"]["failed"], 1)
        self.assertIn('ocellus_answer_value{field="count"} 5\n', metrics)
        self.assertIn("ocellus_events_total 1\n", metrics)
        self.assertIn("--metric: answer 1 has no number what.", [note["text"] for note in watch.of_kind("note")])

    def test_events_are_posted_and_failures_told(self):
        taken = []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_error(204 if self.path == "/a?b" else 503)

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://localhost:{server.server_port}"
            self.assertEqual(self.lines(*ON, "--post", url + "/a?b")[2]["post"]["done"], 1)
            self.assertEqual(taken[0]["answer"], ANSWER)
            self.assertEqual(self.lines(*ON, "--post", url)[1][1:], ["--post: the answer was HTTP/1.0 503."])
            server.shutdown()

    def test_slow_errands_under_many_events_hold_up_no_answer_and_all_events_are_counted(self):
        """A receiver that answers byte by byte and never ends, and a command that takes longer than the next events."""
        schema = self.file("any.json", json.dumps({"type": "object", "properties": {"note": {"type": "string", "maxLength": 2},
                                                                                    "count": {"type": "integer", "minimum": 0, "maximum": 9}},
                                                   "required": ["note", "count"], "additionalProperties": False}))
        met = threading.Event()

        def trickle(listener):
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                met.set()
                with client:
                    try:
                        for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000:
                            client.sendall(bytes([byte]))
                            time.sleep(0.1)
                    except OSError:
                        pass

        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=trickle, args=(listener,), daemon=True).start()
            flags = ["--on", "count > 2", "--run", "sleep 2; exec yes x | head -c 100000",
                     "--post", f"http://127.0.0.1:{listener.getsockname()[1]}/"]
            with Watching("synthetic", "--change", 0, "--json", "--schema", schema, "--temp", 8, *flags, "--frames", 24) as watch:
                watch.wait_for(lambda: watch.of_kind("caption", id=6))
                files = len(os.listdir(f"/proc/{watch.process.pid}/fd"))
                watch.wait_for(lambda: watch.of_kind("caption", id=20))
                self.assertLess(len(os.listdir(f"/proc/{watch.process.pid}/fd")), files + 8)
                self.assertEqual(watch.finish(), OK)
                events = watch.of_kind("end")[0]["events"]
                times = [one["at_ms"] for one in watch.of_kind("caption")]
        self.assertTrue(met.is_set())
        self.assertGreater(events["count"], 2)
        for errand in ("run", "post"):
            self.assertEqual(sum(events[errand].values()), events["count"])
        gaps = sorted(b - a for a, b in zip(times, times[1:]))
        self.assertLess(gaps[-1], 1000 + 10 * gaps[len(gaps) // 2])

    def test_what_cannot_work_is_refused(self):
        for flags, sentence in [
                (["--on", "a == 1 and count >"], "at character 12: write"), (["--run", "true"], "requires --on"),
                ([*ON, "--run", "no-such-command 3"], "no command no-such-command"),
                ([*ON, "--run", "/etc/passwd"], "no command /etc/passwd"),
                ([*ON, "--post", "http://192.0.2.1/"], "not this machine's own"),
                ([*ON, "--post", "https://[::1]/"], "write http://"), (["--metric", "a b"], "write a field")]:
            self.assert_refused(["watch", *self.watch, *flags], USAGE, sentence)
        self.assert_refused(["watch", "synthetic", *ON, "--regex", "5"], USAGE, "look at answers in JSON")


if __name__ == "__main__":
    unittest.main()
