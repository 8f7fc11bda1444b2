"""The page of `ocellus serve` in a real browser, against the program."""

import json
import pathlib
import re
import tempfile
import time
import unittest

from page_checks import POOR_CONTRAST, SMALL, PageTest, open_page, setUpModule, tearDownModule
from program import SOURCE, needs_http
from server import Server, image_part, user

SAMPLES = SOURCE / "apps" / "samples"
ONE, TWO, THREE = (str(SAMPLES / f"board_0{number}.png") for number in (1, 2, 3))
RING = "Which images show a red ring?"
HOSTILE = "<img src=/none onerror=\"window.hacked=1\"><script>window.hacked=1</script>"
# An answer of this form takes seconds.
LONG = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1500, "maxLength": 1500}}, "required": ["a"]}
DONE = "document.querySelector('#turns li') && !document.querySelector('.running') && document.querySelector('#send').checkVisibility()"
# Keeps the requests that the page makes.
LISTEN = """(() => {
  const real = window.fetch;
  window.sent = [];
  window.fetch = (address, options) => {
    if (options?.body) sent.push(JSON.parse(options.body));
    return real(address, options);
  };
  return 1;
})()"""


@needs_http
class TalkTest(PageTest):
    flags = ["--threads", 2, "--images", 3, "--budget", "300M"]
    ready = "document.querySelector('#pill').textContent === 'Ready' && document.querySelector('#memory-box').checkVisibility()"

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags)
        cls.addClassCleanup(cls.server.stop)
        cls.url = cls.server.url

    def choose(self, *paths):
        """As in the dialog for files, which no script can open."""
        before = len(self.page.all("#waiting li"))
        root = self.page.send("DOM.getDocument")["root"]["nodeId"]
        node = self.page.send("DOM.querySelector", nodeId=root, selector="#files")["nodeId"]
        self.page.send("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])
        self.wait(f"document.querySelectorAll('#waiting li').length === {before + len(paths)}")

    def ask(self, question):
        turns = len(self.page.all("#turns > li"))
        self.page.fill("#question", question)
        self.page.press("Enter")
        self.wait(f"document.querySelectorAll('#turns > li').length > {turns} && {DONE}", limit_s=60)
        return self.page.all("#turns .answer")[-1]

    def set_form(self, name):
        self.page.evaluate(f"document.querySelector('#form').value = '{name}'; document.querySelector('#form').dispatchEvent(new Event('change')); 1")
        self.wait("document.querySelector('#schema-box').checkVisibility() && (document.querySelector('#form').value === 'own' || document.querySelector('#schema').value)")

    def set_schema(self, schema):
        self.set_form("own")
        self.page.evaluate(f"document.querySelector('#schema').value = {json.dumps(schema)}; 1")


class TalkPage(TalkTest):
    # Talking
    def test_an_answer_streams_and_the_next_question_goes_on_from_it(self):
        page = self.open()
        page.evaluate(LISTEN)
        page.evaluate("""window.seen = []; new MutationObserver(() => {
          const answer = document.querySelector('.answer.running');
          if (answer) seen.push(answer.textContent);
        }).observe(document.querySelector('#turns'), {subtree: true, childList: true, characterData: true}); 1""")
        self.choose(ONE)
        caption = self.ask("Describe this image.")
        first = [user(image_part(ONE), "Describe this image.")]
        self.assertEqual(caption, self.server.ask(first))
        pieces = [text for text in page.evaluate("seen") if text]
        self.assertGreater(len(set(pieces)), 5, "it does not stream")
        self.assertTrue(all(caption.startswith(text) for text in pieces))
        self.assertRegex(page.text("#turns .cost"), r"^\d+ tokens · [\d.]+\u00a0m?s in all$")
        self.assertRegex(page.text("#speed-rate"), r"^[\d.]+$")
        self.assertRegex(page.text("#speed-first"), r"^[\d.]+m?s$")
        self.becomes(lambda: page.text("#spoken"), caption)
        answer = self.ask("What colour is the ring?")
        conversation = [*first, {"role": "assistant", "content": caption}, {"role": "user", "content": "What colour is the ring?"}]
        self.assertEqual(page.evaluate("sent.at(-1).messages"), conversation)
        self.assertEqual(answer, self.server.ask(conversation))
        self.assertGreater(int(page.text("#speed-cached")), 0)
        page.click("#renew")
        self.becomes(lambda: page.all("#turns > li"), [])
        self.ask("Describe this image.")
        self.becomes(lambda: page.evaluate("sent.at(-1).messages.length"), 1, "nothing is left of the old conversation")

    def test_pictures_are_chosen_dropped_pasted_and_taken_away(self):
        page = self.open()
        page.evaluate(LISTEN)
        self.choose(ONE, TWO)
        data = {"items": [], "files": [THREE], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver"):
            page.send("Input.dispatchDragEvent", type=kind, x=300, y=300, data=data)
        self.wait("document.querySelector('#drop').checkVisibility()")
        page.send("Input.dispatchDragEvent", type="drop", x=300, y=300, data=data)
        self.wait("document.querySelectorAll('#waiting li').length === 3 && !document.querySelector('#drop').checkVisibility()")
        self.becomes(lambda: page.all("#waiting img", "alt"), ["board_01.png", "board_02.png", "board_03.png"])
        self.becomes(lambda: page.all("#waiting img", "one.naturalWidth > 0"), [True] * 3)
        page.click("[aria-label='Remove board_02.png']")
        self.becomes(lambda: page.all("#waiting img", "alt"), ["board_01.png", "board_03.png"])
        page.evaluate(f"""(async () => {{
          const bytes = Uint8Array.from(atob('{image_part(TWO)["image_url"]["url"].split(",")[1]}'), one => one.charCodeAt(0));
          const clipboardData = new DataTransfer();
          clipboardData.items.add(new File([bytes], {json.dumps(HOSTILE)}, {{type: 'image/png'}}));
          document.querySelector('#question').dispatchEvent(new ClipboardEvent('paste', {{clipboardData, bubbles: true, cancelable: true}}));
        }})()""")
        self.becomes(lambda: page.all("#waiting img", "alt"), ["board_01.png", "board_03.png", HOSTILE])
        answer = self.ask(RING)
        self.becomes(lambda: page.all("#waiting li"), [])
        self.assertEqual(page.evaluate("sent.at(-1).messages"), [user(*map(image_part, (ONE, THREE, TWO)), RING)])
        self.assertEqual(answer, self.server.ask([user(*map(image_part, (ONE, THREE, TWO)), RING)]))
        self.assertEqual(len(page.all("#turns .shown img")), 3)
        page.evaluate("document.dispatchEvent(new DragEvent('drop', {dataTransfer: new DataTransfer(), cancelable: true})); 1")
        self.wait_text("#ask-error", "Only files can be dropped")
        self.assertFalse(page.evaluate("Boolean(window.hacked)"))

    def test_an_answer_that_is_stopped_stays_and_frees_the_program(self):
        page = self.open()
        self.set_schema(json.dumps(LONG))
        page.evaluate("document.querySelector('#tokens').value = '2000'; 1")
        for stop in (lambda: page.click("#stop"), lambda: page.press("Escape")):
            page.fill("#question", "Go on.")
            page.press("Enter")
            self.wait("document.querySelector('.answer.running')?.textContent.length > 20")
            self.assertFalse(page.evaluate("document.querySelector('#send').checkVisibility()"))
            stop()
            self.wait(DONE)
            self.becomes(lambda: page.all("#turns .cost")[-1].split(" · ")[-1], "stopped")
            self.wait_until(lambda: self.server.metric("ocellus_num_requests_running") == 0)
        self.assertEqual(len(page.all("#turns > li")), 2)
        self.becomes(lambda: page.evaluate("document.querySelector('#question').value"), "")

    def test_an_answer_of_a_schema_is_a_table(self):
        page = self.open()
        self.choose(ONE)
        self.set_form("yes_no")
        self.assertEqual(json.loads(page.evaluate("document.querySelector('#schema').value")),
                         json.loads((SOURCE / "apps" / "schemas" / "yes_no.json").read_text()))
        self.ask("Is there a red ring?")
        self.becomes(lambda: page.all(".answer th"), ["answer", "reason"])
        answer = json.loads(page.text("#turns .answer + details pre"))
        self.assertEqual(page.all(".answer td"), [answer["answer"], answer["reason"]])
        constant = {"objects": [{"kind": HOSTILE, "n": 1}, {"kind": "car"}]}
        self.set_schema(json.dumps({"const": constant}))
        self.ask("Which objects?")
        self.becomes(lambda: page.all("#turns > li:last-child .listed th"), ["kind", "n"])
        self.becomes(lambda: page.all("#turns > li:last-child .listed td"), [HOSTILE, "1", "car", ""])
        self.assertFalse(page.evaluate("Boolean(window.hacked)"))

    def test_what_is_refused_is_told_in_the_programs_words_and_comes_back(self):
        self.allowed = "status of 400"
        page = self.open()
        with tempfile.TemporaryDirectory() as folder:
            letter = pathlib.Path(folder, "letter.txt")
            letter.write_text("Dear program, this is no picture.")
            broken = pathlib.Path(folder, "broken.png")
            broken.write_bytes(b"\x89PNG\r\n\x1a\n")
            for paths, sentence in [([ONE, TWO, THREE, ONE], "The request has 4 pictures, and memory is planned for 3"),
                                    ([letter], "The data URL is not one of a picture"), ([broken], "messages[0]")]:
                self.choose(*paths)
                status, told = self.server.post({"messages": [user(*map(self.part, paths), "What is it?")]})
                self.assertEqual(status, 400)
                self.ask_in_vain("What is it?", told["error"]["message"])
                if sentence.startswith("The"):
                    self.comes_to_hold(lambda: page.text("#ask-error"), sentence)
                self.becomes(lambda: len(page.all("#waiting li")), len(paths))
                for _ in paths:
                    page.click("#waiting button")
        for schema, sentence in [("{", "The schema is not JSON: "), ('{"type": "colour"}', "type")]:
            self.set_schema(schema)
            self.ask_in_vain("What is it?", sentence)
        page.evaluate("document.querySelector('#tokens').value = '0'; 1")
        self.ask_in_vain("What is it?", "The most tokens of an answer are a whole number")

    @staticmethod
    def part(path):
        if not str(path).endswith(".txt"):
            return image_part(path)
        return {"type": "image_url", "image_url": {"url": "data:text/plain;base64,AAAA"}}

    def ask_in_vain(self, question, sentence):
        self.page.fill("#question", question)
        self.page.press("Enter")
        self.wait_text("#ask-error", sentence)
        self.becomes(lambda: self.page.evaluate("document.querySelector('#question').value"), question)
        self.becomes(lambda: self.page.all("#turns > li"), [])

    def test_pictures_that_are_too_large_are_told_and_come_back(self):
        self.allowed = "status of 413"
        page = self.open()
        page.send("Network.disable")  # or it would send the whole body to this test
        with tempfile.TemporaryDirectory() as folder:
            large = pathlib.Path(folder, "large.png")
            large.write_bytes(pathlib.Path(ONE).read_bytes() + bytes(26 << 20))
            self.choose(large)
            self.ask_in_vain("What is it?", "The body is larger than the 33554432 bytes that are taken.")
        self.becomes(lambda: page.all("#waiting img", "alt"), ["large.png"])

    def test_a_program_that_ends_is_told_and_the_question_stays(self):
        self.allowed = "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY"
        server = Server("--threads", 1)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        self.url = server.url
        page = self.open()
        server.stop()
        page.fill("#question", "Are you there?")
        page.press("Enter")
        self.wait_text("#ask-error", "The program did not answer; it may have ended.")
        self.becomes(lambda: page.evaluate("document.querySelector('#question').value"), "Are you there?")
        self.wait_text("#pill", "No connection")

    # Numbers
    def test_the_memory_is_that_of_the_plan(self):
        page = self.open()
        plan = [self.server.metric(f'ocellus_plan_bytes{{lifetime="{part}"}}') for part in ("weights", "session", "scratch", "staging")]
        self.assertGreater(min(plan[:3]), 1 << 20)
        budget = 300 << 20
        self.assertEqual(self.server.metric("ocellus_budget_bytes"), budget)
        self.becomes(lambda: page.text("#memory-total"), f"{sum(plan) / 2**20:.1f}\u00a0MiB of 300.0\u00a0MiB")
        widths = page.all("#memory-bar i", "parseFloat(one.style.width)")
        for width, bytes_ in zip(widths, [*plan, budget - sum(plan)], strict=True):
            self.assertAlmostEqual(width, 100 * bytes_ / budget, places=2)
        self.comes_to_hold(lambda: page.evaluate("document.querySelector('#memory-bar').getAttribute('aria-label')"), "Weights 35.")
        self.ask("What is in an image?")
        self.assertRegex(page.text("#load"), r"^\d+, \d+$")

    # People
    def talk(self):
        page = self.open()
        self.choose(ONE, TWO)
        self.ask(RING)
        self.set_form("count")
        self.choose(THREE)
        self.ask("W" * 200)
        page.click("#turns .answer + details summary")
        self.choose(ONE)
        page.evaluate("show_error('ask-error', 'W'.repeat(200)); 1")
        return page

    def test_it_is_seen_and_reached_from_phones_to_wide_screens(self):
        page = self.talk()
        for width, height in [(360, 740), (390, 844), (820, 1180), (1280, 800), (1920, 1080)]:
            page.emulate(width, height, phone=width < 500)
            self.becomes(lambda: page.evaluate("innerWidth"), width)
            self.becomes(lambda: page.all("html", "one.scrollWidth - one.clientWidth"), [0])
            outside = page.all(".panel, .turns, #ask .row, .figures dd, .pairs dd, .shown span",
                               "(one.scrollWidth > one.clientWidth + 1 || "
                               "one.getBoundingClientRect().right > innerWidth + 1) && one.outerHTML")
            self.assertEqual([one for one in outside if one], [], f"at {width} pixels")
            seen, poor = self.until(lambda: page.evaluate(SMALL), lambda found: not found[1])
            self.assertGreater(seen, 90)
            self.assertEqual(poor, [], f"at {width} pixels")
        for dark in (False, True):
            page.emulate(dark=dark)
            self.wait(f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'")
            seen, poor = self.until(lambda: page.evaluate(POOR_CONTRAST), lambda found: not found[1])
            self.assertGreater(seen, 40)
            self.assertEqual(poor, [])

    def test_everything_has_a_name_and_is_reached_by_keys(self):
        page = self.talk()
        ids = page.all("[id]", "id")
        self.assertEqual(sorted(ids), sorted(set(ids)))
        page.send("Accessibility.enable")
        nodes = [node for node in page.send("Accessibility.getFullAXTree")["nodes"] if node.get("role", {}).get("value") in
                 ("button", "textbox", "combobox", "spinbutton", "link", "form", "region", "image")]
        self.assertGreater(len(nodes), 18)
        self.assertEqual([node for node in nodes if not node.get("name", {}).get("value")], [])
        page.evaluate("document.activeElement.blur(); 1")
        page.press("/")
        self.becomes(lambda: page.evaluate("document.activeElement.id"), "question")
        reached = set()
        for _ in range(40):
            page.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
        self.assertLessEqual({"add", "form", "tokens", "schema", "renew", "theme", "turns-box", "Remove board_01.png"}, reached)
        self.assertEqual([one for one in page.requests if not one.startswith((self.url + "/", "data:"))], [])

    def test_a_browser_gets_the_page_and_other_clients_a_sentence(self):
        for accept, kind, begin in [("text/html,*/*", "text/html; charset=utf-8", b"<!doctype html>"),
                                    ("*/*", "text/plain; charset=utf-8", b"This is `ocellus serve`")]:
            status, headers, body = self.server.request("GET", "/", headers={"Accept": accept})
            self.assertEqual((status, headers["Content-Type"]), (200, kind))
            self.assertTrue(body.startswith(begin))
        self.assertIn("default-src 'none'", self.server.request("GET", "/talk.js")[1]["Content-Security-Policy"])


class TokenTalk(TalkTest):
    flags = ["--threads", 1, "--token", "s3cret"]
    allowed = "401"

    def test_a_token_opens_the_page_and_leaves_the_address(self):
        self.page = page = open_page(phone=True, width=390, height=844)
        self.addCleanup(page.close)
        page.send("Network.clearBrowserCookies")
        page.open(self.url)
        self.comes_to_hold(lambda: page.text("form"), "A token is needed")
        page.fill("#token", "s3cret")
        page.press("Enter")
        self.wait(f"document.querySelector('#memory-box') && {self.ready}")
        self.assertEqual((page.evaluate("location.href"), page.evaluate("document.cookie")), (self.url + "/", ""))
        self.assertTrue(self.ask("What is in an image?"))
        self.assertNotIn("s3cret", page.evaluate("document.documentElement.outerHTML") + json.dumps(page.requests))


class KeyTalk(TalkTest):
    allowed = "status of 40[13]"

    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w") as keys:  # its owner's only
            keys.write("ann-key ann\nsum-key metrics\n")
            keys.flush()
            cls.flags = ["--threads", 1, "--api-keys", keys.name]
            super().setUpClass()

    def test_the_page_asks_for_a_key(self):
        self.ready = "document.querySelector('#key-form').checkVisibility()"
        page = self.open()
        time.sleep(2)  # what the page consists of may still be coming
        page.evaluate("1")
        asked = len(page.requests)
        time.sleep(2.2)
        page.evaluate("1")
        self.assertEqual(len(page.requests), asked, "nothing is asked for in vain")
        page.fill("#key", "wrong")
        page.press("Enter")
        self.wait_text("#key-error", "This API key is none of the server's.")
        page.fill("#key", "ann-key")
        page.press("Enter")
        self.wait_text("#pill", "Ready")
        self.wait_text("#memory-empty", "Metrics are sums over all users")
        self.wait("!document.querySelector('#key-form').checkVisibility()")
        self.choose(ONE)
        self.assertIn("ring", self.ask("Describe this image."))
        page.evaluate("document.querySelector('#key').value = 'sum-key'; document.querySelector('#key-form').requestSubmit(); 1")
        self.wait("document.querySelector('#memory-box').checkVisibility()")


if __name__ == "__main__":
    unittest.main()
