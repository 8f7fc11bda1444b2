"""How far the matrix is and how long it will take, on stderr."""
import shutil
import sys
import time

from budget_demo import format_seconds


class Progress:
    """On a terminal a bar that moves; otherwise a line for every cell."""
    BAR_WIDTH = 30

    def __init__(self, cells):
        self.cells = cells
        self.total = sum(cell.weight for cell in cells) or 1
        self.begin = time.monotonic()
        self.on_terminal = sys.stderr.isatty()
        self.finished = 0
        self.finished_weight = 0.0
        self.share_of_running = {}  # cell: how much of it is done
        self.text = "starting ..."

    def answered(self, cell, share):
        """Called by threads."""
        self.share_of_running[cell] = min(share, 1)

    def finish(self, cell, text):
        self.share_of_running.pop(cell, None)
        self.finished += 1
        self.finished_weight += cell.weight
        self.text = text
        if not self.on_terminal:
            print(f"{self.finished} of {len(self.cells)}: {text}{self.time_left()}", file=sys.stderr, flush=True)

    def share(self):
        running = sum(cell.weight * share for cell, share in list(self.share_of_running.items()))
        return (self.finished_weight + running) / self.total

    def time_left(self):
        share = self.share()
        if not 0.01 < share < 1:
            return ""
        return f", {format_seconds((time.monotonic() - self.begin) * (1 / share - 1))} left"

    def draw(self):
        if not self.on_terminal:
            return
        filled = int(self.share() * self.BAR_WIDTH)
        line = (f"[{'#' * filled}{'.' * (self.BAR_WIDTH - filled)}] {self.finished} of {len(self.cells)}"
                f"{self.time_left()}; {self.text}")
        print("\r\033[K" + line[:shutil.get_terminal_size().columns - 1], end="", file=sys.stderr, flush=True)

    def remark(self, text):
        """A line that stays."""
        print(("\r\033[K" if self.on_terminal else "") + text, file=sys.stderr, flush=True)

    def close(self):
        if self.on_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
