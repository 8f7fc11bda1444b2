"""The cache of models, shared with the hub's own client for Python: what either fetches the other finds. Run as a program
it makes itself a virtual environment with that client, below the build folder, where it is not installed; where that
cannot be had, or with other tests, it is skipped."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from loopback_hub import COMMIT, Hub
from program import OK
from pull_test import FILES, HAS_CURL, NAME, TEXT, VISION, run
from virtual_environment import go_on_with

HAS_CLIENT = importlib.util.find_spec("huggingface_hub") is not None
HERE = pathlib.Path(__file__).resolve().parent
FETCH = """import sys
from huggingface_hub import hf_hub_download
for name in sys.argv[2:]:
    print(hf_hub_download(sys.argv[1], name))
"""
SCAN = """from huggingface_hub import scan_cache_dir
found = scan_cache_dir()
(repository,) = found.repos
(revision,) = repository.revisions
print(len(found.warnings), repository.repo_id, revision.commit_hash, sorted(revision.refs), revision.size_on_disk)
"""


@unittest.skipUnless(HAS_CLIENT, "the huggingface_hub package is not installed: run this file as a program")
@unittest.skipUnless(HAS_CURL, "this build fetches nothing")
class SharedCache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.hub = Hub(FILES)
        self.addCleanup(self.hub.stop)

    def client(self, script, *arguments, **variables):
        done = subprocess.run([sys.executable, "-B", "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.url, "HF_HUB_DISABLE_XET": "1",
                                   "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **variables})
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def test_the_client_finds_what_was_pulled(self):
        pulled = run("pull", NAME, home=self.home, hub=self.hub)
        self.assertEqual(pulled.returncode, OK, pulled.stderr)
        fetched = len(self.hub.asked("/store/"))
        self.assertEqual(self.client(FETCH, NAME, TEXT, VISION, HF_HUB_OFFLINE="1"), pulled.stdout)
        self.assertEqual(self.client(FETCH, NAME, TEXT, VISION), pulled.stdout)
        self.assertEqual(len(self.hub.asked("/store/")), fetched)
        size = sum(len(FILES[name]) for name in (TEXT, VISION))
        self.assertEqual(self.client(SCAN), f"0 {NAME} {COMMIT} ['main'] {size}\n")

    def test_what_the_client_fetched_is_found(self):
        fetched = self.client(FETCH, NAME, TEXT, VISION)
        self.hub.requests.clear()
        for flags in [[], ["--offline"]]:
            pulled = run("pull", NAME, *flags, home=self.home, hub=self.hub)
            self.assertEqual((pulled.returncode, pulled.stdout), (OK, fetched), pulled.stderr)
            self.assertIn("all were in the cache; their hashes are right", pulled.stderr)
        self.assertEqual(len(self.hub.requests), 1)

    def test_a_client_without_links_leaves_files_that_are_found(self):
        self.client(FETCH, NAME, TEXT, VISION, HF_HUB_DISABLE_SYMLINKS="1")
        self.hub.requests.clear()
        pulled = run("pull", NAME, home=self.home, hub=self.hub)
        self.assertEqual(pulled.returncode, OK, pulled.stderr)
        self.assertEqual(self.hub.asked("/store/"), [])

    def test_what_the_client_left_of_two_versions_is_told(self):
        """The client checks lengths only: a hub that changes a file after the first part leaves both halves."""
        path = pathlib.Path(self.client(FETCH, NAME, TEXT).strip())
        content = path.read_bytes()
        path.resolve().write_bytes(content[:1000] + bytes(len(content) - 1000))
        self.assertEqual(self.client(FETCH, NAME, TEXT).strip(), str(path))
        pulled = run("pull", NAME, home=self.home, hub=self.hub)
        self.assertEqual(pulled.returncode, OK, pulled.stderr)
        self.assertIn("is not what its hash says", pulled.stderr)
        self.assertEqual(path.read_bytes(), content)


if __name__ == "__main__":
    if not HAS_CLIENT:
        try:
            go_on_with("hub-client", HERE / "hub_client_requirements.txt")
        except subprocess.CalledProcessError:
            print("hub_client_test: the package huggingface_hub cannot be had here, so the shared cache was not tried")
    unittest.main()
