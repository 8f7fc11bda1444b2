"""Traces and the flags for real time."""

import json
import os
import pathlib
import re
import resource
import subprocess
import unittest

from program import OK, PROGRAM, RUNTIME, USAGE, GREEN_STAR, FolderTest, ProgramTest, board, run


class Trace:
    """A file of Chrome's trace format: the threads' names, and their ranges in the order of their beginnings."""

    def __init__(self, path):
        events = json.loads(pathlib.Path(path).read_text())
        self.threads = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.ranges = [event for event in events if event["ph"] == "X"]
        self.others = [event for event in events if event["ph"] not in "MX"]

    def of(self, name):
        return [event for event in self.ranges if event["name"] == name]

    def on(self, thread):
        mine = [event for event in self.ranges if event["tid"] == thread]
        return sorted(mine, key=lambda event: (event["ts"], -event["dur"]))


def nanoseconds(event):
    """Whole numbers: sums of microseconds would be rounded."""
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


def parents(ranges):
    """(range, what it lies in or None) of one thread's ranges; raises where two overlap and neither holds the other."""
    around, found = [], []
    for event in ranges:
        begin, end = nanoseconds(event)
        while around and nanoseconds(around[-1])[1] <= begin:
            around.pop()
        if around and nanoseconds(around[-1])[1] < end:
            raise AssertionError(f"{event} ends behind {around[-1]}")
        found.append((event, around[-1] if around else None))
        around.append(event)
    return found


class Traces(FolderTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "trace.json"

    def traced(self, *arguments):
        self.answer(*arguments, "--trace", self.path)
        return Trace(self.path)

    def test_the_ranges_of_a_trace_nest_and_name_their_work(self):
        done = run("caption", board("113"), "--trace", self.path, "--device", "cpu")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (OK, GREEN_STAR + "\n", ""))
        trace = Trace(self.path)
        self.assertEqual(trace.others, [])
        self.assertEqual(set(trace.threads), {event["tid"] for event in trace.ranges})
        self.assertEqual(set(trace.threads.values()), {"ocellus"})
        (thread,) = trace.threads
        nested = parents(trace.on(thread))
        held = {(event["name"], around and around["name"]) for event, around in nested}
        self.assertLessEqual({("create engine", None), ("load weights", "create engine"), ("add image", None),
                              ("preprocess", "add image"), ("encode", "add image"), ("project", "encode"),
                              ("add text", None), ("generate", None), ("prefill", "generate"),
                              ("prefill chunk", "prefill"), ("first token", "generate"), ("sample", "first token"),
                              ("decode step", "generate"), ("sample", "decode step"),
                              ("deliver text", "decode step")}, held)
        self.assertGreater(len(trace.of("decode step")), 20)  # one for each token of the answer
        for whole in trace.of("generate") + trace.of("add image"):
            parts = [event for event, around in nested if around is whole]
            self.assertGreater(len(parts), 1)
            self.assertLessEqual(sum(nanoseconds(event)[1] - nanoseconds(event)[0] for event in parts),
                                 nanoseconds(whole)[1] - nanoseconds(whole)[0])

    def test_compression_and_every_picture_are_in_the_trace(self):
        trace = self.traced("ask", "--prompt", "What is on the left?", board("113"), board("115"), "-n", 2, "--images",
                            2, "--evict", "snapkv", "--keep", "0.5", "--device", "cpu")
        self.assertEqual(len(trace.of("add image")), 2)
        self.assertGreaterEqual(len(trace.of("compress")), 8)  # layer by layer

    def test_threads_of_a_library_are_in_the_trace_under_their_names(self):
        arguments = ["ask", "--prompt", "What is on the left?", board("113"), "-n", 2, "--library",
                     self.folder / "library", "--owner", "ann", "--device", "cpu"]
        first, second = self.traced(*arguments), self.traced(*arguments)
        for trace, name, thread in ((first, "library write", "ocellus-write"), (second, "library read", "ocellus-read")):
            (done,) = trace.of(name)
            self.assertEqual(trace.threads[done["tid"]], thread)
            for number in trace.threads:
                parents(trace.on(number))

    def test_every_command_with_an_engine_writes_traces(self):
        questions = self.folder / "questions.jsonl"
        questions.write_text(json.dumps({"images": [board("113")], "prompt": "<image>What?", "answer": "x"}) + "\n")
        for arguments, stdin in ((["bench", "-p", 8, "-n", 4, "-r", 1], ""), (["eval", questions, "-n", 2], ""),
                                 (["chat", "-n", 2], "Hello.\n")):
            with self.subTest(arguments[0]):
                self.answer(*arguments, "--trace", self.path, stdin=stdin)
                self.assertGreater(len(Trace(self.path).of("generate")), 0)

    def test_a_trace_that_cannot_be_begun_is_refused(self):
        self.assert_refused(["caption", board("113"), "--trace", self.folder / "no" / "trace.json"], RUNTIME,
                            "--trace .*cannot be written")

    def test_a_full_disk_is_told_once_and_the_answer_comes(self):
        done = run("caption", board("113"), "--trace", "/dev/full")
        self.assertEqual((done.returncode, done.stdout), (OK, GREEN_STAR + "\n"))
        self.assertRegex(done.stderr, r"\AThe trace /dev/full cannot be written any more \([^\n]+\n\Z")

    def test_a_trace_that_may_not_grow_ends_where_it_still_could(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

        done = subprocess.run([PROGRAM, "caption", board("113"), "--trace", str(self.path)], capture_output=True,
                              text=True, timeout=120, check=False, preexec_fn=limit)
        self.assertEqual((done.returncode, done.stdout), (OK, GREEN_STAR + "\n"))
        self.assertEqual(len(done.stderr.splitlines()), 1)
        Trace(self.path)  # still an array of whole events


def threads_of(process):
    """Of a running program: {name: (policy and priority, CPUs)}."""
    found = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        cpus = re.search(r"Cpus_allowed_list:\s*(\S+)", (task / "status").read_text()).group(1)
        number = int(task.name)
        found[(task / "comm").read_text().strip()] = (os.sched_getscheduler(number) & ~os.SCHED_RESET_ON_FORK,
                                                      os.sched_getparam(number).sched_priority, cpus)
    return found


def may_set_priority():
    done = subprocess.run(["chrt", "-f", "3", "true"], capture_output=True, check=False)
    return done.returncode == 0


class RealTime(ProgramTest):
    def chat_threads(self, *flags):
        """The threads of a chat that waits for its second message."""
        with subprocess.Popen([PROGRAM, "chat", "-n", "2", "--device", "cpu", *map(str, flags)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdin.write("Hello.\n")
            process.stdin.flush()
            process.stdout.readline()
            threads = threads_of(process)
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            _, errors = process.communicate("", timeout=60)
            self.assertEqual(process.returncode, OK, errors)
        return threads, int(re.search(r"VmLck:\s*(\d+)", status).group(1))

    def test_threads_run_on_the_chosen_cpus(self):
        cpu = max(os.sched_getaffinity(0))
        threads, _ = self.chat_threads("--cpus", cpu, "--threads", 3)
        self.assertEqual(set(threads), {"ocellus", "ocellus-1", "ocellus-2"})
        self.assertEqual({thread[2] for thread in threads.values()}, {str(cpu)})

    def test_as_many_threads_are_made_as_cpus_are_chosen(self):
        threads, _ = self.chat_threads("--cpus", min(os.sched_getaffinity(0)))
        self.assertEqual(set(threads), {"ocellus"})

    def test_threads_run_with_the_chosen_priority(self):
        if not may_set_priority():
            self.skipTest("this process may not set priorities")
        threads, _ = self.chat_threads("--thread-priority", 4, "--threads", 2)
        self.assertEqual({name: thread[:2] for name, thread in threads.items()},
                         {name: (os.SCHED_FIFO, 4) for name in ("ocellus", "ocellus-1")})

    def test_memory_is_locked_where_the_system_allows_it(self):
        done = run("caption", board("113"), "--lock-memory", "--prefault")
        if done.returncode == RUNTIME:
            self.assertRegex(done.stderr, "RLIMIT_MEMLOCK")
            self.skipTest(done.stderr.strip())
        self.assertEqual((done.returncode, done.stdout), (OK, GREEN_STAR + "\n"))
        _, locked_kilobytes = self.chat_threads("--lock-memory")
        self.assertGreater(locked_kilobytes, 30000)

    def without_privileges(self, *arguments):
        """The program as somebody else, who may lock 64 KiB and set no priorities."""
        def drop():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
            resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        try:
            return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                                  check=False, preexec_fn=drop)
        except PermissionError as error:
            self.skipTest(f"nobody else may run the program: {error}")

    def test_a_refusal_of_the_system_ends_the_program_with_advice(self):
        for flags, sentence in ((["--lock-memory"], "RLIMIT_MEMLOCK is 65536"),
                                (["--thread-priority", 5, "--threads", 2], "RLIMIT_RTPRIO"),
                                (["--thread-priority", 5, "--threads", 1], "RLIMIT_RTPRIO")):
            with self.subTest(flags=flags):
                done = self.without_privileges("caption", board("113"), "--device", "cpu", *flags)
                if "cannot open" in done.stderr or "113.png" in done.stderr:
                    self.skipTest(f"nobody else may read the models: {done.stderr}")
                self.assertEqual((done.returncode, done.stdout), (RUNTIME, ""))
                self.assertRegex(done.stderr, r"\Aocellus: [^\n]+\.\n\Z")
                self.assertRegex(done.stderr, sentence)

    def test_bad_values_are_refused(self):
        for flags, sentence in ((["--thread-priority", 0], "1 to 99"), (["--thread-priority", 100], "1 to 99"),
                                (["--thread-priority", "high"], "1 to 99"), (["--cpus", ""], "0-3,6"),
                                (["--cpus", "1-0"], "0-3,6"), (["--cpus", "0,,1"], "0-3,6"), (["--cpus", "0,"], "0-3,6"),
                                (["--cpus", "-1"], "0-3,6"), (["--cpus", "256"], "0-3,6"), (["--cpus", "a"], "0-3,6"),
                                (["--cpus", "0-3-5"], "0-3,6"), (["--cpus", "255"], "no CPU 255")):
            with self.subTest(flags=flags):
                self.assert_refused(["caption", board("113"), *flags], USAGE, sentence)


if __name__ == "__main__":
    unittest.main()
