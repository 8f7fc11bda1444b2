"""The addresses that `watch` and `serve` print: those that others can open, on a terminal with their token."""

import os
import re
import select
import subprocess
import unittest
import urllib.error
import urllib.request

from program import PROGRAM, needs_http

TOKEN = "s3cret"


@needs_http
class Addresses(unittest.TestCase):
    def listen(self, arguments, address, terminal):
        """The addresses printed, once all of them have been opened; the rest of stderr is checked for the token."""
        ours, its = os.openpty() if terminal else os.pipe()
        process = subprocess.Popen([PROGRAM, *arguments, "--quiet", "--http", address, "--token", TOKEN],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its)
        os.close(its)
        said = b""
        try:
            while b"ocellus: http" not in said or select.select([ours], [], [], 1)[0]:
                more = os.read(ours, 65536)
                self.assertTrue(more, said)
                said += more
            found = re.findall(r"(?m)^ocellus: (http\S+)\r?$", said.decode())
            for one in found:
                self.check(one.split("/#")[0], arguments[0])
        finally:
            process.terminate()
            process.wait(30)
        try:
            while more := os.read(ours, 65536):
                said += more
        except OSError:
            pass  # the end of a terminal
        os.close(ours)
        self.assertEqual(said.decode().count(TOKEN), len(found) if terminal else 0, said)
        return found

    def check(self, url, command):
        def get(path, **headers):
            with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=30) as answer:
                return answer.read().decode()
        page = get("/", Authorization=f"Bearer {TOKEN}")
        self.assertIn("/v1 as base URL" if command == "serve" else "<title>Ocellus</title>", page)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            get("/", Accept="text/html")
        with refused.exception as answer:
            self.assertEqual(answer.status, 401)
            self.assertIn('name="token"', answer.read().decode())

    def test_all_interfaces_are_listed_by_the_addresses_that_a_phone_can_open(self):
        for arguments in (["watch", "synthetic"], ["serve"]):
            with self.subTest(arguments=arguments):
                plain = self.listen(arguments, "0.0.0.0:0", terminal=False)
                self.assertRegex(plain[0], r"^http://127\.0\.0\.1:\d+$")
                self.assertFalse([one for one in plain if "0.0.0.0" in one])
                links = self.listen(arguments, "0.0.0.0:0", terminal=True)
                self.assertEqual([re.sub(r":\d+(/#token=s3cret)$", "", one) for one in links],
                                 [re.sub(r":\d+$", "", one) for one in plain])

    def test_a_single_address_has_its_token_on_a_terminal_too(self):
        (link,) = self.listen(["serve"], "127.0.0.1:0", terminal=True)
        self.assertRegex(link, r"^http://127\.0\.0\.1:\d+/#token=s3cret$")


if __name__ == "__main__":
    unittest.main()
