"""How far a conversion has come, looking as the program's progress does (apps/base/progress_text.h)."""
import os
import sys
import time

FIRST_AFTER_S, REDRAWN_AFTER_S = 1, 0.1
BAR_COLUMNS = 24
UNITS = ((1 << 30, 2, "GiB"), (1 << 20, 1, "MiB"), (1 << 10, 0, "KiB"))
ERASE = "\r\033[K"


def unit_of(count_bytes):
    return next((unit for unit in UNITS if count_bytes >= unit[0]), UNITS[-1])


def format_duration(seconds):
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class Progress:
    """By bytes as float32: a bar on a terminal, elsewhere a line for each tenth, nothing in the first second."""

    def __init__(self, total_bytes):
        self.total_bytes, self.done_bytes = total_bytes, 0
        self.begin = time.monotonic()
        self.shown_at, self.tenths = 0, 0
        self.is_quiet, self.is_open = False, False
        self.file = ""
        self.notes = []

    def add(self, count_bytes):
        """One more tensor was read."""
        self.done_bytes = min(self.done_bytes + count_bytes, self.total_bytes)
        self.file = ""
        self._show()

    def note(self, sentence):
        """Keeps it for the end, if that is reached."""
        self.notes.append(sentence)

    def writing(self, path):
        self.file = path.name
        self._show()

    def finish(self):
        self.done_bytes = self.total_bytes
        self._show()
        self.stop()
        for sentence in self.notes:
            print(sentence, file=sys.stderr)

    def stop(self):
        """Erases the bar."""
        if self.is_open:
            print(ERASE, end="", file=sys.stderr, flush=True)
        self.is_open = False

    def _percent(self):
        return 100 * self.done_bytes // max(self.total_bytes, 1)

    def _show(self):
        now = time.monotonic()
        if self.is_quiet or now - self.begin < FIRST_AFTER_S:
            return
        tenths = self._percent() // 10
        if sys.stderr.isatty():
            if now - self.shown_at < REDRAWN_AFTER_S:
                return
            print(f"{ERASE}{self._bar(os.get_terminal_size(sys.stderr.fileno()).columns - 1)}", end="", file=sys.stderr,
                  flush=True)
            self.shown_at, self.is_open = now, True
        elif tenths > self.tenths:
            print(f"converting: {self._percent()} %, {', '.join(self._facts().values())}", file=sys.stderr, flush=True)
        self.tenths = tenths

    def _facts(self):
        """Amount, rate, time, and the file that is being written."""
        size, decimals, name = unit_of(self.total_bytes)
        seconds = time.monotonic() - self.begin
        rate = self.done_bytes / seconds
        rate_size, rate_decimals, rate_name = unit_of(rate)
        facts = {"amount": f"{self.done_bytes / size:.{decimals}f} of {self.total_bytes / size:.{decimals}f} {name}"}
        if rate > 0:
            left = (self.total_bytes - self.done_bytes) / rate
            facts["rate"] = f"{rate / rate_size:.{rate_decimals}f} {rate_name}/s"
            facts["time"] = f"{format_duration(left)} left" if left > 0 else f"after {format_duration(seconds)}"
        if self.file:
            facts["file"] = f"writing {self.file}"
        return facts

    def _bar(self, columns):
        """The line, without what a narrow terminal has no room for."""
        filled = self._percent() * BAR_COLUMNS // 100
        facts = {"bar": f"[{'#' * filled}{'.' * (BAR_COLUMNS - filled)}]", **self._facts()}
        for least in ("", "rate", "file", "bar", "amount", "time"):
            facts.pop(least, None)
            numbers = ", ".join(text for name, text in facts.items() if name != "bar")
            line = f"converting  {self._percent()} %" + "".join(f" {part}" for part in (facts.get("bar"), numbers) if part)
            if len(line) <= columns:
                break
        return line[:columns]
