"""An engine: a model's weights on one device and all memory of its sessions."""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence, TypeVar

from . import _abi
from ._model import Model, ModelFiles
from ._native import Handle, bad_argument, check, lib, record
from ._plan import Plan, make_limits

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from typing_extensions import Unpack

    from ._answer import Answer, AskOptions
    from ._session import Session

    class LimitOptions(_abi.Limits, _abi.CachePolicy, total=False):
        """Fields of ocellus_limits and ocellus_cache_policy."""

T = TypeVar("T")
_EXIT_SECONDS = 10.0  # that a call may take to end when the interpreter does


def _write_log(_user: Any, level: int, text: bytes) -> None:
    import logging
    logging.getLogger("ocellus").log((logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)[level], "%s", text.decode("utf-8", "replace"))


_log = _abi.ocellus_log_function(_write_log)


@contextmanager
def _show_progress(progress: Any) -> Iterator[tuple[Any, list[BaseException]]]:
    """The callback that tells how many bytes are loaded, and what was raised in it."""
    failures: list[BaseException] = []
    bar = None
    if progress is True:
        from tqdm.auto import tqdm
        bar = tqdm(desc="loading", unit="B", unit_scale=True, unit_divisor=1024, leave=False)

    def receive(_user: Any, done: int, total: int) -> int:
        try:
            if bar is not None:
                bar.total = total
                bar.update(done - bar.n)
            else:
                progress(done, total)
            return 0
        except BaseException as error:
            failures.append(error)
            return 1

    function = _abi.ocellus_progress_function(receive if progress else 0)
    try:
        yield function, failures
    finally:
        if bar is not None:
            bar.close()


def _destroy(engine: int, constraints: dict[tuple[int, str], int]) -> None:
    """Ends an engine, after the constraints in its memory."""
    while constraints:
        lib.ocellus_constraint_destroy(constraints.popitem()[1])
    lib.ocellus_engine_destroy(engine)


class _Turn:
    """A thread's turn to compute on an engine. First it closes what nobody refers to any more."""

    def __init__(self, engine: Engine):
        self._engine = weakref.ref(engine)
        self._lock, self._dropped = engine._lock, engine._dropped

    def __enter__(self) -> int:
        engine = self._engine()
        assert engine is not None  # whoever computes refers to it
        self._lock.acquire()
        try:
            pointer = engine._get()
            while self._dropped:
                close, dropped = self._dropped.popleft()
                close(dropped)
            return pointer
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Engine(Handle):
    """A model on one device, in one piece of memory that is planned before it is taken.

    `model`, `mmproj`: a Model, files, a published name that `pull` has fetched, or None: the bundled model.
    `budget`: most bytes of the plan, "512M"; None: no limit. A plan that does not fit raises Error (OVER_BUDGET), whose
    sentence says what would.
    `images`: images of a session, 0 to 65536; None: 4, or 0 for a model without a vision part. `sessions`: conversations that are open at once, 1 to 1024.
    `text_tokens`: text tokens of a session, prompts and answers together; the tokens around images come on top.
    `device`: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".
    `kv_bits`: bits of cached pictures, 16, 8, 4, 2 or 1; "8/4": of keys and of values; a list: of each layer.
    `evict`, `keep`: method that evicts cached tokens ("snapkv", "david:rho=1"), and the fraction that stays.
    `progress`: called with the loaded and the whole bytes of weights while they are read; True: a bar by tqdm.
    `limits`: any other field of `ocellus_limits` or `ocellus_cache_policy`; names of constants are texts ("mpic").

    Differing from the C API's defaults, pictures may be photographs of 16384 pixels a side, and one constraint
    (`max_constraints`) is planned for answers with a schema.

    Threads: an engine computes one call at a time; calls of other threads wait. The GIL is free while it computes."""

    def __init__(self, model: Model | str | os.PathLike[str] | ModelFiles | None = None,
                 mmproj: str | os.PathLike[str] | None = None, *, budget: int | str | None = None, images: int | None = None,
                 sessions: int = 1, text_tokens: int = 1024, device: str = "auto",
                 kv_bits: int | str | Sequence[int | str] = 16, evict: str = "", keep: float = 1.0,
                 progress: Callable[[int, int], object] | bool | None = None, **limits: Unpack[LimitOptions]):
        self.model = model if isinstance(model, Model) else Model(model, mmproj)
        """the model"""
        self._limits = make_limits(self.model, budget, images, sessions, text_tokens, device, kv_bits, evict, keep, dict(limits))
        self.plan = Plan.make(self.model._get(), self._limits)
        """its memory"""
        config = _abi.ocellus_engine_config()
        lib.ocellus_engine_config_init(ctypes.byref(config))
        config.limits, config.log = self._limits, _log
        pointer = ctypes.c_void_p()
        with _show_progress(progress) as (receive, failures):
            config.progress = receive
            status = lib.ocellus_engine_create(self.model._get(), ctypes.byref(config), ctypes.byref(pointer))
        if failures:
            raise failures[0]
        check(status)
        constraints: dict[tuple[int, str], int] = {}  # compiled forms, the least recently used first
        super().__init__(pointer.value or 0, lambda gone: _destroy(gone, constraints))
        self._constraints = constraints
        self._lock = threading.Lock()
        self._dropped: deque[tuple[Callable[[int], None], int]] = deque()  # objects to close when nobody computes
        self._turn = _Turn(self)
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._libraries: set[Any] = set()  # that sessions have used: alive as long as the engine
        self._worker: ThreadPoolExecutor | None = None
        _ENGINES.add(self)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ocellus.Engine of {self.model.facts.name!r}, {self.plan.total_bytes} bytes>"

    def close(self) -> None:
        """Frees the engine and its sessions, after stopping what they compute. A second call does nothing."""
        if self.closed:
            return
        if self._process == os.getpid():
            self._stop_sessions()
            with self._lock:
                super().close()
            if self._worker is not None:
                self._worker.shutdown()
        self._pointer = None

    def session(self) -> Session:
        """Opens a conversation. Raises Error (FULL) if all planned ones are open."""
        from ._session import Session
        return Session(self)

    def ask_batch(self, questions: Sequence[tuple[Any, str]], **options: Unpack[AskOptions]) -> list[Answer]:
        """Answers several questions, (pictures, text) each, decoded together in as many sessions as are free.

        Options are those of `Session.ask`. Answers come in the order of the questions. The first failure is raised."""
        from ._session import ask_batch
        return ask_batch(self, list(questions), dict(options))

    @property
    def stats(self) -> _abi.EngineStats:
        """What it has used so far."""
        stats = _abi.ocellus_engine_stats()
        with self._use() as engine:
            check(lib.ocellus_engine_get_stats(engine, ctypes.byref(stats)))
        made: _abi.EngineStats = record(_abi.EngineStats, stats)
        return made

    def _use(self) -> _Turn:
        """`with` gives the engine's pointer while this thread alone computes."""
        return self._turn

    def _stop_sessions(self) -> None:
        for session in list(self._sessions):
            if not session.closed:
                session.cancel()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        """Computes on the engine's own thread."""
        self._get()
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor
            self._worker = ThreadPoolExecutor(1, "ocellus")
        return self._worker.submit(work)

    def _run(self, work: Callable[[], T], stop: Callable[[], None]) -> T:
        """Computes; Ctrl-C on the main thread calls `stop`, waits and is raised."""
        self._get()
        if threading.current_thread() is not threading.main_thread():
            return work()
        future = self._submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            stop()
            future.exception()
            raise

    def _constraint(self, form: Any) -> int:
        """The handle of a compiled form; the planned number is kept. Called while this thread alone computes."""
        from ._forms import compile_form
        key = (form.kind, form.text)
        constraint = self._constraints.pop(key, None)
        most = self._limits.max_constraints
        if most < 1:
            raise bad_argument("this engine plans no constraint: make it with max_constraints=1")
        if constraint is None:
            while len(self._constraints) >= most:
                lib.ocellus_constraint_destroy(self._constraints.pop(next(iter(self._constraints))))
            constraint = compile_form(self._get(), form)
        self._constraints[key] = constraint
        return constraint


_ENGINES: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _end_engines() -> None:
    """Stops what daemon threads still compute, so that nothing is freed under them."""
    for engine in list(_ENGINES):
        if engine.closed or engine._process != os.getpid():
            continue
        engine._stop_sessions()
        finish = engine._finalizer.detach()  # which by now does nothing when it is called
        if finish and engine._lock.acquire(timeout=_EXIT_SECONDS):  # else it computes on; its memory goes with the process
            finish[1](*finish[2])


def plan(model: Model | str | os.PathLike[str] | ModelFiles | None = None,
         mmproj: str | os.PathLike[str] | None = None, *, budget: int | str | None = None, images: int | None = None,
         sessions: int = 1, text_tokens: int = 1024, device: str = "auto",
         kv_bits: int | str | Sequence[int | str] = 16, evict: str = "", keep: float = 1.0,
         **limits: Unpack[LimitOptions]) -> Plan:
    """The plan of an engine with these parameters, without loading weights. See `Engine`."""
    opened = model if isinstance(model, Model) else Model(model, mmproj)
    made = make_limits(opened, budget, images, sessions, text_tokens, device, kv_bits, evict, keep, dict(limits))
    return Plan.make(opened._get(), made)
