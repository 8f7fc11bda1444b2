"""The image library from outside: pictures are found again in another run, and its folder is looked after."""

import json
import resource
import signal
import subprocess
import time
import unittest

from program import BAD_INPUT, OK, OVER_BUDGET, PROGRAM, RUNTIME, USAGE, FolderTest, board, long, run


class LibraryTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "library"

    def add(self, *arguments, owner="ann"):
        return self.objects("library", "add", self.path, "--owner", owner, *arguments)


class Library(LibraryTest):
    def setUp(self):
        super().setUp()
        self.flags = ["--library", self.path, "--owner", "robot-1"]

    def caption(self, *flags):
        (answer,) = self.objects("caption", board("113"), *self.flags, *flags)
        return answer

    def test_a_picture_is_found_again_and_answered_alike(self):
        first, second = self.caption(), self.caption()
        self.assertEqual((first["library_hits"], first["library_misses"]), (0, 1))
        self.assertEqual((second["library_hits"], second["library_misses"]), (1, 0))
        self.assertEqual(first["answer"], second["answer"])
        self.assertEqual(second["policy"]["reuse"], "carry:16")
        self.assertEqual(second["encode_ms"], 0)
        other = self.caption("--reuse", "mpic:8")
        self.assertEqual(other["library_hits"], 0)
        self.assertEqual(other["policy"]["reuse"], "mpic:8")

    @long
    def test_prefix_caching_finds_a_picture_only_after_the_same_prompt(self):
        flags = [*self.flags, "--reuse", "prefix", "--prompt"]
        first, second, other = (self.objects("ask", *flags, prompt, board("113"), board("115"))[0]
                                for prompt in ["<image>One. <image>Two. Is there a ring?"] * 2
                                + ["<image>One. <image>2. Is there a ring?"])
        hits = [(answer["library_hits"], answer["library_misses"]) for answer in (first, second, other)]
        self.assertEqual(hits, [(0, 2), (2, 0), (2, 0)])
        self.assertEqual(first["answer"], second["answer"])
        third = self.objects("ask", *flags, "So: <image>One. <image>Two. Is there a ring?", board("113"), board("115"))[0]
        self.assertEqual((third["library_hits"], third["library_misses"]), (0, 2))

    def test_entries_are_listed_verified_and_removed(self):
        self.caption()
        listed = self.objects("library", "list", self.path, "--owner", "robot-1")
        self.assertEqual([(entry["bits"], entry["tokens"], entry["shared"]) for entry in listed], [(16, 64, False)])
        self.assertIn(listed[0]["key"], self.answer("library", "list", self.path, "--owner", "robot-1"))
        self.assertEqual(self.objects("library", "list", self.path, "--owner", "robot-2"), [])
        for owner, flags, sentence in [("robot-2", [], "ocellus: robot-2 sees no entries here.\n"),
                                       ("robot-1", ["--tag", "x"], "ocellus: robot-1 sees no such entries here.\n")]:
            done = run("library", "list", self.path, "--owner", owner, *flags)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (OK, "", sentence))
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

    def test_pictures_of_one_run_come_from_memory_if_planned(self):
        answers = self.objects("caption", board("113"), board("115"), board("113"), *self.flags, "--library-cache", "8M")
        self.assertEqual([answer["library_misses"] for answer in answers], [1, 1, 0])
        self.assertEqual([answer["library_memory_hits"] for answer in answers], [0, 0, 1])
        self.assertEqual(answers[0]["answer"], answers[2]["answer"])
        self.assertEqual(answers[2]["library_bytes_read"], 0)
        self.assertGreater(self.caption()["library_bytes_read"], 0)

    @long
    def test_a_killed_run_leaves_complete_entries_only(self):
        names = ["004", "024", "028", "036", "063", "098"]
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

    def test_a_disk_that_takes_no_more_is_told_in_one_line(self):
        def caption(*flags):
            def limit_files():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # an entry has 529 KB
            return subprocess.run([PROGRAM, "caption", board("113"), board("115"), board("004"),
                                   *map(str, self.flags), *flags], capture_output=True, text=True, timeout=120,
                                  check=False, preexec_fn=limit_files)
        done = caption()
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (OK, 3), done.stderr)
        self.assertRegex(done.stderr, r"\Aocellus: .* is a new library\.\n"
                                      r"ocellus: library: a picture was not stored, and others may fail, too: "
                                      r".*File too large[^\n]*\n\Z")
        self.assertEqual(caption("--quiet").stderr, "")

    def lies_on_disk(self):
        system = subprocess.run(["stat", "-f", "-c", "%T", self.path], capture_output=True, text=True, check=True).stdout
        return system.strip() != "tmpfs"

    def test_the_bench_measures_pictures_computed_read_and_remembered_and_leaves_no_entry(self):
        (report,) = self.objects("bench", board("113"), board("115"), "--library", self.path, "--library-cache", "8M",
                                 "--images", 2, "-p", 0, "-n", 0, "-r", 1)
        rows = {row["test"]: row["mean"] for row in report["rows"]}
        for count in ("1 image", "2 images"):
            for how in ("cold", "from disk", "from disk elsewhere", "from memory", "from memory elsewhere"):
                self.assertGreater(rows[f"TTFT {count}, {how}"], 0)
            self.assertEqual(f"TTFT {count}, from disk uncached" in rows, self.lies_on_disk())
        self.assertGreater(rows["library store"], 0)
        self.assertGreater(rows["library load"], 0)
        self.assertEqual([file for file in (self.path / "entries").rglob("*") if file.is_file()], [])

    def test_the_bench_names_its_rows_by_library_hits_and_misses(self):
        def rows(*flags):
            (report,) = self.objects("bench", board("113"), board("115"), "--library", self.path, "--images", 2, "-p", 0,
                                     "-n", 0, "-r", 2, *flags)
            found = {row["test"].split(", ")[1]: len(row["samples"]) for row in report["rows"]
                     if row["test"].startswith("TTFT 2 images")}
            self.assertEqual(set(found.values()), {2}, found)
            return set(found) - {"from disk uncached"}
        # Behind other text a prefix is not found: rows that say "elsewhere" would be of pictures that are computed, and
        # the memory tier would then hold those.
        self.assertEqual(rows("--library-cache", "8M", "--reuse", "prefix"), {"cold", "from disk", "from memory"})
        # A tier that is too small for both pictures has none of them when they are asked for in turn.
        self.assertEqual(rows("--library-cache", "600K"), {"cold", "from disk", "from disk elsewhere"})

    def test_reading_a_missing_library_does_not_create_one(self):
        for command in [["list"], ["show", "0" * 32], ["search", "--text", "fox"], ["search", "--image", board("113")],
                        ["remove", "--tag", "x"], ["pin", "0" * 32], ["quota"], ["verify"], ["gc"]]:
            owner = [] if command[0] in ("verify", "gc") else ["--owner", "ann"]
            for path in [self.path, self.folder]:
                with self.subTest(command=command, path=path):
                    self.assert_refused(["library", command[0], path, *owner, *command[1:]], BAD_INPUT,
                                        f"{path}: there is no library here; 'ocellus library add' makes one")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_library_is_made_of_a_new_or_empty_folder_only(self):
        owner = ["--owner", "me"]
        caption = ["caption", board("113"), *owner, "--library"]
        answer = run(*caption, self.path)
        self.assertEqual((answer.returncode, answer.stderr), (OK, f"ocellus: {self.path} is a new library.\n"))
        self.assertEqual(run(*caption, self.path).stderr, "")
        commands = [caption, ["serve", "--http", "127.0.0.1:0", *owner, "--library"],
                    ["watch", "synthetic", *owner, "--library"], ["library", "add", *owner, board("113")],
                    ["library", "share", *owner], ["library", "quota", *owner], ["library", "list", *owner]]
        other = self.folder / "other"
        other.mkdir()
        (other / "letter.txt").write_text("Dear Ann")
        for command in commands:
            place = command.index("--owner") if command[0] == "library" else len(command)
            for path, sentence in ((board("113"), "a library is a folder, and this is a file"),
                                   (other, "there is no library here, but other files")):
                with self.subTest(command=command, path=path):
                    self.assert_refused([*command[:place], path, *command[place:]], BAD_INPUT, f"{path}: {sentence}")
        self.assertEqual([path.name for path in other.iterdir()], ["letter.txt"])

    def test_retrieving_needs_a_library(self):
        self.assert_refused(["ask", "--prompt", "<retrieve: fox>", *self.flags], BAD_INPUT, "there is no library here")
        self.assertFalse(self.path.exists())

    def test_bad_combinations_of_library_flags_are_refused(self):
        for flags, sentence in [(["--library", self.path], "--library needs an --owner"),
                                (["--owner", "me"], "--owner goes with a --library"),
                                (["--library", self.path, "--owner", "../me"], "an owner has 1 to 64"),
                                ([*self.flags, "--reuse", "none"], "does nothing with --reuse none"),
                                (["--library-cache", "8M"], "--library-cache goes with a --library"),
                                ([*self.flags, "--library-cache", "much"], "write a size"),
                                ([*self.flags, "--library-cache", "4K"], "does not hold one image"),
                                (["--reuse", "mpic"], "write none, full, prefix"),
                                (["--reuse", "mpic:-2"], "write none"), (["--reuse", "mpic:4x"], "write none"),
                                (["--reuse", "prefix:3"], "write none"), (["--reuse", "full:3"], "write none"),
                                (["--reuse", "cacheblend:101"], "cacheblend:PERCENT"),
                                (["--reuse", "prefix", "--kv-bits", "4", "--kv-scheme", "kivi"], r"prefix caching \(--reuse\) reads"),
                                (["--reuse", "full", "--evict", "david", "--keep", 0.5], "with full reuse only"),
                                (["--reuse", "mpic:8", "--evict", "david", "--keep", 0.5, "--compress-at", "image-end"],
                                 "is not read in its prompt")]:
            with self.subTest(flags=flags):
                self.assert_refused(["caption", board("113"), *flags], USAGE, sentence)
        self.assert_refused(["bench", *self.flags], USAGE, "omit --owner")
        self.assert_refused(["library"], USAGE, "library needs one of")
        self.assert_refused(["library", "list", self.path], USAGE, "--owner")
        self.assert_refused(["library", "remove", self.path, "zz", "--owner", "me"], USAGE, "32 hexadecimal")


class Entries(LibraryTest):
    def test_pictures_are_added_shown_and_added_again(self):
        (first,) = self.add(board("113"), "--tag", "kitchen", "--tag", "a b", "--caption", "A plain board")
        self.assertEqual((first["stored"], first["tags"], first["caption"]), (True, ["kitchen", "a b"], "A plain board"))
        self.assertEqual((first["pinned"], first["expires"], first["tokens"]), (False, 0, 64))
        (again,) = self.add(board("113"), "--pin", "--expires", "7d")
        self.assertEqual((again["stored"], again["key"]), (False, first["key"]))
        self.assertEqual((again["pinned"], again["tags"], again["caption"]), (True, ["kitchen", "a b"], "A plain board"))
        self.assertAlmostEqual(again["expires"], time.time() + 7 * 86400, delta=100)
        (forever,) = self.add(board("113"), "--expires", "never", "--tag", "hall")
        self.assertEqual((forever["expires"], forever["tags"], forever["pinned"]), (0, ["hall"], True))
        (shown,) = self.objects("library", "show", self.path, "--owner", "ann", first["key"])
        self.assertEqual((shown["tags"], shown["bits"], shown["embedding"]), (["hall"], 16, True))
        text = self.answer("library", "show", self.path, "--owner", "ann", first["key"])
        for words in ["A plain board", "hall", "512 numbers", "never"]:
            self.assertIn(words, text)
        line = self.answer("library", "add", self.path, "--owner", "ann", board("113"), board("004"))
        self.assertRegex(line, r"113.png: [0-9a-f]{32}, \d+ bytes, 64 tokens, already there\n.*004.png: .*, stored\n\Z")
        hits = self.objects("caption", board("113"), "--library", self.path, "--owner", "ann")
        self.assertEqual(hits[0]["library_hits"], 1)

    def test_the_model_describes_pictures_as_caption_does(self):
        (plain,) = self.objects("caption", board("113"), "--library", self.path, "--owner", "bob")
        (added,) = self.add(board("113"), "--describe")
        self.assertEqual((added["caption"], added["stored"]), (plain["answer"], True))
        (again,) = self.add(board("113"), "--describe", "--tag", "x")
        self.assertEqual((again["caption"], again["stored"], again["tags"]), (plain["answer"], False, ["x"]))

    def test_entries_are_pinned_listed_and_removed_by_tag(self):
        first, second = self.add(board("113"), board("004"), "--tag", "a")
        (third,) = self.add(board("024"), "--tag", "b")
        for command, pinned in [("pin", True), ("unpin", False)]:
            self.answer("library", command, self.path, "--owner", "ann", first["key"])
            self.assertEqual(self.objects("library", "show", self.path, "--owner", "ann", first["key"])[0]["pinned"],
                             pinned)
        listed = self.objects("library", "list", self.path, "--owner", "ann", "--tag", "a")
        self.assertCountEqual([entry["key"] for entry in listed], [first["key"], second["key"]])
        self.answer("library", "remove", self.path, "--owner", "ann", "--tag", "a")
        listed = self.objects("library", "list", self.path, "--owner", "ann")
        self.assertEqual([entry["key"] for entry in listed], [third["key"]])

    def test_the_shared_part_is_its_administrators(self):
        mine = ["library", "add", self.path, "--owner", "ann", "--shared", board("113")]
        self.assert_refused(mine, USAGE, "no shared part")
        self.answer("library", "share", self.path, "--owner", "root")
        self.answer("library", "share", self.path, "--owner", "root")
        self.assert_refused(["library", "share", self.path, "--owner", "ann"], USAGE, "belongs to root")
        self.assert_refused(mine, USAGE, "only root may change the shared part")
        (entry,) = self.add(board("113"), "--shared", "--tag", "all", owner="root")
        self.assertTrue(entry["shared"])
        (seen,) = self.objects("library", "list", self.path, "--owner", "ann", "--shared")
        self.assertEqual(seen["key"], entry["key"])
        for command in ["remove", "pin", "unpin"]:
            self.assert_refused(["library", command, self.path, "--owner", "ann", "--shared", entry["key"]], USAGE,
                                "only root may change")
            self.assert_refused(["library", command, self.path, "--owner", "ann", entry["key"]], BAD_INPUT,
                                "ann has no entry")
        self.assert_refused(["library", "remove", self.path, "--owner", "ann", "--shared", "--tag", "all"], USAGE,
                            "only root may change")
        # One's own is another one.
        (own,) = self.add(board("113"))
        self.assertTrue(own["stored"])
        self.assertNotEqual(own["key"], entry["key"])
        self.answer("library", "remove", self.path, "--owner", "root", "--shared", entry["key"])
        self.assertEqual(len(self.objects("library", "list", self.path, "--owner", "ann")), 1)

    def test_a_quota_is_set_shown_and_held(self):
        (entry,) = self.add(board("113"))
        told = run("library", "quota", self.path, "--owner", "ann", entry["bytes"] - 1)
        self.assertIn("when the next entry is added", told.stderr)
        (use,) = self.objects("library", "quota", self.path, "--owner", "ann", entry["bytes"])
        self.assertEqual((use["entries"], use["bytes"], use["quota_bytes"]), (1, entry["bytes"], entry["bytes"]))
        (other,) = self.add(board("004"))
        (left,) = self.objects("library", "list", self.path, "--owner", "ann")
        self.assertEqual(left["key"], other["key"])
        self.assertIn("quota", self.answer("library", "quota", self.path, "--owner", "ann"))
        self.answer("library", "pin", self.path, "--owner", "ann", other["key"])
        self.assert_refused(["library", "add", self.path, "--owner", "ann", board("113")], OVER_BUDGET,
                            "does not fit the library's quota")
        self.objects("library", "quota", self.path, "--owner", "ann", 0)
        self.add(board("113"))

    def test_words_and_pictures_are_searched(self):
        red, blue = self.add(board("113"), "--caption", "a red fox")[0], self.add(board("004"), "--caption", "a bus")[0]
        search = ["library", "search", self.path, "--owner", "ann"]
        (hit,) = self.objects(*search, "--text", "FOXES \"* OR")
        self.assertEqual((hit["key"], hit["caption"]), (red["key"], "a red fox"))
        self.assertEqual(self.objects(*search, "--text", "zebra"), [])
        done = run(*search, "--text", "zebra")
        self.assertEqual((done.stdout, done.stderr), ("", "ocellus: ann sees no entries here that fit.\n"))
        self.assertEqual(self.objects("library", "search", self.path, "--owner", "bob", "--text", "fox"), [])
        self.assertEqual(self.objects(*search, "fox"), self.objects(*search, "--text", "fox"))
        hits = self.objects(*search, "--image", board("004"))
        self.assertEqual([hit["key"] for hit in hits], [blue["key"], red["key"]])
        self.assertGreater(hits[0]["score"], 0.99999)
        found = [(hit["score"], hit["key"]) for hit in self.objects(*search, "--text", "red bus foxes")]
        self.assertEqual(found, [(2 / 3, red["key"]), (1 / 3, blue["key"])])
        self.assertRegex(self.answer(*search, "--text", "bus"), r"\n +1\.00 ")
        self.assertRegex(self.answer("library", "search", "--help", "all"), r"the\s+fraction\s+of\s+them")
        self.assertEqual(len(self.objects(*search, "--image", board("004"), "-n", 1)), 1)
        self.assertIn("a red fox", self.answer(*search, "--text", "fox"))

    def test_bad_input_is_refused_and_leaves_nothing(self):
        add = ["library", "add", self.path]
        unreadable = self.folder / "text.png"
        unreadable.write_text("no picture")
        for arguments, code, sentence in [
                ([*add, board("113")], USAGE, "--owner"), ([*add, "--owner", "ann"], USAGE, "IMAGE"),
                ([*add, "--owner", "../ann", board("113")], USAGE, "an owner has 1 to 64"),
                ([*add, "--owner", "ann", unreadable], BAD_INPUT, "text.png"),
                ([*add, "--owner", "ann", board("113"), "/nowhere/a.png"], BAD_INPUT, "/nowhere/a.png"),
                ([*add, "--owner", "ann", board("113"), "--expires", "soon"], USAGE, "--expires soon"),
                ([*add, "--owner", "ann", board("113"), "--expires", "0d"], USAGE, "--expires 0d"),
                ([*add, "--owner", "ann", board("113"), "--tag", "x" * 32], USAGE, "a tag has 1 to 31"),
                ([*add, "--owner", "ann", board("113"), *["--tag", "x"] * 9], USAGE, "at most 8 tags"),
                ([*add, "--owner", "ann", board("113"), "--caption", "x" * 1001], USAGE, "a caption is UTF-8"),
                ([*add, "--owner", "ann", board("113"), "--caption", "a\nb"], USAGE, "a caption is UTF-8"),
                ([*add, "--owner", "ann", board("113"), "--caption", "a", "--describe"], USAGE, "describe"),
                ([*add, "--owner", "ann", board("113"), "--reuse", "none"], USAGE, "does nothing with --reuse none"),
                ([*add, "--owner", "ann", board("113"), "--budget", "1M"], OVER_BUDGET, "budget")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, code, sentence)
        self.assertEqual(list((self.path / "entries").glob("*")), [])
        key = "0123456789abcdef" * 2
        for arguments, code, sentence in [
                (["show", key], BAD_INPUT, "ann sees no entry"), (["show", "zz"], USAGE, "32 hexadecimal"),
                (["pin", key], BAD_INPUT, "ann has no entry"), (["unpin", "../x"], USAGE, "32 hexadecimal"),
                (["remove"], USAGE, "either the KEY of an entry or a --tag"), (["remove", key, "--tag", "x"], USAGE, "either the KEY"),
                (["remove", "--tag", "x"], BAD_INPUT, "no entry with the tag x"), (["quota", "lots"], USAGE, "quota lots"),
                (["quota", "-5"], USAGE, "-5"), (["search"], USAGE, "--text WORDS or --image FILE"),
                (["search", "--text", "a", "--image", board("113")], USAGE, "excludes"),
                (["search", "--text", " "], USAGE, "takes 1 to 64 words"),
                (["search", "--text", "w " * 65], USAGE, "takes 1 to 64 words"),
                (["search", "--text", "a", "-n", "0"], USAGE, "-n"),
                (["search", "--image", unreadable], BAD_INPUT, "text.png")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(["library", arguments[0], self.path, "--owner", "ann", *arguments[1:]], code, sentence)
        for command in ["list", "show", "remove", "pin", "share", "quota", "search"]:
            more = {"show": [key], "remove": [key], "pin": [key], "search": ["--text", "a"]}.get(command, [])
            with self.subTest(command=command):
                self.assert_refused(["library", command, self.path, "--owner", "a/b", *more], USAGE, "owner")


class Retrieval(LibraryTest):
    def setUp(self):
        super().setUp()
        self.flags = ["--library", self.path, "--owner", "ann"]
        (self.fox,) = self.add(board("113"), "--caption", "a red fox")
        (self.bus,) = self.add(board("004"), "--caption", "a red bus")

    def ask(self, prompt, *arguments):
        (answer,) = self.objects("ask", *self.flags, "--prompt", prompt, *arguments)
        return answer

    def test_entries_stand_in_prompts_as_their_pictures_would(self):
        plain = self.ask("<image>Caption this image.", board("113"))
        for mark in ["<retrieve: fox>", "<retrieve:fox , 1>", f"<retrieve: {board('113')}>"]:
            with self.subTest(mark=mark):
                found = self.ask(mark + "Caption this image.")
                self.assertEqual(found["answer"], plain["answer"])
                self.assertEqual((found["library_hits"], found["encode_ms"] > 0), (1, "png" in mark))
                self.assertEqual([one["key"] for one in found["retrieved"]], [self.fox["key"]])
        both = self.ask("Here: <retrieve: red bus, 2> and <image>. What differs?", board("024"))
        self.assertEqual([one["key"] for one in both["retrieved"]], [self.bus["key"], self.fox["key"]])
        self.assertEqual(both["image_tokens"], 3 * 64)
        many = self.ask(f"<retrieve: {board('004')}, 900>What is that?")
        self.assertEqual([one["key"] for one in many["retrieved"]][:2], [self.bus["key"], self.fox["key"]])

    def test_retrieved_entries_are_reported(self):
        done = run("ask", *self.flags, "--prompt", "<retrieve: fox>Caption this image.", "-n", 4)
        self.assertRegex(done.stderr, f"takes {self.fox['key']} .score .*: a red fox")
        done = run("ask", *self.flags, "--prompt", "<retrieve: fox>Caption this image.", "-n", 4, "--quiet")
        self.assertEqual(done.stderr, "")

    def test_a_chat_retrieves_in_any_message(self):
        lines = "<retrieve: fox>Caption this image.\n<retrieve: zebra>What?\n<retrieve: bus\n<retrieve: bus>And this?\n"
        done = run("chat", *self.flags, "--json", "-n", 8, stdin=lines)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["retrieved"][0]["key"] for answer in answers], [self.fox["key"], self.bus["key"]])
        self.assertIn("has no entry for <retrieve: zebra>", done.stderr)
        self.assertIn("is not closed", done.stderr)

    def test_impossible_retrievals_are_refused(self):
        for prompt, code, sentence in [
                ("<retrieve: fox", USAGE, "is not closed"), ("a <retrieve: fox <retrieve: b>", USAGE, "is not closed"),
                ("<retrieve: fox, 0>", USAGE, "asks for 0 entries"), ("<retrieve: fox, -1>", USAGE, "asks for -1"),
                ("<retrieve: fox, 99999999999>", USAGE, "from 1 to 1000"), ("<retrieve: , 2>", USAGE, "has no query"),
                ("<retrieve:>", USAGE, "has no query"), ("<retrieve: zebra>", RUNTIME, "has no entry for"),
                ("<retrieve: /nowhere/a.png>", BAD_INPUT, "/nowhere/a.png")]:
            with self.subTest(prompt=prompt):
                self.assert_refused(["ask", *self.flags, "--prompt", prompt], code, sentence)
        self.assert_refused(["ask", "--prompt", "<retrieve: fox>"], USAGE, "add --library and --owner")
        bob = ["--library", self.path, "--owner", "bob", "--quiet"]
        self.assert_refused(["ask", *bob, "--prompt", "<retrieve: fox>"], RUNTIME, "has no entry for")
        self.assert_refused(["ask", *bob, "--prompt", f"<retrieve: {board('113')}>"], RUNTIME, "has no entry for")
        quiet = [*self.flags, "--quiet", "--prompt", "<retrieve: fox>"]
        self.assert_refused(["ask", *quiet, "--kv-bits", 4], USAGE, "16 bits, the session of 4")
        self.assert_refused(["ask", *quiet, "--reuse", "mpic:20"], USAGE, "16 rows computed in place, and the session computes 20")


if __name__ == "__main__":
    unittest.main()
