"""--plot of plan, eval, bench and calibrate: the numbers that the commands print, in SVG files that stand alone."""

import json
import resource
import subprocess
import unittest
import xml.etree.ElementTree

from program import BOARDS, OK, OVER_BUDGET, PROGRAM, RUNTIME, SOURCE, USAGE, FolderTest, run

QUESTIONS = SOURCE / "apps" / "samples" / "questions.jsonl"
HOSTILE = "<b>&\"'\x07\u202e\uffff\ud7ff"
SVG = "{http://www.w3.org/2000/svg}"


class PlotTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "plot.svg"

    def draw(self, *arguments, exit_code=OK):
        """The JSON objects that a command prints; its plot is read into self.svg."""
        done = run(*arguments, "--json", "--threads", 2, "--plot", self.path)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        self.svg = xml.etree.ElementTree.parse(self.path).getroot()
        self.assertEqual([one.name for one in self.folder.iterdir()], ["plot.svg"])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def texts(self):
        return [node.text for node in self.svg.iter(SVG + "text")]

    def titles(self):
        """Words that the mouse shows, of bars and points."""
        return [node.text for node in self.svg.iter(SVG + "title")]

    def bars(self, name="f0"):
        return [float(node.get("width")) for node in self.svg.iter(SVG + "rect") if node.get("class") == name and node.find(SVG + "title") is not None]

    def assert_inside(self):
        width, height = float(self.svg.get("width")), float(self.svg.get("height"))
        for node in self.svg.iter():
            for name, limit in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("y1", height), ("cy", height)):
                self.assertTrue(0 <= float(node.get(name, 0)) <= limit, (node.tag, node.attrib))


class Plots(PlotTest):
    def test_a_plan_that_fits_is_drawn_by_lifetime_phase_and_buffer(self):
        (plan,) = self.draw("plan", "--images", 4, "--budget", "128M")
        self.assert_inside()
        texts = self.texts()
        for part in ("weights", "session", "scratch"):
            bytes_ = plan[f"{part}_bytes"]
            self.assertIn(f"{part}: {bytes_} bytes ({bytes_ / 2**20:.1f} MiB)", texts)
        self.assertIn(f"{plan['total_bytes']} bytes ({plan['total_bytes'] / 2**20:.1f} MiB)", texts)
        self.assertIn("budget: 134217728 bytes (128.0 MiB)", texts)
        self.assertTrue(any(text.startswith("Budget 134217728 bytes (128.0 MiB): fits, ") for text in texts))
        self.assertNotIn("Each of these alone would make it fit", texts)
        widths = [self.bars(f"f{place}")[0] for place in range(3)]
        for place, part in enumerate(("weights", "session", "scratch")):
            self.assertAlmostEqual(widths[place] / sum(widths), plan[f"{part}_bytes"] / plan["total_bytes"], places=2)
        phases = {}
        for row in plan["rows"]:
            if row["lifetime"] == "scratch":
                phases[row["phase"]] = phases.get(row["phase"], 0) + row["bytes"]
        self.assertEqual(max(phases.values()), plan["scratch_bytes"])
        for name, bytes_ in phases.items():
            self.assertIn(f"{name}: {bytes_} bytes ({bytes_ / 2**20:.1f} MiB)", self.titles())
        largest = sorted((row["bytes"] for row in plan["rows"]), reverse=True)[:8]
        self.assertEqual([int(text.split()[0]) for text in texts if text[0].isdigit() and text.endswith(" MiB)")][-8:], largest)

    def test_a_plan_that_does_not_fit_shows_what_would(self):
        (plan,) = self.draw("plan", "--images", 8, "--budget", "48M", exit_code=OVER_BUDGET)
        self.assert_inside()
        texts, titles = self.texts(), self.titles()
        self.assertIn("Each of these alone would make it fit", texts)
        self.assertTrue(any("does not fit, " + str(plan["shortfall_bytes"]) in text for text in texts))
        enough = [one for one in plan["advice"] if one["for"] == "budget" and one["total_bytes"] > 0]
        self.assertGreater(len(enough), 2)
        for one in [*enough, {"change": f"--budget {plan['total_bytes']}", "total_bytes": plan["total_bytes"]}]:
            bytes_ = one["total_bytes"]
            self.assertIn(f"{one['change']}: {bytes_} bytes ({bytes_ / 2**20:.1f} MiB)", titles)

    def test_an_evaluation_is_drawn_by_kind_and_by_number_of_pictures(self):
        *_, sums = self.draw("eval", QUESTIONS, "--limit", 6, "-n", 8, "--perplexity")
        self.assert_inside()
        rows = {"all": sums, **sums["by_kind"], **{f"{n} picture{'s' if n != '1' else ''}": score for n, score in sums["by_images"].items()}}
        titles = self.titles()
        for name, score in rows.items():
            self.assertIn(f"{name}: {score['accuracy']:.3f}, {score['exact']} of {score['questions']}", titles)
            self.assertIn(f"{name}: {score['perplexity']:.4f}", titles)
        widths = self.bars()[:len(rows)]
        for width, score in zip(widths, rows.values(), strict=True):
            self.assertAlmostEqual(width, widths[0] * score["accuracy"] / sums["accuracy"], delta=0.2)

    def test_words_of_files_are_words(self):
        questions = self.folder / "questions.jsonl"
        picture = str(BOARDS / "images" / "113.png")
        questions.write_text("".join(json.dumps({"images": [picture], "prompt": "<image>What?", "answer": "x", "kind": kind}) + "\n"
                                     for kind in (HOSTILE, "W" * 300)), encoding="utf-8")
        done = run("eval", questions, "-n", 1, "--plot", self.path)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.svg = xml.etree.ElementTree.parse(self.path).getroot()
        shown = "".join(self.texts())
        self.assertIn("<b>&\"'\\x07\\u202e\ufffd\ud7ff", shown)
        self.assertIn("W" * 300, shown)
        self.assertEqual({node.tag for node in self.svg.iter()} - {SVG + tag for tag in ("svg", "title", "style", "rect", "text", "line")}, set())

    def test_a_benchmark_is_drawn_by_unit(self):
        (bench,) = self.draw("bench", "-p", 16, "-n", 8, "-r", 2)
        self.assert_inside()
        texts, titles = self.texts(), self.titles()
        self.assertGreater(len(bench["rows"]), 8)
        for row in bench["rows"]:
            self.assertIn(f"Rows in {row['unit']}", texts)
            spread = f" ± {row['deviation']:.2f}" if len(row["samples"]) > 1 else ""
            self.assertIn(f"{row['test']}: {row['mean']:.2f}{spread}", titles)
        self.assertTrue(any(text.startswith("model Shapeboard 34M, ") for text in texts))

    def test_a_calibration_is_drawn_by_its_parameters_and_by_its_bits(self):
        (report,) = self.draw("calibrate", QUESTIONS, "--kv-bits", 2, "--limit", 1, "-n", 4, "--dry-run")
        self.assert_inside()
        grid = report["results"][0]["grid"]
        titles = self.titles()
        best = (report["results"][0]["tau_1"], report["results"][0]["tau_2"])
        for point in grid:
            is_best = ", best" if (point["tau_1"], point["tau_2"]) == best else ""
            self.assertIn(f"tau 1 = {int(point['tau_1'])}, tau 2 = {int(point['tau_2'])}: {point['accuracy']:.3f}{is_best}", titles)
        self.assertEqual(len(self.bars()), 16)
        (search,) = self.draw("calibrate", QUESTIONS, "--layer-bits", 3.75, "--limit", 1)
        self.assertEqual([text for text in self.titles() if ": 1." in text or ": 2." in text],
                         [f"{','.join(map(str, point['layer_bits']))}: {point['perplexity']:.4f}" for point in search["points"]])


class Refusals(PlotTest):
    def refuse(self, path, exit_code, sentence, *more):
        self.assert_refused(["plan", "--plot", path, *more], exit_code, sentence)

    def test_a_plot_replaces_nothing_but_a_plot(self):
        letter = self.folder / "letter.svg"
        letter.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
        self.refuse(letter, USAGE, "letter.svg exists and is no plot of this program: give another name")
        self.assertEqual(letter.read_text(), "<svg xmlns='http://www.w3.org/2000/svg'/>")
        first = run("plan", "--plot", self.path)
        drawn = self.path.read_bytes()
        again = run("plan", "--plot", self.path, "--images", 3)
        self.assertEqual((first.returncode, again.returncode), (OK, OK))
        self.assertNotEqual(self.path.read_bytes(), drawn)
        self.assertEqual(first.stdout, self.answer("plan"), "it prints the same")

    def test_a_plot_that_cannot_be_written_is_refused_at_once(self):
        self.refuse(self.folder / "plot.png", USAGE, "the name must end in .svg")
        self.refuse(self.folder / "none" / "plot.svg", RUNTIME, "cannot be written: No such file or directory; give another place")
        (self.folder / "folder.svg").mkdir()
        self.refuse(self.folder / "folder.svg", RUNTIME, "Is a directory")
        self.refuse(self.path, USAGE, "--trace and --plot both write", "--trace", self.path)
        self.refuse(self.path, USAGE, "plan --plot draws one plan", "--table")
        for command in (["eval", QUESTIONS], ["calibrate", QUESTIONS, "--dry-run"], ["bench"]):
            self.assert_refused([*command, "--plot", "plot.png"], USAGE, "the name must end in .svg")
        self.assertEqual([one.name for one in self.folder.iterdir()], ["folder.svg"])

    def test_a_full_disk_costs_the_plot_and_not_the_results(self):
        done = subprocess.run([PROGRAM, "plan", "--plot", str(self.path)], capture_output=True, text=True, timeout=60, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.assertEqual((done.returncode, done.stdout), (RUNTIME, self.answer("plan")))
        self.assertRegex(done.stderr, r"\Aocellus: --plot \S+ cannot be written: File too large; give another place\.\n\Z")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
