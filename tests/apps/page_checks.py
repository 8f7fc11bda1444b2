"""What the tests of the pages share: a browser, one tab for each test, and checks that every page must pass."""

import json
import os
import re
import time
import unittest

from browser import Browser, BrowserFailure

# [words looked at, those that stand out too little from their ground]
POOR_CONTRAST = """(() => {
  const read = colour => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const bend = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * bend(r) + .7152 * bend(g) + .0722 * bend(b);
  const poor = [];
  let seen = 0;
  for (const node of document.querySelectorAll('body *')) {
    const words = [...node.childNodes].some(one => one.nodeType === 3 && one.data.trim());
    if (!words || node.disabled || !node.checkVisibility()) continue;
    if (node.closest('.unseen, .stage, noscript')) continue;
    let ground = node;
    while (ground && read(getComputedStyle(ground).backgroundColor)[3] < 1) ground = ground.parentElement;
    const colours = [getComputedStyle(node).color, getComputedStyle(ground ?? document.body).backgroundColor];
    const pair = colours.map(read).map(light);
    const ratio = (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
    seen += 1;
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${node.outerHTML.slice(0, 90)}`);
  }
  return [seen, poor];
})()"""
# [elements looked at, words below 12 pixels and targets below 24]
SMALL = """(() => {
  const seen = node => node.checkVisibility() && !node.closest('.unseen, noscript, .skip');
  const words = node => [...node.childNodes].some(one => one.nodeType === 3 && one.data.trim()) ||
    ['INPUT', 'TEXTAREA', 'SELECT'].includes(node.tagName);
  const poor = [], all = [...document.querySelectorAll('body *')].filter(seen);
  for (const node of all.filter(words)) {
    const size = parseFloat(getComputedStyle(node).fontSize);
    if (size < 12) poor.push(`${size} px: ${node.outerHTML.slice(0, 80)}`);
  }
  for (const node of all.filter(one => one.matches('button, a, input, select, textarea, summary'))) {
    const {width, height} = node.getBoundingClientRect();
    if (Math.min(width, height) < 24) poor.push(`${width} x ${height}: ${node.outerHTML.slice(0, 80)}`);
  }
  return [all.length, poor];
})()"""
browser = None


def setUpModule():
    global browser
    if os.environ.get("OCELLUS_NO_BROWSER") == "1":
        raise unittest.SkipTest("OCELLUS_NO_BROWSER is 1.")
    browser = Browser()


def tearDownModule():
    if browser:
        browser.close()


def open_page(**looks):
    return browser.open_page(**looks)


class PageTest(unittest.TestCase):
    """One tab for each test, which fails on anything that the browser complains about."""
    url = None
    ready = "document.querySelector('#version').textContent.startsWith('ocellus 0')"
    allowed = r"(?!)"  # complaints that belong to the test

    def open(self, **looks):
        self.page = open_page(**looks)
        self.addCleanup(self.page.close)
        self.page.open(self.url)
        self.page.wait_for(self.ready)
        return self.page

    def tearDown(self):
        if hasattr(self, "page"):
            self.page.evaluate("1")  # what it still has to say
            self.assertEqual([one for one in self.page.problems if not re.search(self.allowed, one)], [])

    def wait(self, expression, **limits):
        return self.page.wait_for(expression, **limits)

    def wait_text(self, selector, text, **limits):
        self.wait(f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})", **limits)

    def becomes(self, look, wanted, message=None):
        """What `look` says of the page is this, at once or when the browser has drawn and told what it must."""
        found = self.until(look, lambda found: found == wanted)
        self.assertEqual(found, wanted, message)

    def comes_to_hold(self, look, part):
        self.assertIn(part, self.until(look, lambda found: part in found))

    def until(self, look, is_right, limit_s=20):
        limit = time.monotonic() + limit_s
        while True:
            try:
                if is_right(found := look()) or time.monotonic() > limit:
                    return found
            except BrowserFailure:  # an element may not be there yet
                if time.monotonic() > limit:
                    raise
            self.page.evaluate("1")  # events of the browser are taken with its answers
            time.sleep(0.03)

    def wait_until(self, is_true, limit_s=30):
        self.assertTrue(self.until(is_true, bool, limit_s), "It did not come true.")
