"""Pictures that conversations share on the device: what is planned, refused, counted, and kept apart."""

import json
import pathlib
import tempfile
import unittest

from program import OK, USAGE, ProgramTest, board, needs_http, run
from server import Server, caption_of, user

LINKED = ["--reuse", "mpic:16"]


class SharedPlan(ProgramTest):
    def plan(self, *flags):
        (plan,) = self.objects("plan", "--sessions", 16, "--images", 10, *LINKED, *flags)
        return plan

    def test_sessions_that_share_ten_pictures_are_planned_with_ten(self):
        shared, apart = self.plan("--shared-images", 10), self.plan()
        rows = {row["name"]: row["bytes"] for row in shared["rows"]}
        image = shared["kv_bytes_per_image"]
        self.assertEqual(rows["kv shared images"], 10 * image)
        self.assertEqual((shared["kv_bytes_shared"], apart["kv_bytes_shared"]), (10 * image, 0))
        self.assertEqual((shared["shared_images"], apart["shared_images"]), (10, 0))
        self.assertEqual(apart["kv_bytes_per_session"] - shared["kv_bytes_per_session"], 10 * image)
        self.assertGreater(apart["total_bytes"] - shared["total_bytes"], 148 * image)
        text = self.answer("plan", "--sessions", 16, "--images", 10, *LINKED, "--shared-images", 10)
        self.assertIn("All sessions share 10 pictures of 5242880 bytes", text)
        self.assertIn("160 pictures of their own would take 83886080 bytes", text)

    def test_a_plan_that_does_not_fit_may_share_fewer_pictures(self):
        few = self.plan("--shared-images", 40)["total_bytes"]
        result = run("plan", "--sessions", 16, "--images", 10, *LINKED, "--shared-images", 100, "--budget", few)
        self.assertRegex(result.stdout, r"at most (40|41) shared images instead of 100 \(--shared-images\)")

    def test_sharing_without_reuse_or_with_eviction_is_refused(self):
        for flags, sentence in [(["--shared-images", 4], "add --reuse"),
                                (["--shared-images", 4, *LINKED, "--evict", "snapkv", "--keep", ".5"], "cannot share"),
                                (["--shared-images", -1, *LINKED], "--shared-images")]:
            self.assert_refused(["plan", *flags], USAGE, sentence)

    def test_carry_plans_shared_pictures_besides_the_copies_of_its_sessions(self):
        flags = ["plan", "--sessions", 2, "--images", 3, "--reuse", "carry:16"]
        (shared,), (apart,) = self.objects(*flags, "--shared-images", 4), self.objects(*flags)
        rows = {row["name"]: row["bytes"] for row in shared["rows"]}
        self.assertEqual(rows["kv image blocks"], (2 * 3 + 4) * shared["kv_bytes_per_image"])
        self.assertEqual(shared["kv_bytes_per_session"], apart["kv_bytes_per_session"])
        self.assertIn("keeps 4 pictures", self.answer(*flags, "--shared-images", 4))

    def test_pictures_of_one_prompt_that_are_equal_share_a_place(self):
        (answer,) = self.objects("ask", "--prompt", "Which images show a star?", board("113"), board("113"), board("115"),
                                 *LINKED, "--shared-images", 2)
        self.assertEqual(answer["shared_image_hits"], 1)
        self.assertGreater(answer["kv_shared_bytes"], 0)


@needs_http
class SharedServe(ProgramTest):
    def start(self, *flags):
        server = Server("--images", 2, "--sessions", 2, *([] if "--library" in flags else LINKED), *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def test_conversations_share_pictures_by_default_and_metrics_say_so(self):
        server = self.start()
        first = server.ask(caption_of("113"))
        self.assertEqual(server.ask(caption_of("113")), first)
        self.assertEqual(server.metric("ocellus_shared_image_hits_total"), 1)
        self.assertEqual(server.metric("ocellus_shared_images_held"), 1)
        connection, response = server.open_stream(caption_of("113"), max_tokens=400)
        self.assertEqual(server.metric("ocellus_shared_images_used"), 1)
        self.assertGreater(server.metric("ocellus_shared_bytes_used"), 0)
        self.assertLess(server.metric("ocellus_kv_cache_usage_perc"), 1)
        response.read()
        connection.close()
        self.assertEqual(server.stop()[0], OK)

    def test_users_share_nothing_without_a_library_either(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("a-key ann\nb-key bob\nm-key metrics\n")
            keys.chmod(0o600)
            server = self.start("--api-keys", keys)
            for key, hits in [("a-key", 0), ("b-key", 0), ("a-key", 1), ("b-key", 2)]:
                known = {"Authorization": "Bearer " + key}
                self.assertEqual(server.post({"messages": caption_of("113")}, known)[0], 200)
                status, _, refusal = server.request("GET", "/metrics", headers=known)  # bob would learn of ann's
                self.assertEqual((status, json.loads(refusal)["error"]["code"]), (403, "insufficient_permissions"))
                _, _, metrics = server.request("GET", "/metrics", headers={"Authorization": "Bearer m-key"})
                self.assertIn(f"\nocellus_shared_image_hits_total {hits}\n", metrics.decode())

    def test_a_request_waits_for_no_place_that_others_hold(self):
        server = self.start("--shared-images", 2)
        connection, response = server.open_stream(
            [user("Caption.", *[part for name in ["113", "115"] for part in caption_of(name)[0]["content"][1:]])],
            max_tokens=500)
        status, answer = server.post({"messages": caption_of("024")})
        self.assertEqual((status, answer["error"]["code"]), (429, "rate_limit_exceeded"))
        self.assertIn("--shared-images", answer["error"]["message"])
        self.assertEqual(server.post({"messages": caption_of("113"), "max_tokens": 2})[0], 200)
        response.read()
        connection.close()
        self.assertEqual(server.post({"messages": caption_of("024")})[0], 200)

    def test_a_server_that_evicts_shares_nothing_by_default(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.start("--kv-bits", 2, "--evict", "snapkv", "--keep", ".5", "--library", folder, "--owner", "ann")
            self.assertTrue(server.ask(caption_of("113")))
            self.assertEqual(server.metric("ocellus_shared_images_held"), 0)

    def test_fewer_shared_pictures_than_a_request_may_have_are_refused(self):
        self.assert_refused(["serve", "--http", "127.0.0.1:0", "--images", 4, *LINKED, "--shared-images", 3], USAGE,
                            "less than the pictures of one request: give 4")


if __name__ == "__main__":
    unittest.main()
