"""`ocellus pull` and -hf against a hub on this machine: the cache's layout, and all that may go wrong on the way."""

import json
import os
import pathlib
import pty
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from loopback_hub import COMMIT, Hub, git_hash, sha256
from program import BAD_INPUT, GREEN_STAR, MMPROJ, MODEL, OK, PROGRAM, RUNTIME, USAGE, board

KIB = 1024
NAME = "owner/Tiny-GGUF"
OLD = "0ld".replace("l", "1") + "d" * 37


def random_bytes(count, seed):
    return random.Random(seed).randbytes(count)


TEXT, VISION = "Tiny-Q8_0.gguf", "mmproj-Tiny-Q8_0.gguf"
FILES = {".gitattributes": b"*.gguf filter=lfs\n", "README.md": b"# Tiny\n", TEXT: random_bytes(300 * KIB, 1),
         VISION: random_bytes(130 * KIB, 2)}


def run(*arguments, home, hub=None, before=None, limit_s=60, **variables):
    return finish(start(*arguments, home=home, hub=hub, before=before, **variables), limit_s)


def start(*arguments, home, hub=None, before=None, stderr=subprocess.PIPE, **variables):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) and not name.lower().endswith("_proxy")}
    endpoint = hub.url if hub is not None else "http://127.0.0.1:9"  # nothing listens there
    return subprocess.Popen([PROGRAM, *map(str, arguments)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=stderr, preexec_fn=before,
                            env={**clean, "HF_HOME": str(home), "HF_ENDPOINT": endpoint, **variables})


def finish(process, limit_s=60):
    output, remarks = process.communicate(timeout=limit_s)
    return subprocess.CompletedProcess(process.args, process.returncode, output, remarks)


HAS_CURL = "no libcurl" not in run("pull", NAME, home="/nonexistent").stderr


class CacheTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name) / "home"
        self.root = self.home / "hub" / "models--owner--Tiny-GGUF"
        self.blobs, self.snapshot = self.root / "blobs", self.root / "snapshots" / COMMIT

    def serve(self, files=FILES, **options):
        hub = Hub(files, **options)
        self.addCleanup(hub.stop)
        return hub

    def pull(self, hub, *flags, name=NAME, **options):
        return run("pull", name, *flags, home=self.home, hub=hub, **options)

    def assert_pulled(self, done, hub, names=(TEXT, VISION)):
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stdout.split(), [str(self.root / "snapshots" / hub.commit / name) for name in names])
        for name in names:
            self.assertEqual((self.root / "snapshots" / hub.commit / name).read_bytes(), hub.files[name], name)
        self.assertEqual((self.root / "refs" / "main").read_text(), hub.commit)
        self.assert_whole()

    def assert_refused(self, done, exit_code, sentence):
        self.assertEqual(done.returncode, exit_code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr.splitlines()[-1], r"\Aocellus: .*\.\Z")
        self.assertRegex(done.stderr.splitlines()[-1], sentence)
        self.assert_whole()

    def assert_whole(self):
        """Nothing half-written stands under a final name."""
        for blob in self.blobs.glob("*"):
            if blob.suffix != ".incomplete":
                self.assertIn(blob.name, (sha256(blob.read_bytes()), git_hash(blob.read_bytes())))
        for link in self.root.glob("snapshots/*/**/*"):
            self.assertTrue(link.exists(), link)

    def parts(self):
        return sorted(self.blobs.glob("*.incomplete"))

    def have(self, name, content, commit=COMMIT, main=None, is_link=True):
        """Puts a file into the cache as other tools do."""
        path = self.root / "snapshots" / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.blobs.mkdir(exist_ok=True)
        if is_link:
            (self.blobs / sha256(FILES.get(name, content))).write_bytes(content)
            path.symlink_to(f"../../blobs/{sha256(FILES.get(name, content))}")
        else:
            path.write_bytes(content)
        (self.root / "refs").mkdir(exist_ok=True)
        (self.root / "refs" / "main").write_text(main or commit)


@unittest.skipUnless(HAS_CURL, "this build fetches nothing")
class Pull(CacheTest):
    def test_a_pair_comes_into_the_usual_cache_and_stays(self):
        hub = self.serve()
        hub.token = "hf_secret"
        self.assert_pulled(self.pull(hub, HF_TOKEN="hf_secret\n"), hub)
        for name in (TEXT, VISION):
            self.assertEqual(os.readlink(self.snapshot / name), f"../../blobs/{sha256(FILES[name])}")
        self.assertEqual(sorted(path.name for path in self.blobs.iterdir()), sorted(sha256(FILES[name]) for name in (TEXT, VISION)))
        self.assertEqual([path.name for path in self.snapshot.iterdir() if not path.is_symlink()], [])
        for headers in hub.asked("/store/"):
            self.assertNotIn("Authorization", headers)
            self.assertEqual(headers["Accept-Encoding"], "identity")
        requests = len(hub.requests)
        again = self.pull(hub, "--json", HF_TOKEN="hf_secret")
        self.assertEqual((again.returncode, again.stderr), (OK, ""))
        self.assertEqual(json.loads(again.stdout),
                         {"command": "pull", "repository": NAME, "commit": COMMIT, "model": str(self.snapshot / TEXT),
                          "mmproj": str(self.snapshot / VISION), "bytes": 430 * KIB, "fetched_bytes": 0})
        self.assertEqual(len(hub.requests), requests + 1)  # the list alone
        self.assertIn("all were in the cache", self.pull(hub, HF_TOKEN="hf_secret").stderr)

    def test_a_token_comes_from_the_file_of_a_login_and_other_variables_name_folders(self):
        hub = self.serve()
        hub.token = "hf_login"
        self.home.mkdir()
        (self.home / "token").write_text("hf_login\n")
        cache = self.home / "elsewhere"
        done = self.pull(hub, HF_HUB_CACHE=str(cache))
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue((cache / "models--owner--Tiny-GGUF" / "refs" / "main").exists())
        done = self.pull(hub, HF_HOME="", HOME=str(self.home), HF_TOKEN="hf_login")
        self.assertTrue(done.stdout.startswith(str(self.home / ".cache" / "huggingface" / "hub")), done.stderr)
        self.assertEqual(self.pull(hub, HF_HUB_DISABLE_IMPLICIT_TOKEN="1").returncode, RUNTIME)
        self.assert_refused(self.pull(hub, HF_TOKEN="two words"), USAGE, "HF_TOKEN: a token is one word")
        self.assert_refused(self.pull(hub, HF_ENDPOINT="ftp://hub"), USAGE, "HF_ENDPOINT ftp://hub: write the hub's address")

    def test_the_quant_chooses_the_model_file(self):
        files = {name: random_bytes(2000 + i, name) for i, name in enumerate(
            ["T-Q4_K_M.gguf", "T-Q8_0.gguf", "T-f16.gguf", "T-imatrix.gguf", "sub/T-Q2_K-00001-of-00002.gguf",
             "sub/T-Q2_K-00002-of-00002.gguf", "T-thinking-Q6_K.gguf", "T-Q6_K.gguf", "mmproj-T-f16.gguf", "mmproj-T-Q8_0.gguf",
             "T-Q5_0-00001-of-00002.gguf"])}
        hub = self.serve(files)
        for quant, names in [("", ["T-Q8_0.gguf", "mmproj-T-Q8_0.gguf"]), (":q4_k_m", ["T-Q4_K_M.gguf", "mmproj-T-Q8_0.gguf"]),
                             (":F16", ["T-f16.gguf", "mmproj-T-f16.gguf"]), (":thinking-Q6_K", ["T-thinking-Q6_K.gguf", "mmproj-T-Q8_0.gguf"]),
                             (":Q2_K", ["sub/T-Q2_K-00001-of-00002.gguf", "mmproj-T-Q8_0.gguf"])]:
            with self.subTest(quant=quant):
                self.assert_pulled(self.pull(hub, name=NAME + quant), hub, names)
        self.assertTrue((self.snapshot / "sub" / "T-Q2_K-00002-of-00002.gguf").exists())
        self.assert_refused(self.pull(hub, name=NAME + ":Q6_K"), BAD_INPUT, "several files are meant, T-thinking-Q6_K.gguf, T-Q6_K.gguf")
        self.assert_refused(self.pull(hub, name=NAME + ":Q3_K_M"), BAD_INPUT, "no file is Q3_K_M; it has T-Q4_K_M.gguf, T-Q8_0.gguf")
        self.assert_refused(self.pull(hub, name=NAME + ":Q5_0"), BAD_INPUT, "its part T-Q5_0-00002-of-00002.gguf is missing")
        hub.files = {"model.safetensors": b"x"}
        self.assert_refused(self.pull(hub), BAD_INPUT, "has no GGUF file of a model")
        hub.files = {"T-Q4_K_M.gguf": b"text"}
        self.assertIn("no vision part", self.pull(hub).stderr)

    def test_small_files_are_known_by_gits_hash(self):
        hub = self.serve()
        hub.plain = {VISION}
        self.assert_pulled(self.pull(hub), hub)
        self.assertTrue((self.blobs / git_hash(FILES[VISION])).exists())

    def test_names_that_lead_out_are_refused(self):
        hub = self.serve()
        for bad in ["../x.gguf", "/etc/x.gguf", "a/../../b.gguf", "a\\b.gguf", "a//b.gguf", ".", "a\nb.gguf", ""]:
            with self.subTest(name=bad):
                hub.files = {**FILES, bad: b"x"}
                self.assert_refused(self.pull(hub), BAD_INPUT, "which leads out of its folder")
        self.assertEqual(list(self.root.glob("snapshots/*")), [])
        for bad in ["owner", "../..", "owner/..", "owner/a--b", "a/b/c", "owner/x:", "owner/" + "x" * 100, "owner/x:a/b", "owner/-x"]:
            with self.subTest(name=bad):
                self.assert_refused(self.pull(hub, name=bad), USAGE, "write OWNER/NAME or|no model of this name is known")

    def test_lists_that_are_none_are_refused(self):
        hub = self.serve()
        for change, sentence in [({"sha": "main"}, "names no commit"), ({"siblings": {}}, "has no files"), ({"siblings": [1]}, "no file")]:
            whole = Hub.listing(hub)
            hub.listing = lambda whole=whole, change=change: {**whole, **change}
            self.assert_refused(self.pull(hub), BAD_INPUT, sentence)
        hub.listing = lambda: [[[]]]
        self.assert_refused(self.pull(hub), BAD_INPUT, "names no commit")

    def test_published_names_are_repositories(self):
        hub = self.serve(repository="ggml-org/SmolVLM-256M-Instruct-GGUF")
        done = self.pull(hub, name="smolvlm-256m:Q8_0")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertTrue((self.home / "hub" / "models--ggml-org--SmolVLM-256M-Instruct-GGUF" / "refs" / "main").exists())
        self.assert_refused(self.pull(hub, name="SmolVLM-255M"), USAGE, r"no model of this name is known \(is SmolVLM-256M meant\?\)")
        self.assert_refused(self.pull(hub, name="Qwen3-VL-2B"), USAGE, "convert Qwen/Qwen3-VL-2B-Instruct with tools/convert")

    def test_progress_is_a_line_for_each_tenth_and_on_a_terminal_a_bar(self):
        hubs = [self.serve() for _ in range(3)]
        for hub in hubs:
            hub.faults = [hub.slow(0.3)]
        terminal, end = pty.openpty()
        log, quiet, bar = [start("pull", NAME, *flags, home=self.home / str(hub.url[-5:]), hub=hub, stderr=stderr) for hub, flags, stderr in
                           zip(hubs, [[], ["--quiet"], []], [subprocess.PIPE, subprocess.PIPE, end])]
        os.close(end)
        shown = b""
        try:
            while piece := os.read(terminal, 4096):
                shown += piece
        except OSError:  # its other end is closed
            os.close(terminal)
        log, quiet, bar = map(finish, (log, quiet, bar))
        self.assertRegex(log.stderr, r"owner/Tiny-GGUF: fetching 440320 bytes \(0\.4 MiB\) to ")
        lines = re.findall(r"^ocellus: fetching: (\d+) %, \d+ of 430 KiB, [\d.]+ [KM]iB/s", log.stderr, re.MULTILINE)
        self.assertEqual((lines, lines[-1]), (sorted(lines, key=int), "100"))
        self.assertRegex(log.stderr, r"iB/s, \d+ s left\n")
        self.assertEqual((quiet.returncode, quiet.stderr, bar.returncode), (OK, "", OK))
        self.assertRegex(shown, rb"\r\x1b\[Kfetching  \d+ % \[#+\.+\] \d+ of 430 KiB, [\d.]+ [KM]iB/s, \d+ s left")
        self.assertRegex(shown, rb"\r\x1b\[Kocellus: owner/Tiny-GGUF at commit c0ffee000000: 440320 bytes")

    # ---- connections

    def test_a_cut_connection_goes_on_where_it_was(self):
        hub = self.serve()
        hub.faults = [hub.cut(100 * KIB), hub.cut(50 * KIB)]
        self.assert_pulled(self.pull(hub), hub)
        self.assertEqual([headers.get("Range") for headers in hub.fetched(TEXT)], [None, f"bytes={100 * KIB}-", f"bytes={150 * KIB}-"])

    def test_a_killed_pull_leaves_a_part_that_the_next_one_finds(self):
        hub = self.serve()
        hub.faults = [hub.slow(0.2)]
        process = start("pull", NAME, home=self.home, hub=hub)
        end = time.monotonic() + 10
        while not (self.parts() and self.parts()[0].stat().st_size >= 128 * KIB) and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        finish(process)
        (part,) = self.parts()
        size = part.stat().st_size
        self.assertFalse((self.root / "refs").exists())
        done = self.pull(hub)
        self.assert_pulled(done, hub)
        self.assertIn(f"going on at byte {size} of {300 * KIB}", done.stderr)
        self.assertEqual(hub.fetched(TEXT)[-1]["Range"], f"bytes={size}-")
        self.assertEqual(self.parts(), [])

    def test_a_part_of_something_else_is_thrown_away(self):
        hub = self.serve()
        for content in (b"x" * (300 * KIB), b"x" * 77, b"x" * (400 * KIB)):
            with self.subTest(bytes=len(content)):
                shutil.rmtree(self.home, ignore_errors=True)
                self.blobs.mkdir(parents=True)
                (self.blobs / (sha256(FILES[TEXT]) + ".incomplete")).write_bytes(content)
                self.assert_pulled(self.pull(hub), hub)

    def test_a_hub_that_ignores_ranges_sends_it_all_again(self):
        hub = self.serve()
        hub.faults = [hub.cut(100 * KIB), hub.whole]
        self.assert_pulled(self.pull(hub), hub)
        self.assertEqual(len(hub.fetched(TEXT)), 2)

    def test_another_part_than_was_asked_for_is_not_taken(self):
        hub = self.serve()
        wrong = hub.refuse(206, body=FILES[TEXT][:1000], Content_Range=f"bytes 0-999/{300 * KIB}")
        hub.faults = [hub.cut(100 * KIB), wrong, hub.cut(10 * KIB), hub.refuse(416)]
        done = self.pull(hub)
        self.assert_pulled(done, hub)
        self.assertNotIn("not of one file", done.stderr)

    def test_a_file_that_changed_between_cut_and_rest_is_fetched_anew(self):
        hub = self.serve()
        other = random_bytes(300 * KIB, 9)

        def change(handler, name):
            hub.served[name] = other
            hub.send_range(handler, name)
            del hub.served[name]
            return True

        hub.faults = [hub.cut(100 * KIB), change]
        done = self.pull(hub)
        self.assert_pulled(done, hub)
        self.assertIn("not of one file", done.stderr)
        self.assertEqual([headers.get("Range") for headers in hub.fetched(TEXT)], [None, f"bytes={100 * KIB}-", None])

    def test_wrong_bytes_never_get_the_final_name(self):
        hub = self.serve()
        hub.served[VISION] = FILES[VISION][:-1] + b"?"
        done = self.pull(hub)
        self.assert_refused(done, RUNTIME, "mmproj-Tiny-Q8_0.gguf: the bytes that came have the hash .* instead of the hub's")
        self.assertEqual((self.parts(), list(self.root.glob("snapshots/*")), (self.root / "refs").exists()), ([], [], False))
        del hub.served[VISION]
        self.assert_pulled(self.pull(hub), hub)
        self.assertEqual(len(hub.fetched(TEXT)), 1)  # what was right stayed

    def test_a_hub_that_lies_about_sizes(self):
        hub = self.serve()
        for listed, sentence in [(300 * KIB - 1, "lists 307199 bytes, but sends 307200"), (300 * KIB + 1, "but sends 307200; nothing"),
                                 (1 << 62, "but the disk of .* free"), (0, "without its size"), (-5, "without its size"),
                                 (1.5, "without its size"), (1 << 64, "without its size"), ("many", "without its size")]:
            with self.subTest(listed=listed):
                hub.listed[TEXT] = {"lfs": {"sha256": sha256(FILES[TEXT]), "size": listed}}
                exit_code = BAD_INPUT if "without" in sentence else RUNTIME
                self.assert_refused(self.pull(hub), exit_code, sentence)
                self.assertEqual(self.parts(), [])
        hub.listed[TEXT] = {"lfs": {"sha256": "x", "size": 5}}
        self.assert_refused(self.pull(hub), BAD_INPUT, "without its size or its hash")
        hub.listed.clear()
        hub.faults = [hub.unsized(FILES[TEXT] + b"more")]
        self.assert_refused(self.pull(hub), RUNTIME, "lists 307200 bytes, but sends more")
        hub.faults = [hub.unsized(FILES[TEXT][:-10])]  # the rest is asked for
        self.assert_pulled(self.pull(hub), hub)

    def test_compressed_answers_are_decoded(self):
        hub = self.serve()
        hub.faults = [hub.compressed, hub.cut(40 * KIB), hub.compressed]
        self.assert_pulled(self.pull(hub), hub)

    def test_a_redirect_without_end_and_one_to_a_file(self):
        hub = self.serve()
        for place, sentence in [("file:///etc/passwd", "not https"), ("ftp://127.0.0.1/x", "not https"),
                                (hub.url + "/api/models/" + NAME, "redirects without end")]:
            with self.subTest(place=place):
                hub.refusals = [(302, {"Location": place})] * 50
                hub.requests.clear()
                self.assert_refused(self.pull(hub), RUNTIME, sentence)
                self.assertLessEqual(len(hub.requests), 11)

    def test_a_proxy_is_used_and_another_hub_is_never_asked(self):
        hub = self.serve()
        done = self.pull(hub, HF_ENDPOINT="http://hub.invalid", http_proxy=hub.url)
        self.assertIn("models/owner", hub.requests[0][1])
        self.assertEqual(hub.requests[0][2]["Host"], "hub.invalid")
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_a_token_is_not_sent_to_another_address(self):
        hub, other = self.serve(), self.serve()
        other.token = "hf_secret"
        hub.refusals = [(302, {"Location": other.url + f"/api/models/{NAME}/revision/main"})]
        self.assert_refused(self.pull(hub, HF_TOKEN="hf_secret"), RUNTIME, "no such model")
        self.assertNotIn("Authorization", other.requests[0][2])
        self.assertEqual(hub.requests[0][2]["Authorization"], "Bearer hf_secret")

    def test_tls_is_checked_and_never_left(self):
        if shutil.which("openssl") is None:
            self.skipTest("no openssl to make a certificate")
        self.home.mkdir()
        certificate = self.home / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=hub",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate, "-out", self.home / "public.pem"],
                       check=True, capture_output=True)
        certificate.write_text(certificate.read_text() + (self.home / "public.pem").read_text())
        hub = self.serve(certificate=certificate)
        self.assert_refused(self.pull(hub), RUNTIME, "cannot be reached .*certificate")
        trusted = {"SSL_CERT_FILE": str(self.home / "public.pem")}
        done = self.pull(hub, **trusted)
        self.assert_refused(done, RUNTIME, "redirects to an address that is not https")
        self.assertEqual(hub.asked("/store/"), [])
        hub.plain = {TEXT, VISION}
        self.assert_pulled(self.pull(hub, **trusted), hub)

    # ---- refusals

    def test_refusals_are_sentences(self):
        hub = self.serve()
        for status, headers, token, sentence in [
                (401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}, "", r"private and needs a token.*\(\"Repository"),
                (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, "hf_x", "does not accept the token"),
                (403, {"X-Error-Code": "GatedRepo"}, "hf_x", f"is gated: accept its terms at {hub.url}/{NAME}"),
                (401, {"X-Error-Code": "GatedRepo"}, "", "is gated"), (403, {}, "", "refuses access"),
                (404, {"X-Error-Code": "RepoNotFound"}, "hf_x", "no such model at the hub that this token may read"),
                (404, {"X-Error-Code": "RevisionNotFound"}, "", "no branch main"), (404, {}, "", "the hub has no such model"),
                (407, {}, "", "the proxy wants"), (400, {"X-Error-Message": "a\x1b[31mb"}, "", r"HTTP 400 \(\"a[^\x1b]*b\"\)"),
                (429, {"Retry-After": "1000"}, "", "fewer requests: try again in 1000 seconds")]:
            with self.subTest(status=status, headers=headers):
                hub.refusals = [(status, headers)]
                self.assert_refused(self.pull(hub, HF_TOKEN=token), RUNTIME, f"{NAME}: .*{sentence}")
                self.assertEqual(len(hub.requests), 1)
                hub.requests.clear()
        hub.faults = [hub.refuse(404, X_Error_Code="EntryNotFound")]
        self.assert_refused(self.pull(hub), RUNTIME, "no such file at the hub any more")

    def test_what_may_pass_is_tried_again(self):
        silent, busy, broken = hubs = [self.serve() for _ in range(3)]
        silent.faults = [silent.silent(64 * KIB, 20)]
        busy.refusals, busy.faults = [(429, {"Retry-After": "1"}), (503, {})], [busy.refuse(500)]
        broken.refusals = [(503, {})] * 10
        began = time.monotonic()
        all_three = [start("pull", NAME, home=self.home / str(i), hub=hub, HF_HUB_DOWNLOAD_TIMEOUT="1") for i, hub in enumerate(hubs)]
        for i, sentence in enumerate(["was cut \\(no byte came for 1 s\\); trying again in 0.1 s", "fewer requests.*; trying again in 1.0 s"]):
            done = finish(all_three[i])
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertRegex(done.stderr, sentence)
            self.assertEqual(pathlib.Path(done.stdout.split()[0]).read_bytes(), FILES[TEXT])
        self.assert_refused(finish(all_three[2]), RUNTIME, r"the hub fails \(HTTP 503\): try again later")
        self.assertEqual(len(broken.requests), 4)
        self.assertGreater(time.monotonic() - began, 2)  # 0.1 + 0.4 + 1.6 s
        self.assertLess(time.monotonic() - began, 10)
        self.assert_refused(self.pull(silent, HF_HUB_DOWNLOAD_TIMEOUT="soon"), USAGE, "write seconds")

    def test_a_hub_that_is_not_there_is_one_sentence_at_once(self):
        began = time.monotonic()
        self.assert_refused(run("pull", NAME, home=self.home), RUNTIME, "http://127.0.0.1:9 cannot be reached")
        self.assertLess(time.monotonic() - began, 1)

    # ---- the disk

    def test_a_full_disk_keeps_what_came(self):
        hub = self.serve()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200 * KIB, 200 * KIB))

        self.assert_refused(self.pull(hub, before=limit), RUNTIME, "cannot be written: File too large; the 204800 bytes .* stay")
        self.assertEqual([part.stat().st_size for part in self.parts()], [200 * KIB])
        self.assert_pulled(self.pull(hub), hub)
        self.assertEqual(hub.fetched(TEXT)[-1]["Range"], f"bytes={200 * KIB}-")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mount"), "only root can mount a small disk")
    def test_room_is_asked_for_before_anything_is_fetched(self):
        hub = self.serve()
        self.home.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", self.home], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.home], check=True)
        self.assert_refused(self.pull(hub), RUNTIME, r"needs 440320 bytes .* more, but the disk of .* has \d+ bytes")
        self.assertEqual(hub.asked("/store/"), [])
        filler = self.home / "filler"
        filler.write_bytes(bytes(64 * KIB))
        hub.files[TEXT] = FILES[TEXT][:100 * KIB]
        hub.faults = [lambda handler, name: filler.write_bytes(bytes(200 * KIB)) and False]  # another fills it meanwhile
        self.assert_refused(self.pull(hub), RUNTIME, "No space left on device; the .* stay for the next try")

    def test_a_folder_that_cannot_be_written_is_named(self):
        self.home.parent.joinpath("file").write_bytes(b"")
        done = run("pull", NAME, home=self.home.parent / "file", hub=self.serve())
        self.assert_refused(done, RUNTIME, r"file/hub/models--owner--Tiny-GGUF/blobs cannot be written: Not a directory")

    def test_damaged_files_of_others_are_found_and_fetched_again(self):
        hub = self.serve()
        for content in (FILES[TEXT][:-1] + b"?", FILES[TEXT][:1000]):  # of the same length, and short
            shutil.rmtree(self.home, ignore_errors=True)
            self.have(TEXT, content)
            self.have(VISION, FILES[VISION])
            hub.requests.clear()
            offline = self.pull(hub, "--offline")
            self.assertEqual(offline.returncode, RUNTIME)
            self.assertRegex(offline.stderr, "Tiny-Q8_0.gguf is not what its hash says")
            self.assertEqual(hub.requests, [])
            done = self.pull(hub)
            self.assert_pulled(done, hub)
            self.assertRegex(done.stderr, r"the cache's Tiny-Q8_0.gguf \(\d+ bytes\) is not what its hash says")
            self.assertEqual(hub.fetched(VISION), [])

    def test_two_at_once_fetch_once(self):
        hub = self.serve()
        hub.faults = [hub.slow(0.1), hub.slow(0.1)]
        both = [start("pull", NAME, home=self.home, hub=hub) for _ in range(2)]
        for done in map(finish, both):
            self.assert_pulled(done, hub)
        self.assertEqual((len(hub.fetched(TEXT)), len(hub.fetched(VISION))), (1, 1))

    def test_a_disk_without_links_has_the_files_themselves(self):
        compiler = shutil.which("cc")
        if compiler is None or os.environ.get("OCELLUS_SANITIZED") == "1":
            self.skipTest("no compiler, or a sanitizer that must come first")
        source, library = self.home.parent / "no_links.c", self.home.parent / "no_links.so"
        source.write_text("#include <errno.h>\nint symlink(const char* a, const char* b) { (void)a, (void)b; errno = EPERM; return -1; }\n"
                          "int link(const char* a, const char* b) { return symlink(a, b); }\n")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        hub = self.serve()
        for _ in range(2):
            self.assert_pulled(self.pull(hub, LD_PRELOAD=str(library)), hub)
        self.assertEqual([(self.snapshot / name).is_symlink() for name in (TEXT, VISION)], [False, False])
        self.assertEqual(len(hub.fetched(TEXT)), 1)
        hub.commit = OLD  # another commit with the same files
        self.assert_pulled(self.pull(hub, LD_PRELOAD=str(library)), hub)
        self.assertEqual(len(hub.fetched(TEXT)), 1)

    def test_a_new_commit_fetches_what_is_new(self):
        hub = self.serve()
        self.assert_pulled(self.pull(hub), hub)
        hub.commit = OLD
        hub.files[TEXT] = random_bytes(10 * KIB, 7)
        self.assert_pulled(self.pull(hub), hub)
        self.assertEqual(len(hub.fetched(VISION)), 1)
        self.assertEqual((self.snapshot / TEXT).read_bytes(), FILES[TEXT])  # the old one stays


class Cached(CacheTest):
    """What needs no connection, in builds without libcurl, too."""

    def plan(self, *flags, **options):
        return run("plan", "--json", "--images", 1, *flags, home=self.home, **options)

    def have_bundled(self, **options):
        for name, path in [("S-Q8_0.gguf", MODEL), ("mmproj-S-Q8_0.gguf", MMPROJ)]:
            folder = self.root / "snapshots" / options.get("commit", COMMIT)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(path)
        (self.root / "refs").mkdir(exist_ok=True)
        (self.root / "refs" / "main").write_text(options.get("main", COMMIT))

    def test_hf_uses_the_cached_pair_without_a_connection(self):
        self.have_bundled()
        for flags in [["-hf", NAME], [f"--hf-repo={NAME}:q8_0"], ["-hf", NAME, "--offline"], ["-hfr", NAME]]:
            done = self.plan(*flags)
            self.assertEqual((done.returncode, done.stderr), (OK, ""))
            self.assertIn("total_bytes", done.stdout)
        done = run("caption", "-hf", NAME, board("113"), home=self.home)
        self.assertEqual((done.stdout, done.stderr), (GREEN_STAR + "\n", ""))
        for flags in [["-m", MODEL], ["--shape", "SmolVLM-256M"], ["--mmproj", MMPROJ]]:
            self.assertEqual(self.plan("-hf", NAME, *flags).returncode, USAGE)
        self.assertEqual(self.plan("--offline").returncode, USAGE)

    def test_a_pair_in_another_snapshot_is_found_and_said(self):
        self.have_bundled(commit=OLD, main=COMMIT)
        done = self.plan("-hf", NAME, "--offline")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, f"{NAME} is complete in the cache at commit {OLD[:12]}, not at the newest that is known")
        self.have("other.gguf", b"x")  # the newest has another file alone
        self.assertEqual(self.plan("-hf", NAME + ":Q8_0").returncode, OK)

    def test_a_pair_without_links_is_found(self):
        for name in (TEXT, VISION):
            self.have(name, FILES[name], commit=OLD, main=COMMIT, is_link=False)
        done = self.plan("-hf", NAME, "--offline")
        self.assertRegex(done.stderr, "is complete in the cache at commit .*\n.*")
        if HAS_CURL:
            hub = self.serve()
            self.assert_pulled(self.pull(hub), hub)
            self.assertEqual(hub.asked("/store/"), [])
            shutil.rmtree(self.home)
            self.have(TEXT, FILES[TEXT], is_link=False)
            self.have(VISION, FILES[VISION], is_link=False)
            self.assertIn("they were not checked", self.pull(hub, "--offline").stderr)

    def test_offline_never_connects(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        listener.settimeout(0.05)
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for flags, variables in [(["--offline"], {}), ([], {"HF_HUB_OFFLINE": "1"}), ([], {"HF_HUB_OFFLINE": "YES"})]:
            done = self.plan("-hf", NAME, *flags, HF_ENDPOINT=endpoint, **variables)
            self.assertEqual(done.returncode, RUNTIME)
            self.assertRegex(done.stderr, f"{NAME} is not in the cache at .*, and nothing may be fetched")
            if HAS_CURL:
                self.assertEqual(run("pull", NAME, *flags, home=self.home, HF_ENDPOINT=endpoint, **variables).returncode, RUNTIME)
        self.have_bundled()
        for arguments in [["plan", "--shape", "SmolVLM-256M"], ["caption", "-n", 1, board("113")], ["plan", "-hf", NAME]]:
            done = run(*arguments, home=self.home, HF_ENDPOINT=endpoint, LD_DEBUG="libs")
            self.assertEqual(done.returncode, OK)
            self.assertNotIn("libcurl", done.stderr)  # it is not even loaded
        with self.assertRaises(TimeoutError):
            listener.accept()

    def test_a_text_model_alone_is_said(self):
        self.have_bundled()
        (self.snapshot / "mmproj-S-Q8_0.gguf").unlink()
        done = run("plan", "--images", 0, "-hf", NAME, "--offline", home=self.home)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("no vision part", done.stderr)

    @unittest.skipIf(HAS_CURL, "this build fetches")
    def test_a_build_without_libcurl_says_so(self):
        done = run("pull", NAME, home=self.home)
        self.assertEqual(done.returncode, RUNTIME)
        self.assertRegex(done.stderr, r"\Aocellus: owner/Tiny-GGUF: this build has no libcurl and fetches nothing; .*\.\n\Z")

    @unittest.skipUnless(HAS_CURL, "this build fetches nothing")
    def test_hf_fetches_what_is_not_there(self):
        hub = self.serve({"S-Q8_0.gguf": MODEL.read_bytes(), "mmproj-S-Q8_0.gguf": MMPROJ.read_bytes()})
        done = run("caption", "-hf", NAME, board("113"), home=self.home, hub=hub)
        self.assertEqual(done.stdout, GREEN_STAR + "\n", done.stderr)
        self.assertRegex(done.stderr, "fetching .* bytes")
        hub.stop()
        done = run("caption", "-hf", NAME, "--json", board("113"), home=self.home)
        self.assertEqual(json.loads(done.stdout)["answer"], GREEN_STAR)
        self.assertIn("is gated", run("plan", "-hf", "owner/Other", home=self.home, hub=self.gated()).stderr)

    def gated(self):
        hub = self.serve()
        hub.refusals = [(403, {"X-Error-Code": "GatedRepo"})]
        return hub


if __name__ == "__main__":
    unittest.main()
