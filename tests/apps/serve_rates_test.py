"""The measurement of rates, briefly; and a server on made-up weights, which it needs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from program import OK, PROGRAM, SOURCE, long, needs_http
from server import Server, user


@needs_http
class ServeRates(unittest.TestCase):
    @long
    def test_every_way_has_points_and_those_with_reuse_share_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "rates.json"
            done = subprocess.run(
                [sys.executable, "-B", SOURCE / "tools" / "bench" / "serve_rates.py", PROGRAM, out, "--commit", "0000000",
                 "--shape", "bundled", "--ways", "none,prefix,cacheblend:15,mpic:8", "--rates", "1,3", "--seconds", "2",
                 "--drain", "4", "--pictures", "3", "--per-request", "2", "--tokens", "3", "--sessions", "2", "--size",
                 "256x256", "--library-cache", "16M", "--", "--threads", "2"],
                capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, OK, done.stderr + done.stdout)
            result = json.loads(out.read_text())
        ways = {point["way"]: point for point in result["points"]}
        self.assertEqual(list(ways), ["none", "prefix", "cacheblend:15", "mpic:8"])
        for point in result["points"]:
            self.assertGreater(point["outcomes"]["answered"], 0)
            self.assertGreater(point["ttft_ms"]["mean"], 0)
            self.assertEqual(point["errors"], {})
        self.assertEqual(ways["none"]["shared_image_hits"], 0)
        self.assertGreater(ways["mpic:8"]["shared_image_hits"], 0)
        (compared,) = result["compared"]
        self.assertEqual(list(compared["rate at 1000 ms"]), list(ways))
        self.assertEqual(compared["TTFT over cacheblend:15's at 1.0/s"]["cacheblend:15"], 1)

    def test_a_server_runs_on_made_up_weights(self):
        server = Server("--shape", "SmolVLM-256M", "--images", 0, "--sessions", 1, "--text-tokens", 128)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        status, answer = server.post({"messages": [user("Hello")], "max_tokens": 2, "ignore_eos": True})
        self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 2))
        self.assertEqual(server.stop()[0], OK)


if __name__ == "__main__":
    unittest.main()
