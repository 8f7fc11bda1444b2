"""How far a conversion has come, by tensors and bytes."""
import sys
import time

EVERY_S = 1


class Progress:
    """Writes to the terminal, or lines to a log, at most once in EVERY_S seconds: nothing where all is done sooner."""

    def __init__(self, tensors, total_bytes):
        self.tensors, self.total_bytes = tensors, total_bytes
        self.done = self.done_bytes = 0
        self.shown_at = time.monotonic()
        self.is_open = False
        self.notes = []

    def add(self, count_bytes):
        """One more tensor was read, as float32."""
        self.done += 1
        self.done_bytes += count_bytes
        if time.monotonic() - self.shown_at < EVERY_S:
            return
        self.shown_at = time.monotonic()
        self._show(f"{self.done} of {self.tensors} tensors, {self.done_bytes / 1e9:.2f} of "
                   f"{self.total_bytes / 1e9:.2f} GB as float32")
        self.is_open = True

    def note(self, sentence):
        """Keeps it for the end, if that is reached."""
        self.notes.append(sentence)

    def writing(self, path, count, count_bytes):
        if self.is_open:
            self._show(f"writing {path.name}: {count} tensors, {count_bytes / 1e9:.2f} GB")

    def finish(self):
        if self.is_open and sys.stderr.isatty():
            print(file=sys.stderr)
        for sentence in self.notes:
            print(sentence, file=sys.stderr)

    @staticmethod
    def _show(text):
        is_terminal = sys.stderr.isatty()
        print(f"\r{text}\033[K" if is_terminal else text, end="" if is_terminal else "\n", file=sys.stderr, flush=True)
