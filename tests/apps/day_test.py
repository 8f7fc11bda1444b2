"""A day of frames in an image library: what is kept, what is found, what is forgotten, and bad input."""

import datetime
import shutil
import unittest

from program import (BAD_INPUT, OK, USAGE, FolderTest, board, run)
from watch_test import Watching, lines_of

PICTURES = ("151", "028", "024", "004", "151")  # of the boards; the first comes back


class DayTest(FolderTest):
    """A watch of a few boards, whose library the tests ask."""

    def setUp(self):
        super().setUp()
        self.library = self.folder / "library"
        self.source = self.folder / "pictures"
        self.source.mkdir()
        for i, name in enumerate(PICTURES):
            shutil.copy(board(name), self.source / f"{i}.png")

    def watch(self, *flags, limit_s=120):
        done = run("watch", self.source, "--fps", 50, "--memory", "library", "--library", self.library, "--json", *flags,
                   limit_s=limit_s)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def ask(self, prompt, *flags):
        return self.objects("ask", "--library", self.library, "--since", "1d", "--prompt", prompt, *flags)[0]

    def entries(self):
        return self.objects("library", "list", self.library, "--owner", "camera")

    def test_frames_are_entries_with_their_times_and_captions(self):
        out = self.watch()
        captions = lines_of(out, "caption")
        entries = self.entries()
        self.assertEqual(len(entries), len(set(PICTURES)))
        times = {int(tag[3:]): entry for entry in entries for tag in entry["tags"]}
        self.assertEqual(sorted(times), [caption["at_ms"] for caption in captions])
        for caption in captions:
            self.assertEqual(times[caption["at_ms"]]["caption"], caption["text"])
        for entry in entries:
            preview = (self.library / "previews" / f"{entry['key']}.jpg").read_bytes()
            self.assertEqual(preview[:2], b"\xff\xd8")
        self.assertEqual(lines_of(out, "end")[0]["day"]["frames"], len(PICTURES))

    def test_questions_are_answered_after_a_restart(self):
        captions = lines_of(self.watch("--kv-bits", 2), "caption")
        changed = self.ask("What changed?")
        self.assertEqual(changed["answer"], f"Nothing in the captions since {self.clock(captions[0])}.")
        thing = captions[1]["text"].split(",")[0].split(" and ")[0].lower().removeprefix("a ")
        thing = " ".join(thing.split()[1:3])  # its colour and shape
        is_there = [f" {thing} " in caption["text"] for caption in captions]
        came = [c["at_ms"] for i, c in enumerate(captions) if i > 0 and is_there[i] and not is_there[i - 1]]
        self.assertEqual(self.ask(f"When did the {thing} appear?")["moments_ms"], came)
        counted = self.ask(f"How many times did a {thing} appear today?")
        self.assertEqual(counted["count"], len(came))
        self.assertGreater(counted["checks"], 0)
        # The frame before the time shows what was there when it began.
        second = datetime.datetime.fromtimestamp(captions[-1]["at_ms"] // 1000 + 1).strftime("%Y-%m-%d %H:%M:%S")
        whole = self.objects("ask", "--library", self.library, "--prompt", "What changed?")[0]
        self.assertEqual((whole["answer"], whole["frames"]), (changed["answer"], changed["frames"]))
        later = self.objects("ask", "--library", self.library, "--since", second, "--until", "2100-01-01", "--prompt",
                             "Show me frames with a shape.")[0]
        self.assertEqual(later["answer"][:3], "No:")
        several = self.ask(f"How many times did a {thing} appear today?", "--sessions", 3)
        self.assertEqual([several[key] for key in ("count", "checks", "answer")],
                         [counted[key] for key in ("count", "checks", "answer")])
        free = self.ask("How many shapes are there?", "--images", 3)
        self.assertEqual([frame["label"] for frame in free["frames"]], [1, 2, 3])
        self.assertEqual([frame["at_ms"] for frame in free["frames"]],
                         sorted(frame["at_ms"] for frame in free["frames"]))

    @staticmethod
    def clock(caption):
        return datetime.datetime.fromtimestamp(caption["at_ms"] // 1000).strftime("%H:%M:%S")

    def test_frames_that_hardly_differ_are_not_kept(self):
        # The scene changes its caption after two seconds at the earliest.
        end = self.objects("watch", "synthetic", "--fps", 30, "--frames", 4, "--change", 0, "--memory", "library",
                           "--library", self.library, "--remember-change", 1)[-1]
        self.assertEqual((end["day"]["frames"], end["frames"]["answered"]), (1, 4))
        self.assertEqual(lines_of(self.watch("--remember-change", 1), "end")[0]["day"]["frames"], 1 + len(PICTURES))

    def test_a_full_library_drops_redundant_or_the_oldest_frames(self):
        bytes_of_one = max(entry["bytes"] for entry in self.entries_of_a_watch())
        quota = int(bytes_of_one * 2.5) + 700_000  # the catalogue with its journal
        for drops in ("oldest", "redundant"):
            self.library = self.folder / drops
            out = self.watch("--library-drops", drops, "--library-size", quota)
            state = lines_of(out, "end")[0]["day"]
            self.assertLessEqual(state["bytes"], quota)
            # All that lies in the folder counts; the catalogue's journal is gone at the end.
            files = [path.stat().st_size for path in self.library.rglob("*") if path.is_file()]
            self.assertGreaterEqual(state["bytes"], sum(files))
            captions = lines_of(out, "caption")
            self.assertEqual(state["newest_ms"], captions[-1]["at_ms"])
            self.assertEqual(state["oldest_ms"] == captions[0]["at_ms"], drops == "redundant")

    def entries_of_a_watch(self):
        self.watch()
        return self.entries()

    def test_frames_are_forgotten_on_request(self):
        done = run("watch", "synthetic", "--fps", 5, "--frames", 3, "--change", 0, "--memory", "library", "--library",
                   self.library, "--json", stdin="/forget everything\n/forget the ring\n")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, r"\d frames? forgotten\.")
        self.assertRegex(done.stderr, "name the time to forget")

    def test_a_library_that_is_lost_stops_no_frame_and_is_told_once(self):
        aside = self.folder / "aside"
        with Watching("synthetic", "--fps", 20, "--change", 0, "--remember-change", 0, "--memory", "library", "--library",
                      self.library, "--json") as watching:
            watching.wait_for(lambda: len(watching.out) > 2)
            (self.library / "entries").rename(aside)
            errors = lambda: [line for line in watching.out if '"level":"error"' in line]
            watching.wait_for(errors)
            before = len(watching.out)
            watching.wait_for(lambda: len(watching.out) > before + 5)
            self.assertEqual(len(errors()), 1, errors())
            self.assertIn("watching goes on", errors()[0])
            aside.rename(self.library / "entries")
            watching.wait_for(lambda: [line for line in watching.out if "kept in the library again" in line])
            watching.type("/quit")
            self.assertEqual(watching.finish(), OK)

    def test_frames_older_than_the_age_go(self):
        day = ("--scene", "day", "--speed", 0, "--fps", 0.002, "--frames", 12, "--library-age", "1h")
        end = self.objects("watch", "synthetic", *day, "--memory", "library", "--library", self.library)[-1]["day"]
        self.assertGreater(end["frames"], 1)
        self.assertLess(end["frames"], 12)
        self.assertLessEqual(end["newest_ms"] - end["oldest_ms"], 3_600_000)

    def test_a_quota_below_one_frame_is_told_once(self):
        out = self.watch("--library-size", 1000)
        notes = [note["text"] for note in lines_of(out, "note") if note["level"] == "error"]
        self.assertEqual(len(notes), 1)
        self.assertRegex(notes[0], "a frame and the library's catalogue take more than the 1,?000 bytes of --library-size")
        self.assertEqual(self.entries(), [])

    def test_bad_input_is_refused_in_one_sentence(self):
        self.watch("--frames", 1)
        library = ("--library", self.library)
        for arguments, code, sentence in (
                (("watch", "synthetic", "--memory", "library"), USAGE, "add --library DIR"),
                (("watch", "synthetic", "--library-size", "1M"), USAGE, "--library-size goes with --memory library"),
                (("watch", "synthetic", "--memory", "library", *library, "--library-size", "x"), USAGE, "as in 256M"),
                (("watch", "synthetic", "--memory", "library", *library, "--library-age", "x"), USAGE, "as in 90s"),
                (("watch", "synthetic", "--memory", "library", *library, "--reuse", "prefix"), USAGE, "at any place"),
                (("ask", "--since", "1h", "--prompt", "What changed?"), USAGE, "add --library DIR"),
                (("ask", *library, "--prompt", "x", board("098")), USAGE, "needs an --owner"),
                (("ask", *library, "--since", "1h", "--prompt", "x", board("151")), USAGE, "leave out pictures"),
                (("ask", *library, "--since", "1h", "--prompt", "x", "--schema", "count"), USAGE, "answers in words"),
                (("ask", *library, "--since", "breakfast", "--prompt", "x"), USAGE, "--since breakfast: write a time"),
                (("ask", *library, "--since", "1h", "--until", "x", "--prompt", "x"), USAGE, "--until x: write a time"),
                (("ask", *library, "--owner", "nobody", "--since", "1h", "--prompt", "x"), USAGE, "no frames there"),
                (("ask", "--library", self.folder / "none", "--since", "1h", "--prompt", "x"), BAD_INPUT, "no library"),
                (("ask", *library, "--since", "1d", "--prompt", "What changed between 2:00 and 2:01 yesterday?"), USAGE,
                 "nothing is in memory between")):
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, code, sentence)


if __name__ == "__main__":
    unittest.main()
