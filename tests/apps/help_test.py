"""-h on one screen, groups of flags, manual pages and completions: all from the same texts."""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

from program import OK, PROGRAM, SOURCE, USAGE, ProgramTest, board, run

LINES, COLUMNS = 40, 80
FLAG = re.compile(r"^  (-[^\s,]+)(?:, (--[a-z-]+))?", re.MULTILINE)


def page(*arguments):
    done = run(*arguments)
    assert done.returncode == OK, done.stderr
    return done.stdout


def listed(text):
    """The names of commands that a page lists."""
    return re.findall(r"^  ([a-z-]+) +[A-Z]", text[:text.index("\nFlags:")], re.MULTILINE)


def flags(text):
    return [name for names in FLAG.findall(text) for name in names if name and name not in ("-h", "--help")]


def group_names(short):
    """The groups that -h names, in two columns."""
    if "More flags, by" not in short:
        return []
    section = short[short.index("More flags, by"):].split("\n\n")[0]
    names = [re.findall(r"^  ([a-z-]+) ", line) + re.findall(r"^.{40}  ([a-z-]+) ", line) for line in section.splitlines()[1:]]
    return [name for some in names for name in some]


COMMANDS = [[name] for name in listed(page("-h"))]
COMMANDS += [["library", name] for name in listed(page("library", "-h"))]
ALL = {" ".join(command): page(*command, "--help", "all") for command in COMMANDS}


class Help(ProgramTest):
    def test_every_commands_short_help_fits_one_screen(self):
        self.assertGreater(len(COMMANDS), 25)
        for command in [[], *COMMANDS]:
            with self.subTest(command=command):
                lines = page(*command, "-h").splitlines()
                self.assertLessEqual(len(lines), LINES)
                self.assertEqual([line for line in lines if len(line) > COLUMNS or line.endswith(" ")], [])
                self.assertEqual([line for line in page(*command, "--help", "all").splitlines() if len(line) > COLUMNS], [])

    def test_it_shows_the_usual_flags_and_names_the_groups_of_all(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                short, everything = page(*command, "-h"), ALL[" ".join(command)]
                shown = FLAG.findall(short[:short.find("\nMore flags")])
                if not group_names(short):
                    self.assertEqual(sorted(flags(short)), sorted(flags(everything)))
                    continue
                self.assertIn(f"'ocellus {' '.join(command)} --help GROUP'", short)
                self.assertLessEqual(8, len(shown) - 1, shown)  # all but -h
                self.assertLessEqual(len(shown) - 1, 12, shown)

    def test_every_flag_is_in_one_group(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                names = group_names(page(*command, "-h")) or (["flags"] if flags(ALL[" ".join(command)]) else [])
                grouped = [flag for name in names for flag in flags(page(*command, "--help", name))]
                self.assertEqual(len(grouped), len(set(grouped)))
                self.assertEqual(sorted(grouped), sorted(flags(ALL[" ".join(command)])))

    def test_no_flag_of_the_sources_is_missing(self):
        known = {flag for text in ALL.values() for flag in flags(text)}
        for folder in ["commands", "setup"]:
            for path in (SOURCE / "apps" / folder).glob("*.cpp"):
                for name in re.findall(r'"(?:-\w,)?(--[a-z][a-z-]+)(?:,[A-Z]+)?"', path.read_text()):
                    self.assertIn(name, known, path.name)

    def test_help_may_stand_anywhere_whatever_else_is_wrong(self):
        short = page("caption", "-h")
        for arguments in [["caption", "--help"], ["-h", "caption"], ["--help", "caption"], ["help", "caption"],
                          ["caption", "-h", "--device", "tpu"], ["caption", "--device", "tpu", "-h"],
                          ["caption", board("113"), "--temp", "nan", "--help"], ["caption", "--bogus", "-h"],
                          ["caption", "-c", "4096", "-h"], ["caption", "--prompt", "-h", "-h"], [board("113"), "-h"]]:
            with self.subTest(arguments=arguments):
                self.assertEqual(page(*arguments), short)
        memory = page("caption", "--help", "memory")
        self.assertRegex(memory, r"\AMemory \(.*\):\n  --budget SIZE ")
        for arguments in [["caption", "-h", "Memory"], ["caption", "--help=memory"], ["help", "caption", "memory"],
                          ["--help", "caption", "memory"], ["caption", "--help", "memory", "--temp", "nan"]]:
            with self.subTest(arguments=arguments):
                self.assertEqual(page(*arguments), memory)
        self.assertEqual(page("library", "-h", "add"), page("library", "add", "-h"))
        self.assertEqual(page("help", "library", "add"), page("library", "add", "-h"))
        self.assertEqual(page("caption", "--help", "real time"), page("caption", "--help", "real-time"))

    def test_h_after_a_flag_that_takes_a_value_is_the_value(self):
        self.assertNotIn("Usage", self.answer("ask", "--prompt", "-h", "-n", 1))
        self.assert_refused(["caption", "--", "-h"], 4, "-h")

    def test_an_unknown_group_is_one_sentence_with_those_there_are(self):
        self.assert_refused(["caption", "--help", "memry"], USAGE, r"--help memry: ocellus caption has no such group of flags "
                            r"\(is memory meant\?\); it has prompt, answers, .*, real-time and all\.")
        self.assert_refused(["caption", "-h", "picture.png"], USAGE, "has no such group of flags; it has prompt, ")
        self.assert_refused(["--help", "captoin"], USAGE, r"no such command \(is caption meant\?\); it has .*caption, ask")
        self.assert_refused(["library", "--help", "find"], USAGE, "ocellus library has no such command; it has add, list, ")

    def test_exit_codes_stand_once(self):
        text = page("--help")
        for code, meaning in [(0, "success"), (1, "failure at run time"), (2, "bad usage"), (3, "does not fit"), (4, "bad input")]:
            self.assertRegex(text, rf"\n  {code} +{meaning}")
        self.assertEqual([command for command, other in ALL.items() if "Exit status" in other], [])

    def test_devices_has_the_flags_that_it_reads(self):
        self.assertEqual(flags(ALL["devices"]), ["--json"])

    def test_commands_that_do_not_sample_have_no_sampling(self):
        for command in ["perplexity", "library search"]:
            self.assertNotIn("--temp", flags(ALL[command]))


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.share = pathlib.Path(folder.name) / "a" / "share"
        subprocess.run([PROGRAM, "pages", cls.share], env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}, check=True)
        cls.manual = cls.share / "man" / "man1"
        cls.bash = cls.share / "bash-completion" / "completions" / "ocellus"
        cls.zsh = cls.share / "zsh" / "site-functions" / "_ocellus"
        cls.fish = cls.share / "fish" / "vendor_completions.d" / "ocellus.fish"

    def need(self, program):
        if not shutil.which(program):
            print(f"help_test: there is no {program} here, so what it reads was not tried")
            self.skipTest(f"there is no {program} here")

    def test_every_command_has_a_page_with_every_flag(self):
        names = ["ocellus", *("ocellus-" + "-".join(command) for command in COMMANDS)]
        self.assertEqual(sorted(path.name for path in self.manual.iterdir()), sorted(name + ".1" for name in names))
        for command in COMMANDS:
            text = (self.manual / f"ocellus-{'-'.join(command)}.1").read_text()
            plain = text.replace("\\-", "-")
            for flag in flags(ALL[" ".join(command)]):
                self.assertIn(f"\\fB{flag}\\fR", plain)
            self.assertIn(f'"ocellus {page("--version").split()[1]}"', plain)
            self.assertIn('"2026-01-01"', text)
        program = (self.manual / "ocellus.1").read_text().replace("\\-", "-")
        for (command,) in [command for command in COMMANDS if len(command) == 1]:
            self.assertIn(f".TP\n\\fB{command}\\fR\n", program)
        for code in range(5):
            self.assertIn(f".TP\n\\fB{code}\\fR\n", program)

    def test_a_folder_that_cannot_be_written_is_named(self):
        done = run("pages", "/dev/null/share")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"\Aocellus: /dev/null/share/man/man1/ocellus\.1: cannot be written: .*\.\n\Z")

    def test_man_has_no_complaint_and_prints_all_words(self):
        self.need("man")
        for path in self.manual.iterdir():
            done = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True, check=True,
                                  env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat"})
            self.assertEqual(done.stderr, "", path.name)
        shown = subprocess.run(["man", "-l", self.manual / "ocellus-watch.1"], capture_output=True, text=True, check=True,
                               env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat"}).stdout
        self.assertIn('For example \'count > 3 and what contains "ring"\'.', " ".join(shown.split()))

    def test_mandoc_has_no_complaint(self):
        self.need("mandoc")
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *self.manual.iterdir()], capture_output=True, text=True,
                              check=False)
        # References are to pages that are not installed here.
        self.assertEqual([line for line in done.stdout.splitlines() if "referenced manual not found" not in line], [])

    def complete(self, *words):
        """What bash's function answers after these words, of which the last is being written."""
        script = f'. "{self.bash}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ocellus; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", script, "bash", "ocellus", *words], capture_output=True, text=True, check=False,
                              cwd=SOURCE / "apps")
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_commands_flags_words_and_files(self):
        self.need("bash")
        subprocess.run(["bash", "-n", self.bash], check=True)
        self.assertEqual(self.complete("cap"), ["caption"])
        self.assertEqual(self.complete("library", "re"), ["remove"])
        self.assertIn("--budget", self.complete("caption", "--"))
        self.assertEqual(self.complete("caption", "a.png", "--kv-s"), ["--kv-scheme"])
        self.assertEqual(self.complete("watch", "--kv-s", "x", "--device", ""), ["auto", "cpu"])
        self.assertEqual(self.complete("plan", "--solve", "b"), ["bits"])
        self.assertEqual(self.complete("plan", "--solve", "=", "b"), ["bits"])
        self.assertEqual(self.complete("plan", "--solve", "="), ["images", "bits", "keep"])
        self.assertEqual(self.complete("plan", "--machine", "th"), ["this", "thor"])
        self.assertIn("SmolVLM-256M", self.complete("plan", "--shape", "Smol"))
        self.assertEqual(self.complete("methods", "dav"), ["david", "david-h2o"])
        self.assertEqual(self.complete("caption", "--help", "real"), ["real-time"])
        self.assertEqual(self.complete("caption", "samples/board_04"), ["samples/board_04.jpg", "samples/board_04.png"])
        self.assertEqual(self.complete("caption", "-m", "models/s"),
                         ["models/shapeboard-34m-q8_0.calib.json", "models/shapeboard-34m-q8_0.gguf"])
        self.assertEqual(self.complete("library", "list", "sam"), ["samples"])
        self.assertEqual(self.complete("caption", "--prompt", "sam"), [])
        self.assertIn("--http", self.complete("serve", "--"))
        self.assertNotIn("--http", self.complete("caption", "--"))

    def type_in(self, shell, begin, typed, wanted):
        """Types into a shell at a terminal until what is wanted shows, or for ten seconds.

        The shell is in a folder without files, as a command's place completes files' names, too.
        """
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.manual.parent)
            os.environ.update(TERM="dumb", PS1="$ ", HISTFILE="/dev/null")
            os.execvp(shell[0], shell)
        try:
            shown = b""
            os.write(terminal, begin.encode() + b"\n")
            end = time.monotonic() + 10
            sent = False
            while time.monotonic() < end and wanted not in shown:
                if select.select([terminal], [], [], 0.5)[0]:
                    shown += os.read(terminal, 4096)
                if not sent and b"ready for it" in shown.replace(begin.encode(), b""):
                    sent = True
                    shown = b""
                    os.write(terminal, typed.encode())
            return shown
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
            os.close(terminal)

    def test_tab_completes_in_bash_at_a_terminal(self):
        self.need("bash")
        shown = self.type_in(["bash", "--norc", "--noprofile", "-i"], f". {self.bash}; echo ready 'for it'", "ocellus capt\t--kv-sch\t",
                             b"--kv-scheme")
        self.assertIn(b"caption --kv-scheme", shown)

    def test_tab_completes_in_zsh_at_a_terminal(self):
        self.need("zsh")
        subprocess.run(["zsh", "-n", self.zsh], check=True)
        begin = f"fpath=({self.zsh.parent} $fpath); autoload -U compinit; compinit -u -D; echo ready 'for it'"
        shown = self.type_in(["zsh", "-f", "-i"], begin, "ocellus capt\t--kv-sch\t", b"--kv-scheme")
        self.assertIn(b"--kv-scheme", shown)

    def test_fish_completes(self):
        self.need("fish")
        subprocess.run(["fish", "--no-execute", self.fish], check=True)
        for typed, wanted in [("ocellus capt", "caption\t"), ("ocellus library re", "remove\t"),
                              ("ocellus caption --kv-sch", "--kv-scheme\t"), ("ocellus plan --solve b", "bits\t")]:
            done = subprocess.run(["fish", "--no-config", "-c", f"source {self.fish}; complete -C '{typed}'"], capture_output=True,
                                  text=True, check=True)
            self.assertEqual(done.stderr, "")
            self.assertTrue(any(line.startswith(wanted) for line in done.stdout.splitlines()), (typed, done.stdout))


if __name__ == "__main__":
    unittest.main()
