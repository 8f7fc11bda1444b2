"""Answers, whole or piece by piece."""
from __future__ import annotations

import ctypes
import math
import time
from typing import TYPE_CHECKING, Any, AsyncIterator, Generator, Iterator, Mapping, NamedTuple

from . import _abi
from ._forms import Form, choose_form
from ._native import Error, Status, bad_argument, check, lib, record, set_field, set_options
from ._pictures import Parts
from ._prompt import TrimmedText
from ._record import Record

if TYPE_CHECKING:
    from ._session import Session

# What an answer's calls add up; of the others the first one (its prompt) or the last one (its end) holds.
_SUMS = ("generated_tokens", "thought_tokens", "thought_mark_tokens", "decode_steps", "drafted_tokens",
         "accepted_tokens", "constraint_ms")
_LAST = ("stop", "image_count", "kv_bytes", "kv_scale_bytes", "kv_waste_bytes", "kv_block_bytes", "kv_shared_bytes",
         "kv_block_elements", "kv_bytes_full", "logits_hash")


class AskOptions(_abi.Sampling, total=False):
    """How a question is answered: the fields of `ocellus_generate_params`, and these."""

    max_tokens: int
    """tokens of the answer, without its thought; 128"""
    timeout: float
    """seconds until the answer is stopped"""
    schema: Any
    """the answer is JSON of this JSON schema: a dict, a text or a pydantic class, whose instance is `Answer.value`"""
    grammar: str
    """the answer follows a grammar in GBNF"""
    regex: str
    """the answer as a whole matches a regular expression"""
    logprobs: int
    """log-probabilities of tokens, and of that many alternatives; the engine plans them: max_top_logprobs"""
    logit_bias: Mapping[int, float]
    """numbers that are added to tokens' logits"""


class Token(NamedTuple):
    """A token and the natural logarithm of its probability."""

    token: int
    """its number in the vocabulary"""
    text: str
    """its text; a part of a character is shown as a replacement character"""
    log_probability: float
    """among all tokens at temperature 1"""
    top: tuple[Any, ...] = ()
    """the most probable tokens at its place, each a Token"""


class Place(NamedTuple):
    """A box or a point of an answer, in pixels of the picture. The corners of a point are equal."""

    label: str
    left: int
    top: int
    right: int
    bottom: int
    is_point: bool = False


class Answer(Record):
    """An answer. str() is its text."""

    text: str
    """the text, without white space at both ends unless a form wants it"""
    thought: str
    """the thought before it; empty: none"""
    stop: str
    """why it ended: "end_token", "max_tokens", "full", "cancelled", "deadline" or "callback\""""
    stats: _abi.AnswerStats
    """counts and times"""
    value: Any
    """of an answer with a schema: the parsed JSON or the pydantic instance; None if it was cut"""
    tokens: tuple[Token, ...]
    """its tokens, if `logprobs` was given"""
    places: tuple[Place, ...]
    """boxes and points about a single picture, of models that write them"""

    def __str__(self) -> str:
        return self.text

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of the tokens, if `logprobs` was given; else NaN."""
        if not self.tokens:
            return math.nan
        return math.exp(-sum(token.log_probability for token in self.tokens) / len(self.tokens))


def make_params(options: dict[str, Any]) -> tuple[Any, Form | None, float | None, list[Any]]:
    """Parameters, form, seconds and what the parameters point to."""
    params = _abi.ocellus_generate_params()
    lib.ocellus_generate_params_init(ctypes.byref(params))
    options = dict(options)
    keep: list[Any] = []
    form = choose_form(options.pop("schema", None), options.pop("grammar", None), options.pop("regex", None))
    timeout = options.pop("timeout", None)
    logprobs = options.pop("logprobs", None)
    bias = options.pop("logit_bias", None)
    if bias:
        try:
            array = (_abi.ocellus_logit_bias * len(bias))(*bias.items())
        except (TypeError, AttributeError):
            raise bad_argument("logit_bias is a dict of tokens and numbers") from None
        keep.append(array)
        params.logit_bias, params.logit_bias_count = array, len(bias)
    if logprobs is not None:
        set_field(params, "top_logprobs", logprobs)
    if "max_tokens" in options:
        set_field(params, "max_tokens", options.pop("max_tokens"))
    if timeout is not None and not timeout > 0:
        raise bad_argument(f"timeout is more than 0 seconds, not {timeout}")
    set_options(params, options, _abi.Sampling)
    return params, form, timeout, keep


class Stream:
    """An answer that comes piece by piece: `for piece in stream`, `async for piece in stream`, or `await stream` for the
    whole. Nothing is computed before the first piece is asked for, nor between two. `answer` is there at the end.

    A stream that is not read to its end costs nothing; the session's next question ends it."""

    def __init__(self, session: Session, parts: Parts, options: dict[str, Any], resets: bool = False,
                 system: str | None = None):
        self._session, self._parts, self._resets, self._system = session, parts, resets, system
        if parts.on_gpu and not session._engine.plan.staging_bytes:
            raise bad_argument("a picture is in a GPU's memory, but this engine computes on the CPU: copy it to the host")
        self._params, self._form, self._timeout, self._keep = make_params(options)
        self._text, self._thought = TrimmedText(self._form is None), TrimmedText(True)
        self._pieces: list[str] = []
        self._tokens: list[Token] = []
        self._slices: list[Any] = []  # counts and times of the calls so far
        self._failure: BaseException | None = None
        self._answer: Answer | None = None
        self._began = self._cancelled = False
        self._set_callbacks(self._params.top_logprobs > 0 or "logprobs" in options)

    def _set_callbacks(self, wants_tokens: bool) -> None:
        params = self._params
        self._keep.append(_abi.ocellus_text_function(self._receive))
        params.on_text = self._keep[-1]
        self._keep.append(_abi.ocellus_text_function(self._receive_thought))
        params.on_thought = self._keep[-1]
        if wants_tokens:
            self._keep.append(_abi.ocellus_token_function(self._receive_token))
            params.on_token = self._keep[-1]

    # Callbacks: an exception, Ctrl-C's too, ends the call and is raised after it.
    def _receive(self, _user: Any, text: Any, size: int) -> int:
        try:
            shown = self._text.add(ctypes.string_at(text, size).decode())
            if shown:
                self._pieces.append(shown)
            return 0
        except BaseException as error:
            self._failure = error
            return 1

    def _receive_thought(self, _user: Any, text: Any, size: int) -> int:
        try:
            self._thought.add(ctypes.string_at(text, size).decode())
            return 0
        except BaseException as error:
            self._failure = error
            return 1

    def _receive_token(self, _user: Any, chosen: Any, top: Any, count: int) -> int:
        try:
            others = tuple(_token(top[i]) for i in range(count))
            self._tokens.append(_token(chosen.contents)._replace(top=others))
            return 0
        except BaseException as error:
            self._failure = error
            return 1

    @property
    def answer(self) -> Answer:
        """The whole answer: what is left of it is computed now."""
        while self._answer is None:
            self._session._engine._run(lambda: self._advance(0), self.cancel)
        return self._answer

    def cancel(self) -> None:
        """Stops the answer, from any thread. Its text so far is in `answer`."""
        self._cancelled = True
        lib.ocellus_session_cancel(self._session._get())

    def _check_turn(self) -> None:
        if self._began and self._answer is None and self._session._stream is not self:
            raise bad_argument("the conversation went on: this answer has ended")

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._check_turn()
        while not self._pieces:
            if self._answer is not None:
                raise StopIteration
            if self._began:  # a token is short enough for Ctrl-C to wait
                self._advance(self._session._slice)
            else:
                self._session._engine._run(lambda: self._advance(self._session._slice), self.cancel)
        return self._pieces.pop(0)

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        self._check_turn()
        while not self._pieces:
            if self._answer is not None:
                raise StopAsyncIteration
            await self._advance_async(self._session._slice)
        return self._pieces.pop(0)

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._finish().__await__()

    async def _finish(self) -> Answer:
        while self._answer is None:
            await self._advance_async(0)
        return self._answer

    async def _advance_async(self, slice_tokens: int) -> None:
        import asyncio
        future = asyncio.wrap_future(self._session._engine._submit(lambda: self._advance(slice_tokens)))
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _advance(self, slice_tokens: int) -> None:
        """Computes the next tokens; 0: all."""
        session = self._session
        with session._engine._use() as engine:
            if self._answer is not None:
                return
            pointer = session._get()
            self._check_turn()
            try:
                if not self._began:
                    self._begin(pointer)
                self._generate(engine, pointer, slice_tokens)
            except BaseException:
                session._stream = None
                lib.ocellus_session_set_deadline(pointer, 0)
                raise
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _begin(self, pointer: int) -> None:
        """Adds the prompt."""
        session = self._session
        session._stream, self._began = self, True
        if self._timeout is not None:
            self._params.deadline_ns = time.monotonic_ns() + int(self._timeout * 1e9)
        lib.ocellus_session_set_deadline(pointer, self._params.deadline_ns)
        if self._resets:
            check(lib.ocellus_session_reset(pointer))
            session._picture_count = 0
        if self._system is not None:
            data = self._system.encode()
            check(lib.ocellus_session_add_system(pointer, data, len(data)))
        check(lib.ocellus_session_begin_turn(pointer))
        failed = ctypes.c_int32(-1)
        status = lib.ocellus_session_add_parts(pointer, self._parts.array(), len(self._parts), ctypes.byref(failed))
        if status != 0:
            failure = lib.ocellus_last_error().contents.sentence.decode("utf-8", "replace")
            number = self._parts.picture_number(failed.value)
            raise Error(Status(status), f"picture {number}: {failure}" if number else failure)
        session._picture_count += self._parts.picture_count
        check(lib.ocellus_session_end_turn(pointer))
        if self._cancelled:  # between two calls, where the library forgets it
            lib.ocellus_session_cancel(pointer)

    def _generate(self, engine: int, pointer: int, slice_tokens: int) -> None:
        params = self._params
        if self._form is not None:
            params.constraint = self._session._engine._constraint(self._form)
        params.slice_tokens = slice_tokens
        stats = _abi.ocellus_generate_stats()
        status = lib.ocellus_session_generate(pointer, ctypes.byref(params), ctypes.byref(stats))
        self._slices.append(stats)
        params.max_tokens -= stats.generated_tokens
        if status != 0 and not (status in (Status.CANCELLED, Status.DEADLINE) and self._has_begun()):
            check(status)
        if slice_tokens > 0 and stats.stop == _abi.OCELLUS_STOP_MAX_TOKENS and params.max_tokens > 0:
            if not self._cancelled:
                return
            stats.stop = _abi.OCELLUS_STOP_CANCELLED
        self._end(engine)

    def _has_begun(self) -> bool:
        return any(stats.generated_tokens + stats.thought_tokens > 0 for stats in self._slices)

    def _sum_up(self) -> Any:
        """The counts and times of all calls as those of one."""
        first, last = self._slices[0], self._slices[-1]
        total = _abi.ocellus_generate_stats.from_buffer_copy(first)
        for name in _LAST:
            setattr(total, name, getattr(last, name))
        times: list[float] = []  # of tokens after the first
        for stats in self._slices:
            tokens = stats.generated_tokens + stats.thought_tokens + stats.thought_mark_tokens
            spent = stats.decode_ms
            if stats is first:
                tokens -= 1
            else:
                spent += stats.first_token_ms
                total.decode_ms += spent
                for name in _SUMS:
                    setattr(total, name, getattr(total, name) + getattr(stats, name))
            times += [spent / tokens] * tokens if tokens > 0 else []
        if len(self._slices) > 1 and times:
            times.sort()
            total.token_median_ms = times[len(times) // 2]
            total.token_p95_ms = times[min(len(times) - 1, int(0.95 * len(times)))]
        return total

    def _end(self, engine: int) -> None:
        made: _abi.AnswerStats = record(_abi.AnswerStats, self._sum_up())
        self._session._stream = None
        # The callbacks hold this object, which would hold its session until the next collection.
        self._keep.clear()
        self._params = _abi.ocellus_generate_params()
        lib.ocellus_session_set_deadline(self._session._get(), 0)
        value = None
        if self._form is not None and made.stop == "end_token":
            try:
                value = self._form.read(self._text.text)
            except ValueError as error:  # a pydantic class may want more than its schema says
                self._failure = error
        places = self._session._places(engine, self._text.text, self._parts)
        self._answer = Answer(text=self._text.text, thought=self._thought.text, stop=made.stop, stats=made, value=value,
                              tokens=tuple(self._tokens), places=tuple(places))


def _token(struct: Any) -> Token:
    text = ctypes.string_at(struct.text, struct.text_bytes).decode("utf-8", "replace") if struct.text_bytes else ""
    return Token(struct.token, text, struct.log_probability)
