"""The image library from outside: pictures are found again in another run, and its folder is looked after."""

import pathlib
import subprocess
import tempfile
import time

from program import BAD_INPUT, PROGRAM, RUNTIME, USAGE, ProgramTest, board, run


class Library(ProgramTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "library"
        self.flags = ["--library", self.path, "--owner", "robot-1"]

    def caption(self, *flags):
        (answer,) = self.objects("caption", board("113"), *self.flags, *flags)
        return answer

    def test_a_picture_is_found_again_and_answered_alike(self):
        first, second = self.caption(), self.caption()
        self.assertEqual((first["library_hits"], first["library_misses"]), (0, 1))
        self.assertEqual((second["library_hits"], second["library_misses"]), (1, 0))
        self.assertEqual(first["answer"], second["answer"])
        self.assertEqual(second["policy"]["reuse"], "mpic:16")
        self.assertEqual(second["encode_ms"], 0)
        other = self.caption("--reuse", "mpic:8")
        self.assertEqual(other["library_hits"], 0)
        self.assertEqual(other["policy"]["reuse"], "mpic:8")

    def test_entries_are_listed_verified_and_removed(self):
        self.caption()
        listed = self.objects("library", "list", self.path, "--owner", "robot-1")
        self.assertEqual([(entry["bits"], entry["tokens"], entry["shared"]) for entry in listed], [(16, 64, False)])
        self.assertIn(listed[0]["key"], self.answer("library", "list", self.path, "--owner", "robot-1"))
        self.assertEqual(self.objects("library", "list", self.path, "--owner", "robot-2"), [])
        self.assertEqual(self.objects("library", "verify", self.path)[0]["sound"], 1)
        (entry,) = [file for file in (self.path / "entries").rglob("*") if file.is_file()]
        damaged = bytearray(entry.read_bytes())
        damaged[5000] ^= 1
        entry.write_bytes(damaged)
        done = run("library", "verify", self.path, "--json")
        self.assertEqual(done.returncode, RUNTIME)
        self.assertIn('"set_aside":1', done.stdout)
        self.assertEqual(self.caption()["library_misses"], 1)
        (entry,) = self.objects("library", "list", self.path, "--owner", "robot-1")
        self.answer("library", "remove", self.path, entry["key"], "--owner", "robot-1")
        self.assertEqual(self.objects("library", "list", self.path, "--owner", "robot-1"), [])
        self.assert_refused(["library", "remove", self.path, entry["key"], "--owner", "robot-1"], BAD_INPUT,
                            "robot-1 has no entry")
        self.assertEqual(self.objects("library", "gc", self.path)[0]["expired"], 0)

    def test_pictures_of_one_run_come_from_memory_where_that_is_planned(self):
        answers = self.objects("caption", board("113"), board("115"), board("113"), *self.flags, "--library-cache", "8M")
        self.assertEqual([answer["library_misses"] for answer in answers], [1, 1, 0])
        self.assertEqual([answer["library_memory_hits"] for answer in answers], [0, 0, 1])
        self.assertEqual(answers[0]["answer"], answers[2]["answer"])
        self.assertEqual(answers[2]["library_bytes_read"], 0)
        self.assertGreater(self.caption()["library_bytes_read"], 0)

    def test_a_run_that_is_killed_leaves_whole_entries_or_none(self):
        names = ["004", "005", "006", "010", "011", "013"]
        for delay_s in (0.2, 0.3, 0.4, 0.5, 0.6, 0.8):
            with self.subTest(delay_s=delay_s):
                running = subprocess.Popen([PROGRAM, "caption", *map(board, names), *map(str, self.flags), "--quiet"],
                                           stdout=subprocess.DEVNULL)
                time.sleep(delay_s)
                running.kill()
                running.wait()
                if self.path.exists():
                    (report,) = self.objects("library", "verify", self.path)
                    self.assertEqual((report["set_aside"], report["checked"]), (0, report["sound"]))

    def test_the_bench_measures_pictures_computed_read_and_remembered_and_leaves_no_entry(self):
        (report,) = self.objects("bench", board("113"), board("115"), "--library", self.path, "--library-cache", "8M",
                                 "--images", 2, "-p", 0, "-n", 0, "-r", 1)
        rows = {row["test"]: row["mean"] for row in report["rows"]}
        for count in ("1 image", "2 images"):
            for how in ("cold", "from disk", "from disk elsewhere", "from memory", "from memory elsewhere"):
                self.assertGreater(rows[f"TTFT {count}, {how}"], 0)
        self.assertGreater(rows["library store"], 0)
        self.assertGreater(rows["library load"], 0)
        self.assertEqual([file for file in (self.path / "entries").rglob("*") if file.is_file()], [])

    def test_what_means_nothing_is_refused(self):
        for flags, sentence in [(["--library", self.path], "--library needs an --owner"),
                                (["--owner", "me"], "--owner goes with a --library"),
                                (["--library", self.path, "--owner", "../me"], "an owner has 1 to 64"),
                                ([*self.flags, "--reuse", "none"], "would be of no use"),
                                (["--library-cache", "8M"], "--library-cache goes with a --library"),
                                ([*self.flags, "--library-cache", "much"], "write a size"),
                                ([*self.flags, "--library-cache", "4K"], "does not hold one image"),
                                (["--reuse", "mpic"], "write none, mpic:all or mpic:K"),
                                (["--reuse", "mpic:-2"], "write none"), (["--reuse", "mpic:4x"], "write none"),
                                (["--reuse", "prefix"], "write none"),
                                (["--reuse", "mpic:8", "--evict", "david", "--keep", 0.5], "without an eviction")]:
            with self.subTest(flags=flags):
                self.assert_refused(["caption", board("113"), *flags], USAGE, sentence)
        self.assert_refused(["bench", *self.flags], USAGE, "leave --owner out")
        self.assert_refused(["library"], USAGE, "subcommand")
        self.assert_refused(["library", "list", self.path], USAGE, "--owner")
        self.assert_refused(["library", "remove", self.path, "zz", "--owner", "me"], USAGE, "32 hexadecimal")
