"""The camera app from outside: sources, faults, questions while it runs, settings, history, bad input."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from pictures import few_colors, flat_jpeg, make_bmp, make_gif, read_png
from program import (BAD_INPUT, GREEN_STAR, HAS_HTTP, OK, OVER_BUDGET, PROGRAM, SOURCE, USAGE, ProgramTest, board,
                     memory_kb, needs_http, run, without_progress)

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "apps" / "samples"


def lines_of(text, kind):
    found = [json.loads(line) for line in text.splitlines()]
    return [line for line in found if line["kind"] == kind]


class Watching:
    """The program at work; what it prints is collected, and it is ended at the latest with the test."""

    def __init__(self, *arguments, program=PROGRAM, stdin=subprocess.PIPE):
        self.process = subprocess.Popen([program, "watch", *map(str, arguments)], stdin=stdin, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.out, self.err = [], []
        self.readers = [threading.Thread(target=self.read, args=pair)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in filter(without_progress, stream):
            lines.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.finish()

    def finish(self, limit_s=60):
        """The exit code, once it has ended."""
        code = self.process.wait(limit_s)
        for reader in self.readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()
        return code

    def type(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait_for(self, found, limit_s=60):
        """Waits until found() gives something, and returns it."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            result = found()
            if result:
                return result
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"did not come about; out: {''.join(self.out)[-800:]} err: {''.join(self.err)[-800:]}")

    def of_kind(self, kind, **wanted):
        """The objects of this kind so far whose fields are as wanted."""
        objects = [json.loads(line) for line in list(self.out)]
        return [one for one in objects
                if one["kind"] == kind and all(one.get(name) == value for name, value in wanted.items())]

    def url(self):
        return self.wait_for(lambda: next(iter(re.findall(r"ocellus: (http://\S+)", "".join(self.err))), None))

    def get(self, path, **headers):
        return self.ask(urllib.request.Request(self.url() + path, headers=headers))

    def post(self, path, data, **headers):
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        headers = {"Content-Type": "application/json", **headers}
        return self.ask(urllib.request.Request(self.url() + path, data=body, headers=headers))

    @staticmethod
    def ask(request):
        """(status, body); the body as JSON where it is."""
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                status, body, kind = response.status, response.read(), response.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            status, body, kind = error.code, error.read(), error.headers["Content-Type"]
        return status, json.loads(body) if kind == "application/json" else body


class Sources(ProgramTest):
    def test_each_picture_of_a_directory_is_described_as_caption_does(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("113", "063"):
                shutil.copy(board(name), folder)
            out = self.answer("watch", folder, "--fps", 2, "--json")
        texts = [one["text"] for one in lines_of(out, "caption")]
        self.assertEqual(texts[-1], GREEN_STAR)
        self.assertEqual(texts[0], self.answer("caption", board("063")).strip())

    def test_raw_frames_on_a_pipe_are_described(self):
        rgb = subprocess.run(["ffmpeg", "-v", "error", "-i", board("113"), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                             capture_output=True, check=True).stdout if shutil.which("ffmpeg") else None
        if rgb is None:
            rgb = bytes(3 * 256 * 256)
        done = subprocess.run([PROGRAM, "watch", "-", "--format", "rgb24", "--size", "256x256", "--json"], input=rgb,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)
        (one,) = lines_of(done.stdout.decode(), "caption")
        if any(rgb):
            self.assertEqual(one["text"], GREEN_STAR)
        self.assertEqual(one["stop"], "end")

    def test_mjpeg_on_a_pipe_is_described(self):
        stream = b"".join((SAMPLES / f"board_{n}.jpg").read_bytes() for n in ("01", "04"))
        done = subprocess.run([PROGRAM, "watch", "-", "--json"], input=stream, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, OK, done.stderr)
        captions = json.loads((SAMPLES / "captions.json").read_text())
        self.assertEqual(lines_of(done.stdout.decode(), "caption")[-1]["text"], captions["board_04.jpg"])

    def test_impossible_sources_are_refused(self):
        for arguments, code, sentence in [
                (["/no/such/camera"], BAD_INPUT, "/no/such/camera"), (["/dev/null"], BAD_INPUT, "/dev/null"),
                (["0"], BAD_INPUT, "named by its device, as /dev/video0"),
                (["synthetic", "--faults", "fire@3"], USAGE, "fire"), (["synthetic", "--size", "1x"], USAGE, "--size"),
                (["-", "--format", "nv12"], USAGE, "width and a height"), ([], USAGE, "SOURCE"),
                (["-", "--format", "nv12", "--size", "8x8", "--stride", "7"], USAGE, "rows of 7 bytes"),
                (["synthetic", "--stride", "gstreamer"], USAGE, "--stride is of raw frames"),
                (["synthetic", "--depth-range", "300..5000"], USAGE, "--depth-range is of frames of 16 bits"),
                (["synthetic", "--color", "bt2020"], USAGE, "--color"),
                (["synthetic", "--frames", "-1"], USAGE, "--frames"), (["synthetic", "--change", "2"], USAGE, "--change"),
                (["synthetic", "--token", "x"], USAGE, "--token needs --http"),
                (["synthetic", "--http", "nowhere:x"], USAGE, "ADDRESS:PORT" if HAS_HTTP else "no HTTP server"),
                (["synthetic", "--http", "0.0.0.0:0"], USAGE, "token" if HAS_HTTP else "no HTTP server"),
                (["browser"], USAGE, "--http 127.0.0.1:8080"),
                (["synthetic", "--history", "/proc/nothing"], USAGE, "--history"),
                (["synthetic", "--budget", "1M"], OVER_BUDGET, "needs"),
                (["synthetic", "--memory", "rolling", "--reuse", "prefix"], USAGE, r"prefix caching \(--reuse\) finds"),
                (["synthetic", "--memory", "rolling", "--evict", "h2o", "--keep", "0.5"], USAGE,
                 r"h2o \(--evict\) .* \(--compress-at\).*; --memory rolling compresses frame by frame"),
                (["synthetic", "--compress-at", "image-end", "--evict", "random", "--keep", "0.5", "--reuse", "carry:8"],
                 USAGE, r"a linked image .* \(--reuse\), .* \(--evict, --compress-at\): evict at the prompt's end"),
                (["synthetic", "--memory", "rolling", "--evict", "h2o", "--keep", "0.5", "--compress-at", "prompt-end"],
                 USAGE, "plan another eviction method"),
                (["synthetic", "--prompt", ""], USAGE, "empty")]:
            with self.subTest(arguments=arguments):
                self.assert_refused(["watch", *arguments], code, sentence)

    def test_a_source_that_gives_no_frame_is_a_bad_input_file(self):
        """A pipe cannot be looked at before it is watched, and what fills it may have failed."""
        for stream, note in [(b"", "There are no bytes"), (bytes(4096), "neither motion JPEG nor Y4M"),
                             (b"YUV4MPEG2 W4 H4 F25:1\nFRAME\n", "cut short")]:
            with self.subTest(note=note):
                done = subprocess.run([PROGRAM, "watch", "-"], input=stream, capture_output=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (BAD_INPUT, b""))
                self.assertRegex(done.stderr.decode(), f"{note}(.|\n)*\nocellus: standard input: it has ended without a frame.\n")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a.png").write_bytes(b"nothing")
            done = run("watch", folder)
            self.assertEqual((done.returncode, done.stdout), (BAD_INPUT, ""), done.stderr)

    def test_a_name_that_cannot_be_followed_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink("loop", os.path.join(folder, "loop"))
            self.assert_refused(["watch", os.path.join(folder, "loop")], BAD_INPUT, "the source cannot be opened: Too many")
        self.assert_refused(["watch", "a" * 5000], BAD_INPUT, "the source cannot be opened: File name too long")

    def test_sources_that_need_ffmpeg_are_refused_with_the_command_to_use(self):
        line = "`ffmpeg -loglevel error {}-i '{}' -vf scale=out_color_matrix=bt601 -pix_fmt yuv420p -f yuv4mpegpipe - . ocellus watch -` does that"
        for source, flags in [("rtsp://camera:554/a?b&c", "-rtsp_transport tcp "), ("http://127.0.0.1:9/a.mjpeg", ""),
                              ("https://host/x", ""), ("udp://239.0.0.1:1234", "")]:
            with self.subTest(source=source):
                self.assert_refused(["watch", source], USAGE, line.format(flags, re.escape(source)))
        with tempfile.TemporaryDirectory() as folder:
            for start in [b"\0\0\0\x20ftypisom", b"\x1aE\xdf\xa3" + bytes(8), b"RIFF\x10\0\0\0AVI "]:
                path = pathlib.Path(folder) / "a video.mp4"
                path.write_bytes(start + bytes(999))
                with self.subTest(start=start):
                    self.assert_refused(["watch", path], USAGE, line.format("-re ", re.escape(str(path))))

    @unittest.skipUnless(shutil.which("ffmpeg"), "needs ffmpeg")
    def test_the_suggested_ffmpeg_command_describes_a_video(self):
        with tempfile.TemporaryDirectory() as folder:
            video = os.path.join(folder, "a video.mp4")
            subprocess.run(["ffmpeg", "-loglevel", "error", "-loop", "1", "-i", board("113"), "-t", "1", "-pix_fmt",
                            "yuv420p", video], check=True, timeout=60)
            advice = run("watch", video).stderr.split("`")[1]
            done = subprocess.run(advice.replace("ocellus", PROGRAM), shell=True, capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.stdout.splitlines()[0], GREEN_STAR, done.stderr)


class Faults(ProgramTest):
    def test_every_fault_is_shown_and_survived(self):
        with Watching("synthetic", "--json", "--fps", 60, "--stall-after", 0.3, "--faults",
                      "stall@20:1s,broken@30:2,truncated@40,damaged@50,resize@60:320x240,unplug@80:0.5s,errors@100:2,"
                      "skip@120:5,loop") as watching:
            watching.wait_for(lambda: len(watching.of_kind("caption")) >= 25 and
                              len([1 for one in watching.of_kind("note") if "unplugged" in one["text"]]) >= 2)
            watching.process.send_signal(signal.SIGTERM)
            self.assertEqual(watching.finish(), OK)
            (end,) = watching.of_kind("end")
        frames = end["frames"]
        for count in ("stalls", "losses", "broken", "skipped", "size_changes", "dropped", "answered"):
            self.assertGreater(frames[count], 0, count)
        notes = " ".join(one["text"] for one in watching.of_kind("note"))
        for word in ("No frame has come", "broken", "size has changed", "unplugged", "is back", "input/output error"):
            self.assertIn(word, notes)
        after = [one for one in watching.of_kind("caption") if not one["error"]]
        self.assertGreater(len(after), 15)

    def test_a_damaged_picture_is_reported_and_the_next_one_described(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "1.png").write_bytes(pathlib.Path(board("113")).read_bytes()[:5000])
            shutil.copy(board("113"), pathlib.Path(folder, "2.png"))
            out = self.answer("watch", folder, "--fps", 2, "--json")
        self.assertEqual(lines_of(out, "caption")[-1]["text"], GREEN_STAR)
        self.assertTrue([1 for one in lines_of(out, "note")] or [1 for one in lines_of(out, "caption") if one["error"]])

    def test_a_deadline_ends_an_answer_and_is_reported(self):
        out = self.answer("watch", "synthetic", "--json", "--frames", 3, "--deadline", 1)
        for one in lines_of(out, "caption"):
            self.assertTrue(one["deadline_missed"])
            self.assertEqual(one["stop"], "deadline")

    def test_a_frame_larger_than_planned_recreates_the_engine_or_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(board("113"), folder)
            out = self.answer("watch", folder, "--json", "--image-pixels", "100x100", "--fps", 5)
            self.assertEqual(lines_of(out, "caption")[0]["text"], GREEN_STAR)

    def test_photos_decoded_as_a_whole_and_long_sides_recreate_the_engine(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, photo in (("1.jpg", flat_jpeg(4000, 3000, frame=0xC2)), ("2.jpg", flat_jpeg(9001, 100))):
                (pathlib.Path(folder) / name).write_bytes(photo)
            out = self.answer("watch", folder, "--json", "--fps", 5, "-n", 4)
            self.assertEqual(len(lines_of(out, "caption")), 2)
            out = self.answer("watch", folder, "--json", "--fps", 5, "-n", 4, "--budget", "70MB")
            whole, long = lines_of(out, "caption")
            self.assertRegex(whole["error"], "the plan needs .* more than the budget .*--whole-pixels")
            self.assertEqual((long["error"], bool(long["text"])), ("", True))

    def test_an_animated_gif_is_described_frame_by_frame(self):
        with tempfile.TemporaryDirectory() as folder:
            boards = [read_png(pathlib.Path(board(number))) for number in ("113", "115")]
            (width, height, _), frames = boards[0], [few_colors(pixels) for *_, pixels in boards]
            path = pathlib.Path(folder) / "x.gif"
            path.write_bytes(make_gif(width, height, frames, hundredths=300))
            out = self.answer("watch", path, "--json", "--fps", 1)
            stills = []
            for i, pixels in enumerate(frames):
                still = pathlib.Path(folder) / f"{i}.bmp"
                still.write_bytes(make_bmp(width, height, pixels))
                stills.append(self.answer("caption", still).strip())
            self.assertEqual([caption["text"] for caption in lines_of(out, "caption")], stills)

    def test_a_camera_s_stream_begins_with_its_http_head_and_ends_no_frame(self):
        whole = (SOURCE / "apps/samples/board_01.jpg").read_bytes()
        part = b"--b\r\nContent-Type: image/jpeg\r\nContent-Length: 1234\r\n\r\n" + whole[:-2] + b"\r\n"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace;boundary=b\r\n\r\n"
        for stream in (head + part * 2, b"\r\n\r\n" + part * 2, whole[900:] + part * 2):
            done = subprocess.run([PROGRAM, "watch", "-", "--json", "--every", "0"], input=stream, capture_output=True,
                                  timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            captions = lines_of(done.stdout.decode(), "caption")
            self.assertGreaterEqual(len(captions), 1)
            self.assertEqual(captions[0]["text"], self.answer("caption", SOURCE / "apps/samples/board_01.jpg").strip())

    @unittest.skipUnless(os.environ.get("OCELLUS_COUNTED"), "a build that counts the library's allocations is not there")
    def test_the_library_allocates_nothing_while_frames_and_faults_come(self):
        with Watching("synthetic", "--json", "--fps", 60, "--faults", "unplug@50:0.5s,resize@90:320x240,damaged@60,loop",
                      program=os.environ["OCELLUS_COUNTED"]) as watching:
            watching.wait_for(lambda: len(watching.of_kind("caption")) >= 10)
            watching.type("What changed?")
            watching.type("Which images show a red circle?")
            watching.wait_for(lambda: len(watching.of_kind("answer")) == 2 and len(watching.of_kind("caption")) >= 40)
            watching.type("/quit")
            self.assertEqual(watching.finish(), OK)
        counted = json.loads(watching.err[-1])
        self.assertGreater(counted["library_calls"], 150)
        self.assertEqual(counted["library_allocations"], 0)

    @unittest.skipUnless(os.environ.get("OCELLUS_COUNTED"), "a build that counts the library's allocations is not there")
    def test_the_allocation_count_includes_the_image_library(self):
        with tempfile.TemporaryDirectory() as folder:
            with Watching("synthetic", "--frames", 3, "--library", folder, "--owner", "me",
                          program=os.environ["OCELLUS_COUNTED"]) as watching:
                self.assertEqual(watching.finish(), OK)
        self.assertGreater(json.loads(watching.err[-1])["library_allocations"], 0)


class Questions(ProgramTest):
    def test_typed_questions_are_answered_about_the_frames_in_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            # Three boards, then none: the memory holds just these.
            names = ["063", "113", "115"]
            for number, name in enumerate(names):
                shutil.copy(board(name), pathlib.Path(folder, f"{number}.png"))
            with Watching(folder, "--json", "--fps", 4, "--loop", "--memory-frames", 3, "--change", 0) as watching:
                watching.wait_for(lambda: len(watching.of_kind("caption")) >= 3)
                watching.type("/pause")
                time.sleep(1)
                watching.type("Which images show a green star?")
                watching.type("When did the green star appear?")
                watching.type("What changed?")
                first, when, changed = watching.wait_for(
                    lambda: watching.of_kind("answer") if len(watching.of_kind("answer")) == 3 else None)
                order = [one["text"] for one in watching.of_kind("caption")][-3:]
                watching.type("/quit")
                self.assertEqual(watching.finish(), OK)
        place = order.index(GREEN_STAR) + 1
        self.assertEqual(first["text"], f"Image {place}.")
        self.assertEqual([frame["label"] for frame in first["frames"] if frame["named"]], [place])
        if place > 1:
            self.assertRegex(when["text"], rf"^In image {place}, at \d\d:\d\d:\d\d \(\d+ s ago\)\.$")
        else:
            self.assertEqual(when["text"], "It is there already in the oldest frame in memory.")
        self.assertIn("New: ", changed["text"])

    def test_a_rolling_memory_answers_without_reading_frames_again(self):
        # Evicted with the prompt's end, and not with the image's, as that is what linked frames allow.
        with Watching("synthetic", "--json", "--memory", "rolling", "--memory-frames", 4, "--kv-bits", 2, "--evict",
                      "value-window", "--keep", 0.5, "--reuse", "spread:16", "--compress-at", "prompt-end") as watching:
            watching.wait_for(lambda: len(watching.of_kind("caption")) >= 9)
            watching.type("Which images show a red circle?")
            (answer,) = watching.wait_for(lambda: watching.of_kind("answer"))
            watching.type("/quit")
            self.assertEqual(watching.finish(), OK)
        self.assertEqual(answer["error"], "")
        self.assertEqual(sorted(frame["label"] for frame in answer["frames"]), [1, 2, 3, 4])
        self.assertTrue(answer["text"])

    def test_the_prompt_can_be_changed_and_nonsense_is_told(self):
        with Watching("synthetic", "--json", "--every", 0.1) as watching:
            watching.wait_for(lambda: watching.of_kind("caption"))
            watching.type("/prompt What color is the background?")
            after = watching.wait_for(lambda: watching.of_kind("caption", prompt="What color is the background?"))
            watching.type("/fly")
            watching.wait_for(lambda: "unknown command /fly" in "".join(watching.err))
            watching.type("/every soon")
            watching.wait_for(lambda: "/every_s needs a number" in "".join(watching.err))
            watching.type("/every -3")
            watching.wait_for(lambda: "every_s must be a number from 0 to 3600" in "".join(watching.err))
            watching.process.send_signal(signal.SIGINT)
            self.assertEqual(watching.finish(), OK)
        self.assertIn(after[0]["text"], ("Gray.", "Cream.", "Navy.", "Teal.", "Maroon."))


class History(ProgramTest):
    def test_captions_and_pictures_are_kept_within_the_quota(self):
        with tempfile.TemporaryDirectory() as folder:
            self.answer("watch", "synthetic", "--frames", 5, "--history", folder, "--history-size", "1M")
            lines = [json.loads(line) for line in pathlib.Path(folder, "captions.jsonl").read_text().splitlines()]
            self.assertEqual([line["id"] for line in lines], [1, 2, 3, 4, 5])
            for line in lines:
                self.assertEqual(pathlib.Path(folder, line["thumbnail"]).read_bytes()[:2], b"\xff\xd8")

    def test_a_folder_of_photos_is_no_history_and_loses_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            photos = {f"{number:03}.jpg": bytes([number]) * 400_000 for number in range(5)}
            for name, data in {**photos, ".unfinished": b"a note"}.items():
                pathlib.Path(folder, name).write_bytes(data)
            self.assert_refused(["watch", "synthetic", "--frames", 3, "--history", folder, "--history-size", "1M"], USAGE,
                                "it holds .* name a new or empty folder")
            kept = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
            self.assertEqual(kept, {**photos, ".unfinished": b"a note"})

    @unittest.skipUnless(os.geteuid() == 0, "mounts a small file system")
    def test_a_full_disk_is_told_once_and_watching_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=False,
                              capture_output=True).returncode:
                self.skipTest("no file system can be mounted here")
            try:
                done = run("watch", "synthetic", "--frames", 40, "--history", folder, "--change", 0)
            finally:
                subprocess.run(["umount", folder], check=True)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 40)
        self.assertEqual(done.stderr.count("No space left on device"), 1)


@needs_http
class Endpoints(ProgramTest):
    def test_state_pictures_history_questions_and_settings_are_served(self):
        with Watching("synthetic", "--json", "--http", "127.0.0.1:0") as watching:
            watching.wait_for(lambda: len(watching.of_kind("caption")) >= 3)
            status, state = watching.get("/api/state")
            self.assertEqual((status, state["source"]["state"], state["settings"]["paused"]), (200, "running", False))
            self.assertEqual(state["memory"]["total_bytes"], sum(state["memory"][f"{part}_bytes"] for part in (
                "weights", "session", "scratch", "staging")))
            self.assertEqual(watching.get("/frame.jpg")[1][:2], b"\xff\xd8")
            records = watching.get("/api/history?count=2")[1]["records"]
            self.assertEqual(records[0]["id"], records[1]["id"] + 1)
            self.assertEqual(watching.get(records[0]["thumbnail"])[1][:2], b"\xff\xd8")
            self.assertEqual(watching.get("/history/999999.jpg")[0], 404)
            self.assertEqual(watching.post("/api/question", {"text": "Which images show a red circle?"})[0], 202)
            watching.wait_for(lambda: watching.get("/api/answers")[1]["answers"])
            status, state = watching.post("/api/settings", {"kv_bits": 2, "frames": 4, "keep": 0.5, "prompt": "What do you see?"})
            self.assertEqual((status, state["settings"]["kv_bits"]), (200, 2))
            watching.wait_for(lambda: watching.get("/api/state")[1]["memory"]["images_most"] == 4)
            watching.wait_for(lambda: 0 < watching.get("/api/state")[1]["memory"]["kv_bits"] < 5)
            metrics = watching.get("/metrics")[1].decode()
            self.assertRegex(metrics, r'ocellus_frames_total\{state="answered"\} [1-9]')
            self.assertEqual(watching.get("/healthz"), (200, b"ok\n"))

    def test_pages_of_others_see_nothing_take_no_place_and_change_nothing(self):
        with Watching("synthetic", "--http", "127.0.0.1:0", "--every", 1) as watching:
            watching.url()
            for headers in [{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, {"Sec-Fetch-Site": "same-site"},
                            {"Origin": "https://example.com"}, {"Origin": "null"}, {"Host": "example.com"}]:
                for path in ["/api/events", "/frame.jpg", "/api/state", "/api/history", "/metrics", "/watch.js"]:
                    self.assertEqual(watching.get(path, **headers)[0], 403, (path, headers))
                self.assertEqual(watching.post("/api/settings", {"every_s": 2}, **headers)[0], 403)
            followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
            self.assertEqual(watching.get("/", **followed)[0], 200)
            self.assertEqual(watching.get("/api/state", **followed)[0], 403)
            self.assertEqual(watching.get("/api/state", **{"Sec-Fetch-Site": "same-origin"})[1]["settings"]["every_s"], 1)
            with urllib.request.urlopen(watching.url() + "/", timeout=30) as page:
                self.assertEqual(page.headers["Cross-Origin-Resource-Policy"], "same-origin")

    def test_settings_that_nest_deeply_or_are_large_take_no_memory(self):
        with Watching("synthetic", "--http", "127.0.0.1:0", "--every", 1) as watching:
            watching.wait_for(lambda: watching.get("/frame.jpg")[0] == 200)
            before = memory_kb(watching.process, "VmHWM")
            for body in [b"[" * 900_000, b'{"a":' * 12_000, b"[" * 65_000, b'{"a":[' + b"[]," * 21_000 + b"0]}"] * 5:
                self.assertIn(watching.post("/api/settings", body)[0], (400, 413))
            self.assertLess(memory_kb(watching.process, "VmHWM") - before, 8192)

    def test_settings_and_questions_of_the_wrong_shape_are_refused(self):
        with Watching("synthetic", "--http", "127.0.0.1:0", "--budget", "80M", "--every", 1) as watching:
            for path, data, status, sentence in [
                    ("/api/settings", {"kv_bits": 3}, 400, "16, 8, 4, 2 or 1"), ("/api/settings", [1], 400, "object"),
                    ("/api/settings", b"{", 400, "not valid JSON"), ("/api/settings", {"prompt": ""}, 400, "empty"),
                    ("/api/settings", {"prompt": 3}, 400, "string"), ("/api/settings", {"volume": 3}, 400, "no setting"),
                    ("/api/settings", {"every_s": "now"}, 400, "number"), ("/api/settings", {"frames": 2.5}, 400, "whole"),
                    ("/api/settings", {"frames": 64}, 409, "needs"), ("/api/settings", {"paused": 1}, 400, "true or false"),
                    ("/api/settings", {"prompt": "a " * 900}, 400, "tokens"),
                    ("/api/question", {"text": "x" * 5000}, 400, "bytes"), ("/api/question", {}, 400, "text"),
                    ("/api/question", {"text": " "}, 400, "empty")]:
                with self.subTest(data=data):
                    got, body = watching.post(path, data)
                    self.assertEqual(got, status, body)
                    self.assertIn(sentence, body["error"]["message"])
            self.assertEqual(watching.post("/api/question", {"text": "Hello?"}, **{"Content-Type": "text/plain"})[0], 400)
            self.assertEqual(watching.get("/api/state")[1]["settings"]["kv_bits"], 16)

    def test_http_stays_below_the_bound_that_was_told_before_the_page(self):
        with Watching("browser", "--http", "127.0.0.1:0") as watching:
            watching.url()
            told = re.search(r"(?m)^HTTP, outside the plan: at most (\d+) bytes \(\d+\.\d MiB\)$", "".join(watching.err))
            before = memory_kb(watching.process, "VmRSS")
            bodies = [("/api/frame?sender=a", b"x" * (4 << 20), "image/jpeg"), ("/api/frame?sender=a", b"x" * (5 << 20), "image/jpeg"),
                      ("/api/settings", b"[" * 65536, "application/json"),
                      ("/api/question", b'{"a":[' + b"1," * 32000 + b"1]}", "application/json")]

            def send(body):
                try:
                    return watching.post(body[0], body[1], **{"Content-Type": body[2]})[0]
                except (urllib.error.URLError, ConnectionError):
                    return 413  # closed before all of it was sent
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                statuses = set(pool.map(send, bodies * 8))
            self.assertLessEqual(statuses, {204, 400, 413, 503})
            if os.environ.get("OCELLUS_SANITIZED") != "1":
                self.assertLess((memory_kb(watching.process, "VmHWM") - before) * 1024, int(told[1]))
        with Watching("synthetic", "--http", "127.0.0.1:0", "--quiet") as watching:
            watching.url()
            self.assertNotIn("HTTP", "".join(watching.err))

    def test_frames_are_accepted_from_one_page_only(self):
        jpeg, path = (SAMPLES / "board_01.jpg").read_bytes(), "/api/frame?sender=a&age_ms=250"
        caption = json.loads((SAMPLES / "captions.json").read_text())["board_01.jpg"]
        picture = {"Content-Type": "image/jpeg"}
        with Watching("browser", "--json", "--http", "127.0.0.1:0") as watching:
            for where, body, headers, status, sentence in [
                    (path, jpeg, {}, 415, "image/jpeg"), ("/api/frame", jpeg, picture, 400, "sender"),
                    ("/api/frame?sender=" + "a" * 65, jpeg, picture, 400, "sender"),
                    (path + "0000", jpeg, picture, 400, "age_ms"), ("/api/frame?sender=a&age_ms=-1", jpeg, picture, 400, "age_ms"),
                    (path, bytes(5 << 20), picture, 413, ""), (path, jpeg, {**picture, "Origin": "http://a.example"}, 403, ""),
                    (path, jpeg, {**picture, "Sec-Fetch-Site": "cross-site"}, 403, "")]:
                got, answer = watching.post(where, body, **headers)
                self.assertEqual(got, status, answer)
                self.assertIn(sentence, answer["error"]["message"])
            self.assertEqual(watching.get("/api/state")[1]["frames"]["captured"], 0)
            watching.wait_for(lambda: "No frame has come" in "".join(watching.out))
            self.assertEqual(watching.get("/healthz")[0], 503)
            before = time.monotonic_ns()
            self.assertEqual(watching.post(path, jpeg, **picture), (204, b""))
            after = time.monotonic_ns()
            (answer,) = watching.wait_for(lambda: watching.of_kind("caption"))
            self.assertEqual(answer["text"], caption)
            self.assertTrue(before <= answer["capture_ns"] + 250_000_000 <= after, (before, answer, after))
            self.assertEqual(watching.post(path, b"no picture", **picture)[0], 204)
            watching.wait_for(lambda: watching.get("/api/state")[1]["frames"]["broken"] == 1)
            self.assertEqual(watching.post("/api/frame?sender=b", jpeg, **picture)[0], 409)
        with Watching("synthetic", "--http", "127.0.0.1:0") as watching:
            self.assertEqual(watching.post(path, jpeg, **picture)[0], 409)
        with Watching("browser", "--http", "127.0.0.1:0", "--token", "secret") as watching:
            self.assertEqual(watching.post(path, jpeg, **picture)[0], 401)

    def test_questions_wait_in_a_bounded_queue(self):
        with Watching("synthetic", "--http", "127.0.0.1:0") as watching:
            statuses = [watching.post("/api/question", {"text": "What changed?"})[0] for _ in range(200)]
            self.assertEqual(set(statuses) - {202, 503}, set())
            self.assertEqual(watching.get("/healthz")[0], 200)

    def test_a_token_is_asked_for_everywhere_but_at_the_health_check(self):
        with Watching("synthetic", "--http", "127.0.0.1:0", "--token", "secret") as watching:
            for path in ("/", "/watch.js", "/api/state", "/api/events", "/frame.jpg", "/metrics"):
                self.assertEqual(watching.get(path)[0], 401, path)
                self.assertEqual(watching.get(path, Authorization="Bearer wrong")[0], 401, path)
            self.assertEqual(watching.get("/healthz")[0], 200)
            self.assertEqual(watching.get("/api/state", Authorization="Bearer secret")[0], 200)

    def test_a_page_that_stays_can_still_be_asked_after_the_source_has_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(board("113"), folder)
            with Watching(folder, "--json", "--fps", 5, "--http", "127.0.0.1:0") as watching:
                watching.wait_for(lambda: watching.get("/api/state")[1]["source"]["state"] == "ended")
                self.assertEqual(watching.get("/healthz")[0], 503)
                watching.post("/api/question", {"text": "What color is the background?"})
                (answer,) = watching.wait_for(lambda: watching.of_kind("answer"))
                self.assertEqual(answer["text"], "Gray.")


if __name__ == "__main__":
    unittest.main()
