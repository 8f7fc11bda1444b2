"""The load generator, briefly: every answer is the one that is due, also from a server that is full."""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from program import PROGRAM, SOURCE, long, needs_http
from server import ENDLESS, Server


@needs_http
class ServeLoad(unittest.TestCase):
    def measure(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "load.json"
            done = subprocess.run([sys.executable, "-B", SOURCE / "tools" / "bench" / "serve_load.py", PROGRAM, out, "--commit",
                                   "0000000", "--pictures", "3", "--users", "2", "--most-pictures", "3", *arguments],
                                  capture_output=True, text=True, timeout=300, check=False)
            self.assertTrue(out.exists(), done.stderr)
            return json.loads(out.read_text())

    @long
    def test_many_users_get_what_is_due_and_nothing_is_lost(self):
        result = self.measure("--seconds", "6", "--rate", "5", "--cancels", "0.2", "--bad", "0.3", "--forms", "0.3", "--by", "both")
        self.assertEqual(result["problems"], [])
        self.assertGreater(result["outcomes"]["answered"], 0)
        self.assertGreater(result["outcomes"]["bad, refused rightly"], 0)
        self.assertGreater(result["outcomes"]["answered in its form"], 0)
        self.assertEqual(sum(result["outcomes"].values()), result["requests"])
        self.assertGreater(result["ttft_ms"]["p99"], 0)
        self.assertGreater(result["rss_mib"][0][1], 1)

    @long
    def test_a_server_that_is_full_says_so_and_loses_nothing(self):
        result = self.measure("--seconds", "3", "--rate", "60", "--long", "1", "--", "--sessions", "1", "--queue", "1")
        self.assertEqual(result["problems"], [])
        self.assertGreater(result["outcomes"]["refused: full"], 0)
        self.assertGreater(result["outcomes"]["answered"], 0)


@needs_http
class Fairness(unittest.TestCase):
    def test_a_user_who_fills_the_queue_takes_no_place_from_another(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("many-key many\nfew-key few\n")
            keys.flush()
            server = Server("--sessions", 1, "--queue", 4, "--api-keys", keys.name, *ENDLESS)
            try:
                self.flood(server)
            finally:
                server.stop()

    def flood(self, server):
        end = time.monotonic() + 6
        counts = {"many": collections.Counter(), "few": collections.Counter()}

        def ask(who, **fields):
            body = {"messages": [{"role": "user", "content": "Hello."}], "ignore_eos": True, **fields}
            status, _ = server.post(body, {"Authorization": f"Bearer {who}-key"})
            counts[who][status] += 1

        def ask_on():
            while time.monotonic() < end:
                ask("many", max_tokens=30)

        threads = [threading.Thread(target=ask_on) for _ in range(12)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        while time.monotonic() < end - 1:
            ask("few", max_tokens=2)
        for thread in threads:
            thread.join()
        self.assertEqual(set(counts["few"]), {200}, counts)
        self.assertGreater(counts["few"][200], 2)
        self.assertGreater(counts["many"][429], 0)
        self.assertGreater(counts["many"][200], 0)


if __name__ == "__main__":
    unittest.main()
