"""Drives a headless Chromium over the DevTools protocol, through a pipe: nothing but the standard library."""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--mute-audio",
         "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--no-default-browser-check", "--force-color-profile=srgb",
         # a camera that shows a test pattern, and nobody to ask whether it may be used
         "--use-fake-device-for-media-stream=device-count=2", "--use-fake-ui-for-media-stream"]
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowRight": (39, ""), "ArrowLeft": (37, ""),
        "Backspace": (8, ""), "/": (191, "/"), "f": (70, "f"), " ": (32, " ")}


class BrowserFailure(Exception):
    pass


def find_browser():
    """The path of a Chromium, or None. Ubuntu's snap stub, which is a script without a browser, does not count."""
    for name in NAMES:
        path = shutil.which(name)
        if path and b"/snap/bin" not in pathlib.Path(path).read_bytes()[:4096]:
            return path
    return None


class Browser:
    def __init__(self):
        path = find_browser()
        if not path:
            raise BrowserFailure("No Chromium was found: install chromium, or set OCELLUS_NO_BROWSER=1 to go without.")
        self.folder = tempfile.TemporaryDirectory(prefix="ocellus-browser-", ignore_cleanup_errors=True)
        self.messages, self.unread, self.pages = 0, b"", {}
        theirs_in, self.out = os.pipe()
        self.input, theirs_out = os.pipe()
        # away from 3 and 4, where the browser wants them
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (theirs_in, theirs_out)]
        log = os.open(os.path.join(self.folder.name, "log"), os.O_WRONLY | os.O_CREAT)
        arguments = [path, *FLAGS, f"--user-data-dir={self.folder.name}/profile", "about:blank"]
        ends = [(os.POSIX_SPAWN_DUP2, end, number) for end, number in zip([*theirs, log, log], [3, 4, 1, 2])]
        environment = {**os.environ, "HOME": self.folder.name}
        self.process = os.posix_spawn(path, arguments, environment, setpgroup=0, file_actions=ends)
        for end in (theirs_in, theirs_out, log, *theirs):
            os.close(end)
        self.version = self.send("Browser.getVersion", limit_s=60)["product"]

    def send(self, method, session=None, limit_s=30, **parameters):
        """The result of one command. Events that arrive meanwhile go to their pages."""
        self.messages += 1
        message = {"id": self.messages, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        unsent = json.dumps(message).encode() + b"\0"
        while unsent:
            unsent = unsent[os.write(self.out, unsent):]
        until = time.monotonic() + limit_s
        while True:
            answer = self.receive(until, f"{method} was not answered within {limit_s} s.")
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise BrowserFailure(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def receive(self, until, otherwise):
        while b"\0" not in self.unread:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.input], [], [], left)[0]:
                raise BrowserFailure(otherwise)
            read = os.read(self.input, 1 << 20)
            if not read:
                log = pathlib.Path(self.folder.name, "log").read_text(errors="replace")[-2000:]
                raise BrowserFailure(f"The browser has ended: {log}")
            self.unread += read
        message, self.unread = self.unread.split(b"\0", 1)
        message = json.loads(message)
        if "method" in message and message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].take_event(message["method"], message["params"])
        return message

    def open_page(self, width=1440, height=900, **looks):
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.emulate(width, height, **looks)
        return page

    def close(self):
        try:
            self.send("Browser.close", limit_s=5)
        except (BrowserFailure, OSError):
            pass
        os.close(self.out)
        os.close(self.input)
        until = time.monotonic() + 5
        while os.waitpid(self.process, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.killpg(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
                break
            time.sleep(0.02)
        self.folder.cleanup()


class Page:
    """One tab. `problems` collects errors of the console, exceptions, and requests that failed."""

    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target
        self.problems, self.requests, self.urls = [], [], {}

    def send(self, method, limit_s=30, **parameters):
        return self.browser.send(method, session=self.session, limit_s=limit_s, **parameters)

    def take_event(self, name, event):
        if name == "Network.requestWillBeSent":
            self.urls[event["requestId"]] = event["request"]["url"]
            self.requests.append(event["request"]["url"])
        elif name == "Network.loadingFailed" and not event.get("canceled"):
            self.problems.append(f"request failed: {self.urls.get(event['requestId'])}: {event['errorText']}")
        elif name == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.problems.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif name == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + " ".join(str(one.get("value")) for one in event["args"]))
        elif name == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"log: {event['entry']['text']} {event['entry'].get('url', '')}")
        if len(self.requests) > 20000:
            del self.requests[:10000]

    def emulate(self, width=1440, height=900, dark=False, phone=False, still=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, mobile=phone,
                  deviceScaleFactor=2 if phone else 1)
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def open(self, url):
        failed = self.send("Page.navigate", url=url).get("errorText")
        if failed:
            raise BrowserFailure(f"{url}: {failed}")
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression):
        """The value of a JavaScript expression; promises are waited for."""
        done = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise BrowserFailure(f"{expression}: {done['exceptionDetails'].get('exception', {}).get('description')}")
        return done["result"].get("value")

    def wait_for(self, expression, limit_s=30):
        """The first value of the expression that is true for JavaScript; an element counts as that."""
        until = time.monotonic() + limit_s
        look = f"(() => {{ const value = ({expression}); return value instanceof Node || value; }})()"
        while True:
            try:
                value = self.evaluate(look)
            except BrowserFailure as failure:  # the page may be changing under our feet
                value = None
                if time.monotonic() > until:
                    raise failure
            if value:
                return value
            if time.monotonic() > until:
                raise BrowserFailure(f"Not within {limit_s} s: {expression}")
            time.sleep(0.03)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    def all(self, selector, what="textContent"):
        """What JavaScript says of every element `one`: its textContent, or another expression."""
        look = f"one.{what}" if what.isidentifier() else what
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(one => {look})")

    def click(self, selector):
        """Presses the mouse where a viewer would, and only if nothing lies over the element there."""
        x, y = self.evaluate(f"""(() => {{
          const node = document.querySelector({json.dumps(selector)});
          if (!node) throw new Error('there is none');
          node.scrollIntoView({{block: 'nearest', inline: 'nearest'}});
          const box = node.getBoundingClientRect();
          const x = box.x + box.width / 2, y = box.y + box.height / 2, hit = document.elementFromPoint(x, y);
          if (!hit || !(node.contains(hit) || hit.contains(node))) throw new Error(`covered by ${{hit?.outerHTML}}`);
          return [x, y];
        }})()""")
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, shift=False):
        code, text = KEYS[key]
        event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        """Into what has the focus."""
        self.send("Input.insertText", text=text)

    def fill(self, selector, text):
        self.click(selector)
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.type(text)

    def screenshot(self, path, whole=False):
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.browser.pages.pop(self.session, None)
        self.browser.send("Target.closeTarget", targetId=self.target)
