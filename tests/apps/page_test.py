"""The page of `ocellus watch --http` in a real browser: against a scripted server, then against the program."""

import json
import os
import re
import subprocess
import sys
import time
import unittest
import urllib.request

from browser import Browser, BrowserFailure, find_browser
from fake_watch import MIB, FakeWatch, draw_picture, now_ms
from page_checks import POOR_CONTRAST, SMALL, PageTest, open_page, setUpModule, tearDownModule
from program import PROGRAM, needs_http

RED = "A large red circle on the left, on a navy background."
STAR = "A green star at the top left, on a gray background."
HOSTILE = "<img src=/none onerror=\"window.hacked=1\"><script>window.hacked=1</script>"
SHOWN = "document.querySelector('#picture').dataset.sequence"


class WatchTest(PageTest):
    def pixels(self):
        """Red, green, blue, alpha of 8 x 8 points of the picture, row by row."""
        return self.page.evaluate("""(() => {
          const small = new OffscreenCanvas(8, 8).getContext('2d', {willReadFrequently: true});
          small.imageSmoothingEnabled = false;
          small.drawImage(document.querySelector('#picture'), 0, 0, 8, 8);
          return [...small.getImageData(0, 0, 8, 8).data];
        })()""")


class FakePage(WatchTest):
    def setUp(self):
        self.watch = FakeWatch()
        self.addCleanup(self.watch.stop)
        self.url = self.watch.url

    def posted(self, path):
        return [body for where, body, _ in self.watch.posts if where == path]

    # Picture and caption
    def test_the_newest_picture_is_drawn(self):
        page = self.open()
        self.becomes(lambda: page.evaluate("document.querySelector('#stage').dataset.state"), "empty")
        self.comes_to_hold(lambda: page.text("#nothing"), "Waiting for the first frame")
        for sequence, ground in [(7, (200, 10, 20)), (8, (10, 20, 200))]:
            self.watch.show(sequence, draw_picture(sequence, ground=ground))
            self.wait(f"{SHOWN} === '{sequence}'")
            self.assertEqual(tuple(self.pixels()[:3]), ground)
        self.becomes(lambda: page.evaluate("document.querySelector('#stage').dataset.state"), "running")
        self.comes_to_hold(lambda: page.text("#frame-facts"), "Frame 8 ")

    def test_pictures_are_fetched_one_at_a_time_and_old_ones_are_passed_over(self):
        page = self.open()
        self.watch.delay_s["/frame.jpg"] = 0.1
        picture = draw_picture(1, 64, 48)
        for sequence in range(1, 121):
            self.watch.show(sequence, picture)
            time.sleep(0.005)
        self.wait(f"{SHOWN} === '120'")
        fetched = [one for one in page.requests if "/frame.jpg" in one]
        self.assertEqual(self.watch.most_at_once, 1)
        self.assertLess(len(fetched), 60)
        self.assertGreater(len(fetched), 1)

    def test_a_picture_that_cannot_be_had_is_noted_and_comes_back(self):
        self.allowed = "500"
        self.open()
        self.watch.failing["/frame.jpg"] = (500, "broken")
        for sequence in range(1, 5):
            self.watch.show(sequence)
            time.sleep(0.4)
        self.wait_text("#notes", "live picture cannot be fetched")
        self.watch.failing.clear()
        self.watch.show(9)
        self.wait(f"{SHOWN} === '9'")

    def test_a_caption_streams_word_by_word_and_stays_long_enough_to_read(self):
        page = self.open()
        page.evaluate("""window.seen = []; new MutationObserver(() => {
          window.seen.push([document.querySelector('#caption-text').textContent, performance.now()]);
        }).observe(document.querySelector('#caption'), {subtree: true, childList: true}); 1""")
        self.watch.show(1)
        self.watch.begin_caption(1)
        for piece, whole in [("A large", "A large"), (" red", "A large red"), (" circle", "A large red circle")]:
            self.watch.emit("caption_text", {"id": 1, "text": piece})
            self.wait(f"document.querySelector('#caption-text').textContent === {json.dumps(whole)}")
            self.assertTrue(page.evaluate("document.querySelector('#caption-box').classList.contains('streaming')"))
        self.watch.emit("caption_end", self.watch.make_record(1, "A large red circle."))
        self.watch.caption(2, STAR)
        self.wait(f"document.querySelector('#caption-text').textContent === {json.dumps(STAR)}")
        first_shown = {}
        for text, at_ms in page.evaluate("seen"):
            first_shown.setdefault(text, at_ms)
        self.assertGreater(first_shown[STAR] - first_shown["A large red circle."], 1000)
        self.wait("document.querySelectorAll('#history li').length === 2")
        self.becomes(lambda: page.text("#spoken"), "A large red circle.", "screen readers are not told every caption")

    def test_boxes_and_points_are_shown_where_they_are_in_the_picture(self):
        page = self.open()
        self.watch.show(1)
        self.wait(f"{SHOWN} === '1'")
        self.assertEqual(page.evaluate("document.querySelector('#places').checkVisibility()"), False)
        places = [{"label": "car", "box": [64, 48, 320, 240]}, {"label": HOSTILE, "point": [480, 360]},
                  {"label": "", "box": [0, 0, 640, 480]}]
        self.watch.caption(1, '[{"bbox_2d": [100, 100, 500, 500]}]', places=places, width=640, height=480)
        self.wait("document.querySelectorAll('#places path').length === 4")
        self.becomes(lambda: page.text("#caption-text"), '[{"bbox_2d": [100, 100, 500, 500]}]')
        self.assertEqual(page.evaluate("[...document.querySelectorAll('#places text')].map(node => node.textContent)"),
                         ["car", HOSTILE])
        self.comes_to_hold(lambda: page.evaluate("document.querySelector('#places').getAttribute('aria-label')"), "car")
        colours = "[...document.querySelectorAll('#places .box')].map(node => getComputedStyle(node).stroke)"
        self.assertEqual(len(set(page.evaluate(colours))), 2)
        shown = """(() => {
          const {left, top, width, height} = document.querySelector('#picture').getBoundingClientRect();
          const scale = Math.min(width / 640, height / 480);
          const x = left + (width - 640 * scale) / 2, y = top + (height - 480 * scale) / 2;
          const box = document.querySelector('#places .box').getBoundingClientRect();
          const point = document.querySelector('#places .point').getBoundingClientRect();
          const letters = parseFloat(document.querySelector('#places text').getAttribute('font-size')) * scale;
          return [(box.left - x) / scale, (box.top - y) / scale, (box.right - x) / scale, (box.bottom - y) / scale,
                  ((point.left + point.right) / 2 - x) / scale, ((point.top + point.bottom) / 2 - y) / scale, letters];
        })()"""
        for width, height in [(1280, 720), (1920, 1080), (1024, 768), (390, 844)]:
            page.emulate(width, height, phone=width < 500)
            near = lambda found: all(abs(one - right) < 4 for one, right in zip(found, [64, 48, 320, 240, 480, 360]))
            found = self.until(lambda: page.evaluate(shown), lambda found: near(found) and found[6] >= 12)
            self.assertTrue(near(found) and found[6] >= 12, f"{found} at {width} x {height}")
        self.assertFalse(page.evaluate("Boolean(window.hacked)"))
        time.sleep(1.3)
        self.watch.begin_caption(2)
        self.watch.emit("caption_text", {"id": 2, "text": "None"})
        self.wait_text("#caption-text", "None")
        self.assertEqual(page.evaluate("document.querySelectorAll('#places path').length"), 4, "they stay meanwhile")
        self.watch.emit("caption_end", self.watch.make_record(2, "None."))
        self.wait("!document.querySelector('#places').checkVisibility()")

    def test_an_answer_in_json_is_a_table_wherever_captions_are(self):
        page = self.open()
        answer = {"count": 2, HOSTILE: HOSTILE, "objects": [{"label": "car", "box": [1, 2]}, {"color": "red"}]}
        self.watch.keep(json.dumps(answer))
        self.watch.caption(1, "{}", answer=answer)
        self.wait("document.querySelector('#day-list label')")
        page.click("#day-list label")
        rows = ["count2", HOSTILE * 2, "objectslabelboxcolorcar[1,2]red", "labelboxcolor", "car[1,2]", "red"]
        for place in ("#caption-text", "#history .text", "#day-caption"):
            self.becomes(lambda: page.all(f"{place} tr"), rows)
        self.watch.caption(2, "{")
        self.becomes(lambda: page.text("#caption-text"), "{")
        self.assertFalse(page.evaluate("Boolean(window.hacked)"))

    def test_boxes_of_the_newest_caption_are_shown_on_a_page_that_opens_later(self):
        self.watch.make_record(1, "[]", places=[{"label": "car", "box": [0, 0, 9, 9]}], width=640, height=480)
        self.open()
        self.watch.show(1)
        self.wait("document.querySelectorAll('#places .box').length === 1")
        self.watch.records.clear()
        self.watch.set(started_ms=self.watch.state["started_ms"] + 1000)
        self.wait("document.querySelectorAll('#places .box').length === 0")

    def test_repeated_words_stay_dimmed_until_they_are_generated(self):
        page = self.open()
        self.watch.caption(1, RED)
        self.wait_text("#caption-text", RED)
        time.sleep(1.3)
        self.watch.begin_caption(2)
        self.watch.emit("caption_text", {"id": 2, "text": RED[:12]})
        self.wait(f"document.querySelector('#caption-text').textContent === {json.dumps(RED[:12])}")
        self.becomes(lambda: page.text("#caption-stale"), RED[12:])
        self.watch.emit("caption_text", {"id": 2, "text": " blue"})
        self.wait("document.querySelector('#caption-stale').textContent === ''")

    def test_the_caption_keeps_the_place_that_the_viewer_chose(self):
        page = self.open()
        self.watch.show(1)
        self.watch.caption(1, RED)
        self.wait_text("#caption-text", RED)
        boxes = """['#stage', '#caption-box'].map(name => {
          const {left, top, right, bottom} = document.querySelector(name).getBoundingClientRect();
          return {left, top, right, bottom, width: right - left};
        })"""
        for width, height in [(1280, 720), (1920, 1080), (1024, 768)]:
            page.emulate(width, height)
            for place in ("beside", "over", "off", "below"):
                page.click(f"#caption-place label:has([value={place}])")
                stage, caption = page.evaluate(boxes)
                if place == "beside":
                    self.assertGreaterEqual(caption["left"], stage["right"] - 1)
                    self.assertLessEqual(caption["bottom"], stage["bottom"] + 1)
                elif place == "over":
                    self.assertGreater(caption["top"], stage["top"])
                    self.assertLess(caption["bottom"], stage["bottom"])
                elif place == "below":
                    self.assertGreaterEqual(caption["top"], stage["bottom"] - 1)
                self.assertEqual(caption["width"] > 0, place != "off")
        page.click("#caption-place label:has([value=beside])")
        page.open(self.url)
        self.wait("document.querySelector('#caption-place input:checked')?.value === 'beside'")
        page.emulate(390, 844, phone=True)
        stage, caption = page.evaluate(boxes)
        self.assertGreaterEqual(caption["top"], stage["bottom"] - 1, "a phone has no room beside the picture")

    def test_a_caption_does_not_move_the_picture(self):
        page = self.open()
        self.watch.show(1)
        size = "document.querySelector('#stage').getBoundingClientRect().height"
        before = page.evaluate(size)
        self.watch.caption(1, "Words and words. " * 40)
        self.wait("document.querySelector('#caption-text').textContent.length > 600")
        self.becomes(lambda: page.evaluate(size), before)

    def test_a_finished_caption_is_shown_from_its_beginning(self):
        seen = """(() => {
          const box = document.querySelector('#caption').getBoundingClientRect(), text = document.createRange();
          const node = document.querySelector('#caption-text').firstChild, last = node.length - 1;
          const sees = (from, to) => {
            text.setStart(node, from);
            text.setEnd(node, to);
            const {top, bottom} = text.getBoundingClientRect();
            return top >= box.top - 1 && bottom <= box.bottom + 1;
          };
          return [sees(0, 1), sees(last, last + 1)];
        })()"""
        page = self.open()
        self.watch.show(1)
        number = 0
        for width, height in [(390, 844), (1280, 720), (1920, 1080)]:
            page.emulate(width, height, phone=width < 500)
            for place in ("below", "beside", "over"):
                page.evaluate(f"document.querySelector('#caption-place [value={place}]').click()")
                for tokens in (60, 200):
                    number += 1
                    told = f"at {width} pixels, {place}, {tokens} tokens"
                    text = f"{number} " + "word " * (tokens - 2) + "end."
                    self.watch.begin_caption(number)
                    self.watch.emit("caption_text", {"id": number, "text": text})
                    self.wait_text("#caption-text", text)
                    self.assertTrue(page.evaluate(seen)[1], "its newest words are seen while it comes, " + told)
                    self.watch.emit("caption_end", self.watch.make_record(number, text))
                    self.wait("!document.querySelector('#caption-box').classList.contains('streaming')")
                    self.assertTrue(page.evaluate(seen)[0], told)

    def test_a_caption_that_comes_again_stays_where_its_reader_is(self):
        page = self.open()
        text = "word " * 400
        self.watch.caption(1, text)
        self.wait("!document.querySelector('#caption-box').classList.contains('streaming')")
        page.evaluate("document.querySelector('#caption').scrollTop = 40")
        self.watch.caption(2, text)
        self.wait("caption.shown.record?.id === 2")
        self.assertEqual(page.evaluate("document.querySelector('#caption').scrollTop"), 40)
        self.watch.caption(3, text + "and more")
        self.wait("caption.shown.record?.id === 3")
        self.assertEqual(page.evaluate("document.querySelector('#caption').scrollTop"), 0)

    def test_the_viewer_fills_the_screen_and_gives_it_back(self):
        page = self.open()
        self.watch.show(1)
        self.watch.caption(1, RED)
        self.wait_text("#caption-text", RED)
        page.click("#fullscreen")
        self.wait("document.fullscreenElement?.id === 'viewer'")
        self.wait("document.querySelector('#viewer').getBoundingClientRect().width === innerWidth")
        self.becomes(lambda: page.evaluate("document.querySelector('#fullscreen').getAttribute('aria-pressed')"), "true")
        page.evaluate("document.activeElement.blur()")
        page.press("f")
        self.wait("!document.fullscreenElement")
        page.fill("#question", "")
        page.type("f")
        page.press("f")
        self.assertIsNone(page.evaluate("document.fullscreenElement"), "typing words is no command")

    # Trouble
    def test_a_lost_camera_shows_a_banner_until_it_returns(self):
        page = self.open()
        self.watch.show(1)
        self.watch.note("The camera is gone: /dev/video0; trying again.")
        self.watch.set(source={"state": "lost", "trouble": "The camera is gone: /dev/video0; trying again."},
                       frames={"losses": 1})
        self.wait_text("#banners", "/dev/video0; trying again.")
        self.becomes(lambda: page.text("#pill"), "Camera lost")
        self.comes_to_hold(lambda: page.text("#counts .fault"), "losses")
        self.comes_to_hold(lambda: page.text("#notes"), "/dev/video0")
        self.watch.set(source={"state": "running", "trouble": ""})
        self.wait("document.querySelector('#banners').textContent === ''")
        self.becomes(lambda: page.text("#pill"), "Live")

    def test_every_state_has_its_word(self):
        self.open()
        self.watch.show(1)
        for changes, word in [({"source": {"state": "stalled"}}, "Stalled"), ({"source": {"state": "ended"}}, "Ended"),
                              ({"source": {"state": "running"}, "settings": {"paused": True}}, "Paused"),
                              ({"settings": {"paused": False}, "settings_pending": True}, "Rebuilding"),
                              ({"settings_pending": False, "frames": {"captured": 0}}, "Starting"),
                              ({"frames": {"captured": 5}}, "Live")]:
            self.watch.set(**changes)
            self.wait(f"document.querySelector('#pill').textContent === '{word}'")

    def test_a_lost_program_shows_a_banner_and_missed_records_are_fetched(self):
        self.allowed = "ERR_|Failed to load|request failed"
        page = self.open()
        self.watch.caption(1, RED)
        self.wait_text("#history", RED)
        self.watch.stop()
        self.wait_text("#banners", "cannot be reached")
        self.becomes(lambda: page.text("#pill"), "No connection")
        time.sleep(2.5)
        self.comes_to_hold(lambda: page.text("#banners"), "cannot be reached")
        self.watch.make_record(2, STAR)
        self.watch.start()
        self.wait("document.querySelector('#banners').textContent === ''", limit_s=30)
        self.wait_text("#history", STAR)
        self.watch.show(5)
        self.wait(f"{SHOWN} === '5'")

    def test_a_refused_stream_is_requested_again(self):
        self.allowed = "503"
        self.watch.failing["/api/events"] = (503, "The program has too many viewers.")
        self.page = open_page()
        self.addCleanup(self.page.close)
        self.page.open(self.url)
        self.wait_text("#banners", "cannot be reached")
        self.watch.failing.clear()
        self.wait_text("#pill", "Live")

    def test_a_hidden_tab_closes_its_stream_and_catches_up_later(self):
        page = self.open()
        self.watch.caption(1, RED)
        self.wait_text("#history", RED)
        self.assertEqual(len(self.watch.clients), 1)
        look = """Object.defineProperty(document, 'hidden', {value: %s, configurable: true});
                  document.dispatchEvent(new Event('visibilitychange')); 1"""
        page.evaluate(look % "true")
        time.sleep(2.5)  # longer than lines are looked after
        sequence = 10

        def is_left():  # found when something is sent
            nonlocal sequence
            sequence += 1
            self.watch.show(sequence)
            return not self.watch.clients

        self.wait_until(is_left)
        self.watch.caption(2, STAR)
        time.sleep(0.3)
        self.assertNotIn(STAR, page.text("#history"))
        self.becomes(lambda: page.text("#banners"), "")
        page.evaluate(look % "false")
        self.wait_text("#history", STAR)
        self.watch.show(99)
        self.wait(f"{SHOWN} === '99'")

    def test_a_program_that_was_started_anew_has_its_own_history(self):
        self.open()
        self.watch.caption(50, RED)
        self.watch.answer(1, "What changed?", "Nothing.")
        self.wait_text("#answers", "Nothing.")
        self.wait_text("#history", RED)
        self.watch.records.clear()
        self.watch.answers.clear()
        self.watch.make_record(1, STAR)
        self.watch.set(started_ms=self.watch.state["started_ms"] + 1000)
        self.wait_text("#history", STAR)
        self.assertNotIn(RED, self.page.text("#history"))
        self.assertNotIn("Nothing.", self.page.text("#answers"))

    def test_hostile_words_are_words(self):
        page = self.open()
        self.watch.show(1)
        self.watch.caption(1, HOSTILE, prompt=HOSTILE, stop=HOSTILE)
        self.watch.make_record(2, "", stop="failed", error=HOSTILE)
        self.watch.emit("caption_end", self.watch.records[-1])
        self.watch.answer(1, HOSTILE, HOSTILE, named=(1,))
        self.watch.note(HOSTILE)
        self.watch.note(HOSTILE)
        self.watch.set(source={"name": HOSTILE, "state": "lost", "trouble": HOSTILE, "format": HOSTILE},
                       version=HOSTILE, model={"name": HOSTILE}, settings={"prompt": HOSTILE})
        for selector in ("#banners", "#notes", "#answers", "#source", "#model", "#history", "#caption"):
            self.wait_text(selector, HOSTILE)
        page.evaluate("document.querySelectorAll('#history details').forEach(row => { row.open = true; })")
        page.fill("#filter", "window.hacked=1 onerror")
        self.wait("document.querySelectorAll('#history mark').length > 3")
        self.becomes(lambda: page.all("[onerror]"), [])
        self.becomes(lambda: page.evaluate("[document.scripts.length, window.hacked ?? 0]"), [3, 0])

    # Questions
    def test_a_question_is_asked_answered_and_its_images_are_shown(self):
        page = self.open()
        for number in range(1, 7):
            self.watch.caption(number, f"{RED} {number}")
        self.wait_text("#history", f"{RED} 6")
        page.press("/")
        page.type("When did the red circle appear?")
        page.press("Enter")
        self.wait_until(lambda: self.posted("/api/question"))
        self.assertEqual(self.posted("/api/question"), [{"text": "When did the red circle appear?"}])
        self.assertEqual(self.watch.posts[-1][2], "application/json")
        self.wait("document.querySelector('#question').value === ''")
        self.watch.emit("question_begin", {"id": 1, "question": "When did the red circle appear?"})
        self.watch.emit("question_text", {"id": 1, "text": "In image"})
        self.wait("document.querySelector('#answers .answer').textContent === 'In image'")
        self.watch.answer(1, "When did the red circle appear?", "In image 3 (14:02:11, 12 s ago).", named=(3,))
        self.wait_text("#answers .answer", "In image 3 (14:02:11, 12 s ago).")
        self.becomes(lambda: page.evaluate("document.querySelectorAll('#answers li').length"), 1)
        self.becomes(lambda: page.evaluate("document.querySelectorAll('#answers .seen button').length"), 6)
        self.comes_to_hold(lambda: page.text("#answers .named"), "image 3")
        self.comes_to_hold(lambda: page.text("#spoken"), "In image 3")
        self.wait("[...document.querySelectorAll('#answers img')].every(image => image.naturalWidth)")
        page.click("#answers .named")
        self.wait(f"document.querySelector('#history details[open]').textContent.includes({json.dumps(RED + ' 3')})")

    def test_frames_of_clips_have_their_times(self):
        page = self.open()
        for number in range(1, 5):
            clip = [{"sequence": number + i, "seconds": 0.5 * i} for i in range(2)]
            self.watch.caption(number, f"{RED} {number}", clip=clip)
        self.wait_text("#history", f"{RED} 4")
        self.watch.answer(1, "When did it move?", "At 0.8 seconds.", named=(2, 3), seconds=(0, 0.5, 1, 1.5))
        self.comes_to_hold(lambda: page.text("#answers .named"), "second 0.5")
        page.click("#answers .named")
        self.wait("document.querySelector('#history details[open]').textContent.includes('clip of frames 2 to 3, 0.5 s')")

    def test_a_refused_question_keeps_its_text(self):
        self.allowed = "503|500"
        page = self.open()
        for status, sentence, shown in [(503, "8 questions wait.", "8 questions wait."), (500, "", "answered 500")]:
            self.watch.failing["/api/question"] = (status, sentence)
            page.fill("#question", "What changed?")
            page.click("#send")
            self.wait_text("#ask-error", shown)
            self.becomes(lambda: page.evaluate("document.querySelector('#question').value"), "What changed?")
        self.watch.failing.clear()
        page.click("#send")
        self.wait("document.querySelector('#ask-error').hidden")

    # Timeline
    def test_frames_of_a_library_are_found_shown_and_forgotten(self):
        page = self.open()
        self.wait_text("#pill", "Live")
        self.assertFalse(page.evaluate("document.querySelector('#day').checkVisibility()"))
        for number in range(230):
            self.watch.keep(f"{STAR if number % 2 else RED} {number}", now_ms() - (240 - number) * 60000)
        page.open(self.url)
        rows = "document.querySelectorAll('#day-list li')"
        self.wait(f"{rows}.length === 200 && document.querySelector('#day-list img').naturalWidth")
        self.wait_text("#day-facts", "230 frames")
        self.wait_text("#ask-presets", "How many times did a red circle appear today?")
        page.evaluate("document.querySelector('#day-strip').scrollLeft = 500")
        before = page.evaluate(f"{rows}[9].getBoundingClientRect().left")
        self.watch.keep(HOSTILE)
        self.wait(f"{rows}.length === 201")
        self.assertAlmostEqual(page.evaluate(f"{rows}[10].getBoundingClientRect().left"), before, delta=2)
        self.watch.answer(1, "Show me", "Two.", named=(1, 6))
        self.wait("document.querySelector('#day-list .named')")
        page.click("#answers .seen .named")  # older than what is shown
        self.wait_text("#day-caption", f"{RED} 0")
        self.becomes(lambda: len(page.all("#day-list li")), 1)
        page.fill("#day-words", "RED 22")
        self.wait(f"{rows}.length === 7")
        page.click("#day-list label")
        page.press("ArrowRight")
        self.wait_text("#day-caption", f"{RED} 226")
        page.click("#day-like")
        self.assertIn("Show me frames like", page.evaluate("document.querySelector('#question').value"))
        page.click("#day-forget")
        self.assertEqual(self.posted("/api/forget"), [])
        page.click("#day-forget")
        at_ms = self.watch.day[226]["at_ms"]
        self.wait(f"{rows}.length === 6 && !document.querySelector('#day-chosen').checkVisibility()")
        self.assertEqual(self.posted("/api/forget"), [{"from_ms": at_ms, "to_ms": at_ms + 1}])

    # Controls
    def test_every_control_acts(self):
        page = self.open()
        page.fill("#every_s", "2.5")
        page.press("Tab")
        page.fill("#deadline_ms", "300")
        page.press("Enter")
        for control, key in [("#change", "ArrowRight"), ("#keep", "ArrowLeft")]:
            page.evaluate(f"document.querySelector('{control}').focus()")
            page.press(key)
        page.evaluate("""for (const value of [9, 12, 11, 10]) {
          const slider = document.querySelector('#frames');
          slider.value = value;
          for (const name of ['input', 'change']) slider.dispatchEvent(new Event(name));
        }""")
        page.click("#bits label:nth-child(3)")
        page.fill("#prompt", "Which shape is red?")
        page.click("#apply-prompt")
        settings = self.watch.state["settings"]
        wanted = {"prompt": "Which shape is red?", "every_s": 2.5, "change": 0.06, "frames": 10, "keep": 0.95,
                  "kv_bits": 4, "paused": False, "deadline_ms": 300}
        self.wait_until(lambda: settings == wanted)
        self.assertEqual(sum("frames" in one for one in self.posted("/api/settings")), 1, "a slider acts once it rests")
        page.click("#prompt-presets button")
        page.click("#pause")
        self.wait_until(lambda: settings["paused"] and settings["prompt"] == "Describe this image.")
        self.wait_text("#pill", "Paused")
        self.becomes(lambda: page.text("#pause"), "Resume")
        page.click("#pause")
        self.wait_until(lambda: not settings["paused"])
        self.wait_text("#pill", "Live")

    def test_a_refused_setting_is_reported_and_reset(self):
        self.allowed = "409"
        page = self.open()
        sentence = "16 bits with 8 images need 171.0 MiB; the budget is 128.0 MiB: 4 bits would fit."
        self.watch.failing["/api/settings"] = (409, sentence)
        page.click("#bits label:nth-child(1)")
        self.wait_text("#controls-error", sentence)
        self.wait("document.querySelector('#bits input:checked').value === '2'")
        self.watch.failing.clear()
        page.click("#bits label:nth-child(2)")
        self.wait_until(lambda: self.watch.state["settings"]["kv_bits"] == 8)
        self.wait("document.querySelector('#controls-error').hidden")

    def test_a_number_out_of_range_is_not_sent(self):
        page = self.open()
        page.fill("#every_s", "4000")
        page.press("Tab")
        self.wait_text("#controls-error", "Interval is a number from 0 to 3600.")
        self.becomes(lambda: page.evaluate("document.querySelector('#every_s').value"), "0")
        self.assertEqual(self.posted("/api/settings"), [])

    def test_a_prompt_is_not_changed_while_it_is_typed(self):
        page = self.open()
        page.fill("#prompt", "What does the")
        for _ in range(3):
            self.watch.set(uptime_s=self.watch.state["uptime_s"] + 60)
            time.sleep(0.1)
        self.becomes(lambda: page.evaluate("document.querySelector('#prompt').value"), "What does the")
        page.press("Escape")
        self.wait("document.querySelector('#prompt').value === 'Describe this image.'")
        page.fill("#prompt", "\u00e9" * 1001)
        page.press("Enter")
        self.wait_text("#prompt-error", "2,002 bytes; at most 2,000 fit")
        self.assertEqual(self.posted("/api/settings"), [])

    def test_prompts_of_the_viewer_are_kept_by_the_browser_until_they_are_forgotten(self):
        page = self.open()
        page.fill("#prompt", "Is the door open?")
        page.click("#keep-prompt")
        self.wait_text("#prompt-presets .own", "Is the door open?")
        self.assertTrue(page.evaluate("document.querySelector('#keep-prompt').disabled"))
        page.open(self.url)
        self.wait_text("#prompt-presets .own", "Is the door open?")
        page.click("#prompt-presets .own button")
        self.wait_until(lambda: self.watch.state["settings"]["prompt"] == "Is the door open?")
        page.click("#prompt-presets .forget")
        self.wait("!document.querySelector('#prompt-presets .own')")
        for number in range(20):
            page.fill("#prompt", f"Prompt {number} {HOSTILE}")
            page.click("#keep-prompt")
        self.becomes(lambda: len(page.all("#prompt-presets .own")), 12)
        self.becomes(lambda: page.evaluate("window.hacked ?? 0"), 0)
        for kept in ("{", "{}", "[1, null, \"\", \"Is it day?\"]"):
            page.evaluate(f"localStorage.setItem('prompts', {json.dumps(kept)})")
            page.open(self.url)
            self.wait("document.querySelectorAll('#prompt-presets li').length")
        self.becomes(lambda: page.all("#prompt-presets .own button:first-child"), ["Is it day?"])

    def test_the_choices_are_those_that_the_model_can_answer(self):
        page = self.open()
        self.comes_to_hold(lambda: page.text("#prompt-presets"), "Which shape is red?")
        self.watch.set(model={"name": "SmolVLM2 2.2B Instruct"})
        self.wait_text("#prompt-presets", "How many people are there?")
        self.assertNotIn("shape", page.text("#prompt-presets"))
        page.click("#ask-presets li:last-child button")
        self.wait_until(lambda: self.posted("/api/question") == [{"text": "Which images show a person?"}])

    # The viewer's camera
    def test_only_a_watch_of_a_browser_asks_for_the_viewers_camera(self):
        page = self.open()
        self.becomes(lambda: page.all("#camera, #camera-first", "one.hidden"), [True, True])
        self.watch.set(source={"posted": True, "state": "stalled"}, frames={"captured": 0})
        self.wait("!document.querySelector('#camera').hidden")
        self.comes_to_hold(lambda: page.text("#nothing"), "your own camera")
        self.becomes(lambda: page.text("#pill"), "No camera")
        self.becomes(lambda: page.text("#banners"), "")

    def test_frames_of_the_camera_are_sent_one_at_a_time_with_their_age(self):
        self.watch.set(source={"posted": True})
        self.watch.delay_s["/api/frame"] = 0.1
        page = self.open()
        self.wait("!document.querySelector('#camera').hidden")
        page.click("#camera")
        self.wait_until(lambda: len(self.posted("/api/frame")) >= 5)
        for body in self.posted("/api/frame"):
            self.assertEqual(body[:2], b"\xff\xd8")
        self.assertEqual({kind for where, _, kind in self.watch.posts if where == "/api/frame"}, {"image/jpeg"})
        sent = [re.fullmatch(r".*/api/frame\?sender=(\w+)&age_ms=(\d+)", one) for one in page.requests if "api/frame" in one]
        self.assertEqual(len({one[1] for one in sent}), 1)
        self.assertLess(min(int(one[2]) for one in sent), 1000)
        self.becomes(lambda: page.text("#camera"), "Stop my camera")
        self.wait("document.querySelectorAll('#cameras option').length === 2 && !document.querySelector('#cameras').hidden")
        page.evaluate("""document.querySelector('#cameras').selectedIndex = 1;
                         document.querySelector('#cameras').dispatchEvent(new Event('change')); 1""")
        before = len(self.posted("/api/frame"))
        self.wait_until(lambda: len(self.posted("/api/frame")) > before + 2)
        self.wait("sending_camera.run.stream.getVideoTracks()[0].getSettings().deviceId === recall('camera')")
        page.click("#camera")
        self.wait("document.querySelector('#camera').textContent === 'Use my camera'")
        time.sleep(0.3)
        before = len(self.posted("/api/frame"))
        time.sleep(0.4)
        self.assertEqual(len(self.posted("/api/frame")), before)

    def test_a_camera_that_cannot_be_had_or_sent_is_explained(self):
        self.allowed = "409|503"
        self.watch.set(source={"posted": True, "state": "stalled"}, frames={"captured": 0})
        page = self.open()
        self.wait("!document.querySelector('#camera-first').hidden")
        for failure, sentence in [("NotAllowedError", "did not give its camera"), ("NotFoundError", "finds no camera"),
                                  ("NotReadableError", "another program"), ("AbortError", "cannot be used")]:
            page.evaluate(f"""navigator.mediaDevices.getUserMedia = async () => {{
              throw new DOMException('no', '{failure}'); }}; 1""")
            page.click("#camera-first")
            self.wait_text("#camera-error", sentence)
            self.becomes(lambda: page.text("#camera"), "Use my camera")
        page.evaluate("delete navigator.mediaDevices.getUserMedia")
        self.watch.failing["/api/frame"] = (503, "Too much at once.")
        page.click("#camera-first")
        self.wait_text("#camera-error", "Too much at once.")
        self.watch.failing.clear()
        self.wait("document.querySelector('#camera-error').hidden")
        self.watch.failing["/api/frame"] = (409, "Another page sends its camera already.")
        self.wait_text("#camera-error", "Another page")
        self.wait("sending_camera.run === null")
        page.evaluate("Object.defineProperty(navigator, 'mediaDevices', {value: undefined}); 1")
        page.click("#camera")
        self.wait_text("#camera-error", "ssh -L")

    # History
    def test_captions_that_are_not_here_yet_are_never_said_not_to_be(self):
        for number in range(1, 6):
            self.watch.make_record(number, RED)
        self.watch.delay_s["/api/history"] = 1.5
        page = self.open()
        self.wait_text("#history-empty", "Captions are being fetched.")
        self.wait_text("#history", RED)
        self.wait_text("#caption-text", RED)
        self.watch.delay_s.clear()
        self.watch.records.clear()
        self.watch.set(started_ms=self.watch.state["started_ms"] + 1000, frames={"answered": 0, "captured": 0})
        self.wait_text("#history-empty", "Captions come with the first frames.")
        self.watch.set(frames={"captured": 5})
        self.wait_text("#history-empty", "The first caption is on its way.")
        self.comes_to_hold(lambda: page.text("#caption"), "The first caption is on its way.")
        self.watch.set(settings={"paused": True})
        self.wait_text("#history-empty", "Paused")
        self.watch.caption(1, STAR)
        self.wait("document.querySelector('#history-empty').hidden")
        self.becomes(lambda: page.text("#caption"), STAR)

    def test_equal_captions_are_one_row_and_words_find_rows(self):
        for number in range(1, 31):
            self.watch.make_record(number, STAR if 10 < number <= 20 else RED)
        page = self.open()
        self.wait("document.querySelectorAll('#history li').length === 3")
        self.comes_to_hold(lambda: page.text("#history li"), "10 times")
        self.becomes(lambda: page.text("#history-count"), "30")
        page.fill("#filter", "STAR gray")
        self.wait("document.querySelectorAll('#history li:not([hidden])').length === 1")
        self.becomes(lambda: page.text("#history-count"), "10 of 30")
        self.becomes(lambda: page.all("#history li:not([hidden]) mark"), ["star", "gray"])
        page.press("Escape")
        self.wait("document.querySelectorAll('#history li:not([hidden])').length === 3")
        page.click("#history summary")
        self.wait_text("#history .more", "encode 18.5\u00a0ms")
        self.wait("document.querySelector('#history img').naturalWidth === 160")

    def test_older_captions_are_fetched_when_asked_for(self):
        for number in range(1, 151):
            self.watch.make_record(number, f"Caption {number}.")
        page = self.open()
        self.wait("document.querySelectorAll('#history li').length === 100")
        page.click("#older")
        self.wait("document.querySelectorAll('#history li').length === 150")
        self.comes_to_hold(lambda: page.text("#history li:last-child"), "Caption 1.")
        self.assertTrue(page.evaluate("document.querySelector('#older').hidden"))

    def test_the_memory_of_the_tab_is_bounded(self):
        page = self.open()
        picture = draw_picture(1, 64, 48)
        nodes = []
        for lot in range(3):
            for number in range(lot * 400, lot * 400 + 400):
                self.watch.caption(number + 1, f"Caption {number}.")
                self.watch.note(f"Note {number}.")
                self.watch.keep(f"Frame {number}.")
                if number % 4 == 0:
                    self.watch.show(number, picture)
                    self.watch.answer(number + 1, "What changed?", f"Answer {number}.")
                del self.watch.records[:-50], self.watch.answers[:-50]
            self.wait_text("#history", f"Caption {lot * 400 + 399}.", limit_s=120)
            self.wait_text("#answers", f"Answer {lot * 400 + 396}.", limit_s=120)
            page.send("HeapProfiler.collectGarbage")
            nodes.append(page.send("Memory.getDOMCounters")["nodes"])
        lists = ("#history", "#notes", "#answers", "#day-list")
        self.becomes(lambda: [len(page.all(f"{one} > li")) for one in lists], [200, 50, 50, 400])
        self.assertLess(nodes[2], nodes[1] * 1.1)

    # Numbers
    def test_the_numbers_are_the_programs(self):
        page = self.open()
        for name, text in [("latency-last", "41.2ms"), ("latency-mean", "43.0ms"), ("latency-p95", "55.1ms"),
                           ("latency-age_last", "48.0ms"), ("counts-captured", "22,626"), ("counts-dropped", "1,204"),
                           ("counts-unchanged", "7,020"), ("counts-broken", "0")]:
            self.becomes(lambda: page.text(f"#{name}"), text)
        self.becomes(lambda: page.text("#memory-total"), "70.9\u00a0MiB of 128.0\u00a0MiB")
        widths = page.all("#memory-bar i", "parseFloat(one.style.width)")
        for width, bytes_ in zip(widths, [37239808, 10869248, 26254336, 921600, 128 * MIB - 74363392], strict=True):
            self.assertAlmostEqual(width, 100 * bytes_ / (128 * MIB), places=2)
        self.becomes(lambda: [len(page.all(one)) for one in ("#lenses .held", "#lenses i")], [6, 8])
        self.becomes(lambda: page.text("#kv-bytes"), "684\u00a0KiB, 17\u00a0%")
        self.becomes(lambda: page.text("#kv-bits-used"), "2.3 (images 2)")
        self.watch.set(memory={"budget_bytes": 0}, latency_ms=dict.fromkeys(self.watch.state["latency_ms"]))
        self.wait("document.querySelectorAll('#memory-bar i').length === 4")
        self.becomes(lambda: page.text("#memory-total"), "70.9\u00a0MiB, no budget")
        self.becomes(lambda: page.text("#latency-last"), "\u2013")

    def test_the_last_sixty_captions_are_drawn_by_stage(self):
        for number in range(1, 81):
            self.watch.make_record(number, RED, deadline_missed=number == 70)
        page = self.open()
        self.wait("document.querySelectorAll('#spark path').length === 5")
        bars = page.all("#spark path", "one.getAttribute('d').split('M').length - 1")
        self.assertEqual(bars, [59, 59, 59, 59, 1])

    # People
    def test_the_page_works_without_a_mouse(self):
        page = self.open()
        page.press("Tab")
        self.becomes(lambda: page.evaluate("document.activeElement.className"), "skip")
        page.press("Enter")
        self.wait("document.activeElement.id === 'question'")
        page.type("abc")
        page.press("Escape")
        self.becomes(lambda: page.evaluate("document.querySelector('#question').value"), "")
        page.press("Escape")
        self.assertNotEqual(page.evaluate("document.activeElement.id"), "question")
        page.press("/")
        page.press("/")
        self.becomes(lambda: page.evaluate("[document.activeElement.id, document.activeElement.value]"), ["question", "/"])
        reached = set()
        for _ in range(60):
            page.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
            rings = page.all(":focus-visible:not([type=radio]), [type=radio]:focus-visible + span",
                             "getComputedStyle(one).outlineStyle")
            self.assertNotIn("none", rings, page.evaluate("document.activeElement.outerHTML"))
        self.assertLessEqual({"pause", "caption_place", "fullscreen", "question", "send", "prompt", "every_s", "change", "frames",
                              "keep", "deadline_ms", "kv_bits", "filter", "theme"}, reached)

    def test_everything_that_acts_has_a_name(self):
        page = self.open()
        self.watch.caption(1, RED)
        self.watch.keep(RED)
        self.watch.answer(1, "What changed?", "Nothing.")
        self.wait_text("#answers", "Nothing.")
        page.send("Accessibility.enable")
        found = 0
        for node in page.send("Accessibility.getFullAXTree")["nodes"]:
            if node.get("role", {}).get("value") in ("button", "textbox", "searchbox", "slider", "radio", "spinbutton",
                                                     "link", "form", "region"):
                found += 1
                self.assertTrue(node.get("name", {}).get("value"), node)
        self.assertGreater(found, 25)

    def test_words_stand_out_from_their_ground_in_both_schemes(self):
        page = self.open()
        for dark in (False, True):
            page.emulate(dark=dark)
            self.wait(f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'")
            self.watch.caption(10 + dark, RED, stop="deadline")
            self.watch.note("A warning.")
            self.watch.note("An error.", "error")
            self.watch.keep(RED)
            self.watch.answer(1 + dark, "What changed?", "Nothing.", named=(1,))
            for state in ("running", "stalled", "lost", "ended"):
                self.watch.set(source={"state": state}, frames={"broken": 1})
                time.sleep(0.4)
                seen, poor = self.until(lambda: page.evaluate(POOR_CONTRAST), lambda found: not found[1])
                self.assertGreater(seen, 80)
                self.assertEqual(poor, [])

    def test_words_are_12_pixels_high_and_targets_24_at_least(self):
        page = self.open()
        page.fill("#prompt", "Is the door open?")
        page.click("#keep-prompt")
        for number in range(1, 4):
            self.watch.caption(number, f"{RED} {number}", stop="deadline")
        self.watch.show(1)
        self.watch.keep(RED)
        self.watch.answer(1, "What changed?", "Nothing.", named=(1,))
        self.watch.note("An error.", "error")
        self.watch.set(source={"posted": True, "state": "lost", "trouble": "It is gone."})
        self.wait_text("#history", f"{RED} 3")
        self.wait_text("#banners", "It is gone.")
        page.evaluate("document.querySelectorAll('#history details').forEach(row => { row.open = true; })")
        page.evaluate("show_error('ask-error', 'No.'); show_error('camera-error', 'No.'); 1")
        for width, height in [(360, 740), (390, 844), (1024, 768), (1280, 720), (1920, 1080)]:
            page.emulate(width, height, phone=width < 500)
            for place in ("over", "beside", "below"):
                page.evaluate(f"document.querySelector('#caption-place [value={place}]').click()")
                seen, poor = self.until(lambda: page.evaluate(SMALL), lambda found: not found[1])
                self.assertGreater(seen, 200)
                self.assertEqual(poor, [], f"at {width} pixels, caption {place}")

    def test_the_first_screen_is_used(self):
        covered = """(() => {
          const cell = 20, near = 10, rows = Math.ceil(innerHeight / cell), columns = Math.ceil(innerWidth / cell);
          const filled = new Set();
          const leaf = node => node.matches('canvas, img, svg, button, input, select, textarea, .spark, .split') ||
            [...node.childNodes].some(one => one.nodeType === 3 && one.data.trim());
          for (const node of document.querySelectorAll('body *')) {
            if (!leaf(node) || !node.checkVisibility() || node.closest('.unseen')) continue;
            const box = node.getBoundingClientRect();
            const range = (low, high, most) => [Math.max(0, Math.floor((low - near) / cell)),
                                                Math.min(most - 1, Math.floor((high + near) / cell))];
            const [top, bottom] = range(box.top, box.bottom, rows), [left, right] = range(box.left, box.right, columns);
            for (let y = top; y <= bottom; ++y) for (let x = left; x <= right; ++x) filled.add(y * columns + x);
          }
          return filled.size / (rows * columns);
        })()"""
        page = self.open()
        self.watch.show(1)
        for number in range(1, 13):
            self.watch.caption(number, f"{RED} {number}")
        self.wait_text("#history", f"{RED} 12")
        for width, height in [(1280, 720), (1920, 1080), (390, 844)]:
            page.emulate(width, height, phone=width < 500)
            self.wait(f"innerWidth === {width}")
            share = self.until(lambda: page.evaluate(covered), lambda found: found > 0.88)
            self.assertGreater(share, 0.88, f"at {width} x {height}")

    def test_a_scheme_that_was_chosen_stays(self):
        page = self.open(dark=True)
        self.becomes(lambda: page.evaluate("document.documentElement.dataset.theme"), "dark")
        page.click("#theme")
        self.becomes(lambda: page.evaluate("document.documentElement.dataset.theme"), "light")
        page.open(self.url)
        self.becomes(lambda: page.evaluate("document.documentElement.dataset.theme"), "light")
        page.click("#theme")
        page.click("#theme")
        self.comes_to_hold(lambda: page.text("#theme"), "Auto")
        self.becomes(lambda: page.evaluate("document.documentElement.dataset.theme"), "dark")

    def test_nothing_is_cut_off_from_phones_to_wide_screens(self):
        page = self.open()
        self.watch.show(1)
        self.watch.caption(1, RED + " " + "W" * 200)
        self.watch.keep("W" * 200)
        self.watch.answer(1, "W" * 200, "W" * 200)
        self.watch.note("W" * 200)
        self.watch.set(source={"state": "lost", "trouble": "W" * 200})
        self.wait_text("#banners", "WWW")
        for width, height in [(360, 740), (390, 844), (820, 1180), (1024, 768), (1240, 700), (1440, 900), (1920, 1080),
                              (2560, 1440)]:
            page.emulate(width, height, phone=width < 500)
            self.becomes(lambda: page.evaluate("innerWidth"), width)
            self.becomes(lambda: page.all("html", "one.scrollWidth - one.clientWidth"), [0])
            outside = page.all(".panel, .stage, .bar, .figures dd, .pairs dd",
                               "(one.scrollWidth > one.clientWidth + 1 || "
                               "one.getBoundingClientRect().right > innerWidth + 1) && one.outerHTML")
            self.assertEqual([one for one in outside if one], [], f"at {width} pixels")

    def test_there_is_no_motion_if_the_system_asks_for_none(self):
        page = self.open(still=True)
        self.watch.begin_caption(1)
        self.watch.emit("caption_text", {"id": 1, "text": "A"})
        self.wait_text("#caption-text", "A")
        self.becomes(lambda: page.evaluate("document.getAnimations().length"), 0)
        page.emulate(still=False)
        self.wait("document.getAnimations().length > 0")

    def test_every_id_is_one_elements(self):
        ids = self.open().all("[id]", "id")
        self.assertEqual(sorted(ids), sorted(set(ids)))

    def test_the_page_makes_requests_to_the_program_only(self):
        page = self.open()
        self.watch.show(1)
        self.watch.caption(1, RED)
        self.wait(f"{SHOWN} === '1'")
        self.assertEqual([one for one in page.requests if not one.startswith(self.url + "/")], [])
        self.assertIn(f"{self.url}/watch.css", page.requests)


class ProgramPage(WatchTest):
    """The program itself, with its synthetic camera."""
    source, further = "synthetic", ()

    @classmethod
    def setUpClass(cls):
        cls.program = subprocess.Popen([PROGRAM, "watch", cls.source, "--http", "127.0.0.1:0", *map(str, cls.further)],
                                       text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        cls.addClassCleanup(cls.end)
        said = []
        for line in cls.program.stderr:
            said.append(line)
            found = re.match(r"ocellus: (http://127\.0\.0\.1:\d+)", line)
            if found:
                cls.url = found.group(1)
                break
        else:
            raise AssertionError("".join(said) or "The program ended without a word.")
        # its later words go nowhere, so that it never waits for us to read them
        cls.drain = subprocess.Popen(["cat"], stdin=cls.program.stderr, stdout=subprocess.DEVNULL)

    @classmethod
    def end(cls):
        cls.program.terminate()
        try:
            cls.program.wait(20)
        finally:
            cls.program.kill()
            cls.program.wait()
            cls.program.stderr.close()
            if hasattr(cls, "drain"):
                cls.drain.wait(10)


@needs_http
class RealPage(ProgramPage):
    def ask(self, path):
        with urllib.request.urlopen(self.url + path, timeout=20) as answer:
            return json.load(answer)

    def settings(self):
        return self.ask("/api/state")["settings"]

    def wait_setting(self, is_true):
        """Until it holds of the settings, and an engine made for them runs."""
        def holds():
            state = self.ask("/api/state")
            return is_true(state["settings"]) and not state["settings_pending"]
        self.wait_until(holds, limit_s=60)

    def wait_caption(self):
        """A caption after now."""
        def newest():
            return max((one["id"] for one in self.ask("/api/history?count=1")["records"]), default=-1)
        before = newest()
        self.wait_until(lambda: newest() > before, limit_s=60)

    def test_the_picture_moves(self):
        page = self.open()
        first = int(self.wait(SHOWN, limit_s=30))
        self.wait(f"Number({SHOWN}) > {first + 5}")
        before = self.pixels()
        self.wait_until(lambda: self.pixels() != before)
        source = self.ask("/api/state")["source"]
        self.becomes(lambda: page.all("#picture", "[one.width, one.height]"), [[source["width"], source["height"]]])

    def test_captions_stream_over_the_picture_and_into_the_history(self):
        page = self.open()
        page.evaluate("""window.seen = []; new MutationObserver(() => {
          window.seen.push(document.querySelector('#caption-text').textContent);
        }).observe(document.querySelector('#caption'), {subtree: true, childList: true, characterData: true}); 1""")
        self.wait("seen.some((text, place) => text && seen[place + 1]?.startsWith(text) && seen[place + 1] !== text)",
                  limit_s=60)
        self.wait("document.querySelectorAll('#history li').length > 0")
        self.wait("document.querySelector('#history img').naturalWidth > 0")
        self.wait("document.querySelector('#latency-last').textContent.endsWith('ms')")
        texts = {one["text"] for one in self.ask("/api/history?count=100")["records"]}
        shown = set(page.all("#history .text"))
        self.assertTrue(texts & shown)

    def test_a_question_is_answered_from_the_frames_in_memory(self):
        page = self.open()
        self.wait("document.querySelectorAll('#history li').length > 0", limit_s=60)
        page.press("/")
        page.type("What changed?")
        page.press("Enter")
        self.wait("document.querySelector('#answers .answer:not(.waiting)')?.textContent", limit_s=60)
        answer = self.ask("/api/answers")["answers"][0]
        self.assertEqual(answer["question"], "What changed?")
        self.becomes(lambda: page.text("#answers .answer"), answer["text"])
        self.assertEqual(answer["error"], "")
        self.assertGreater(len(answer["frames"]), 0)
        self.becomes(lambda: len(page.all("#answers li:first-child .seen button")), len(answer["frames"]))

    def test_every_control_changes_the_program(self):
        page = self.open()
        self.wait("document.querySelector('#bits input:checked')")
        page.fill("#every_s", "0.25")
        page.press("Tab")
        self.wait_until(lambda: self.settings()["every_s"] == 0.25)
        page.fill("#deadline_ms", "5000")
        page.press("Tab")
        self.wait_until(lambda: self.settings()["deadline_ms"] == 5000)
        for control in ("change", "frames", "keep"):
            before = self.settings()[control]
            page.evaluate(f"document.querySelector('#{control}').focus()")
            page.press("ArrowLeft")
            self.wait_setting(lambda settings: settings[control] < before)
        bits = next(bits for bits in (4, 2) if bits != self.settings()["kv_bits"])
        page.click(f"#bits label:has(input[value='{bits}'])")
        self.wait_setting(lambda settings: settings["kv_bits"] == bits)
        page.fill("#prompt", "Which shape is red?")
        page.press("Enter")
        self.wait_until(lambda: self.settings()["prompt"] == "Which shape is red?")
        self.wait_caption()
        page.click("#pause")
        self.wait_until(lambda: self.settings()["paused"])
        self.wait_text("#pill", "Paused")
        page.click("#pause")
        self.wait_text("#pill", "Live")
        self.wait_caption()

    def test_a_page_under_its_policy_has_no_complaints(self):
        page = self.open(phone=True, width=390, height=844)
        self.wait_caption()
        with urllib.request.urlopen(self.url + "/", timeout=20) as answer:
            self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
        self.assertEqual([one for one in page.requests if not one.startswith(self.url + "/")], [])


@needs_http
class ViewersCamera(ProgramPage):
    """`watch browser`: the test pattern of the browser's fake camera goes to the program, and its words come back."""
    source, further = "browser", ("--change", 0, "--token", "s3cret")
    allowed = "409"

    def ask(self, path):
        request = urllib.request.Request(self.url + path, headers={"Authorization": "Bearer s3cret"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def open_viewer(self):
        page = open_page()
        self.addCleanup(page.close)
        page.open(f"{self.url}/?token=s3cret")
        page.wait_for("!document.querySelector('#camera').hidden")
        return page

    def test_the_camera_of_the_viewer_is_described_until_it_stops(self):
        self.page = page = self.open_viewer()
        self.comes_to_hold(lambda: page.text("#nothing"), "your own camera")
        page.click("#camera-first")
        self.wait(f"Number({SHOWN}) > 3", limit_s=60)
        self.wait("document.querySelector('#caption-text').textContent && document.querySelector('#history img')",
                  limit_s=60)
        self.wait_text("#pill", "Live")
        red, green, blue = self.pixels()[:3]
        self.assertGreater(green, max(red, blue) + 50, "Chromium's fake camera is green")
        source = self.ask("/api/state")["source"]
        self.assertEqual((source["state"], source["posted"]), ("running", True))
        self.assertRegex(source["format"], r"\d+ x \d+ JPEG of a browser's camera")
        newest = self.ask("/api/history?count=1")["records"][0]
        self.assertEqual(newest["error"], "")
        self.assertLess(newest["queue_ms"], 10000)
        other = self.open_viewer()
        other.click("#camera")
        other.wait_for("document.querySelector('#camera-error').textContent.includes('Another page sends')")
        page.send("Page.bringToFront")
        page.click("#camera")
        self.wait_text("#pill", "No camera", limit_s=60)
        self.becomes(lambda: page.text("#banners"), "")
        other.send("Page.bringToFront")
        other.click("#camera")
        other.wait_for("document.querySelector('#pill').textContent === 'Live'", limit_s=60)
        other.open(self.url)  # and again, before the program has missed it
        other.wait_for("!document.querySelector('#camera').hidden")
        other.click("#camera")
        other.wait_for("sending_camera.run && performance.now() - sending_camera.run.begun > 9000", limit_s=60)
        self.becomes(lambda: other.text("#camera-error"), "")
        other.wait_for("document.querySelector('#pill').textContent === 'Live'", limit_s=60)


@needs_http
class TokenPage(ProgramPage):
    further = ("--token", "s3cret")
    allowed = "401"

    def open_without_token(self, where="/", told="A token is needed"):
        self.page = page = open_page(phone=True, width=390, height=844)
        self.addCleanup(page.close)
        page.send("Network.clearBrowserCookies")
        page.open(self.url + where)
        self.comes_to_hold(lambda: page.evaluate("document.body.textContent"), told)
        return page

    def assert_opened(self, where="/"):
        self.becomes(lambda: self.page.evaluate("location.href"), self.url + where)
        self.becomes(lambda: self.page.evaluate("document.cookie"), "")  # scripts cannot read it
        self.assertNotIn("s3cret", json.dumps(self.page.send("Page.getNavigationHistory")))
        self.assertEqual([one for one in self.page.requests if "s3cret" in one], [])

    def test_a_browser_without_a_token_gets_a_field_for_it(self):
        page = self.open_without_token("/metrics?token=s3cre&a=%26", "This token is wrong")
        self.becomes(lambda: page.evaluate("location.href"), self.url + "/metrics?a=%26")
        self.assertEqual(page.all("html", "one.scrollWidth - one.clientWidth"), [0])
        self.assertEqual(page.evaluate("document.activeElement.id"), "token")
        page.type("s3cre")
        page.press("Enter")
        self.becomes(lambda: page.evaluate("location.href"), self.url + "/token")
        self.comes_to_hold(lambda: page.text("form"), "This token is wrong")
        self.becomes(lambda: page.evaluate("document.querySelector('#token').value"), "")
        page.fill("#token", "s3cret")
        page.click("button")
        self.comes_to_hold(lambda: page.evaluate("document.body.textContent"), "ocellus_frames")
        self.assert_opened("/metrics?a=%26")

    def test_a_link_brings_the_token_in_its_fragment(self):
        page = self.open_without_token()
        page.open(f"{self.url}/#token=s3cre")  # in the page that is open
        self.comes_to_hold(lambda: page.text("form"), "This token is wrong")
        page.open(f"{self.url}/#token=s3cret")
        self.wait("document.querySelector('#version')?.textContent.startsWith('ocellus 0')")
        self.assert_opened()
        page.open(f"{self.url}/#token=s3cret")
        self.assert_opened()
        page.open("about:blank")
        page.open(f"{self.url}/#token=s3cret")
        self.wait("document.querySelector('#version')?.textContent.startsWith('ocellus 0')")
        self.becomes(lambda: page.evaluate("location.href"), self.url + "/")

    def test_a_token_opens_the_page_once_for_all_and_leaves_the_address(self):
        page = self.open_without_token()
        page.open(f"{self.url}/?token=s3cret")
        self.wait("document.querySelector('#version')?.textContent.startsWith('ocellus 0')")
        self.becomes(lambda: page.evaluate("location.href"), self.url + "/")
        self.becomes(lambda: page.evaluate("document.cookie"), "")  # scripts cannot read it
        self.wait(f"Number({SHOWN}) > 0", limit_s=30)
        self.wait("document.querySelectorAll('#history img').length > 0", limit_s=60)
        page.press("/")
        page.type("What changed?")
        page.press("Enter")
        self.wait("document.querySelector('#answers .answer:not(.waiting)')?.textContent", limit_s=60)
        self.assertNotIn("s3cret", page.evaluate("document.documentElement.outerHTML"))


class Driver(unittest.TestCase):
    def test_without_a_browser_the_package_to_install_is_named(self):
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = "/none"
        self.assertIsNone(find_browser())
        with self.assertRaisesRegex(BrowserFailure, "^No Chromium was found: install chromium"):
            Browser()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["-v"])])
