"""A conversation: pictures and questions, then answers."""
from __future__ import annotations

import array
import ctypes
import math
from typing import TYPE_CHECKING, Any, Iterator, Literal, NamedTuple, Sequence, overload

from . import _abi
from ._answer import Answer, AskOptions, Place, Stream
from ._native import Error, Handle, Status, bad_argument, check, lib, number_of, record
from ._pictures import Parts, as_pictures, encode_picture
from ._places import find_places
from ._prompt import CAPTION_PROMPT, place_pictures

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._engine import Engine
    from ._image_library import Library

_SLICE_TOKENS = 1  # tokens of a streamed answer between two looks at the caller ...
_GPU_SLICE_TOKENS = 4  # ... on a GPU, which works ahead


class Choice(NamedTuple):
    """An answer that a model might give, and its probability."""

    text: str
    probability: float
    """of this whole answer among all that the model may write"""
    log_probability: float
    """its natural logarithm"""
    tokens: int
    """tokens of the text"""


class Session(Handle):
    """A conversation in one of an engine's planned places; see `Engine.session`.

    Pictures are one or a list of what `Picture` names: paths, file contents, arrays, PIL images, frames, clips, entries.
    They come before the text, or at its `<image>` marks. One thread at a time may use a session, except for `cancel`."""

    def __init__(self, engine: Engine):
        self._engine = engine
        pointer = ctypes.c_void_p()
        with engine._use() as engine_pointer:
            check(lib.ocellus_session_open(engine_pointer, ctypes.byref(pointer)))
        dropped = engine._dropped  # a session that nobody refers to is closed when the engine is not at work
        super().__init__(pointer.value or 0, lambda gone: dropped.append((lib.ocellus_session_close, gone)))
        self._stream: Stream | None = None  # the answer that goes on
        self._picture_count = 0
        self._slice = _GPU_SLICE_TOKENS if engine.plan.staging_bytes else _SLICE_TOKENS
        self._library: Library | None = None
        engine._sessions.add(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self) -> int:
        if self._engine.closed:
            raise bad_argument("the engine of this session is closed")
        return super()._get()

    def close(self) -> None:
        """Ends the conversation; its place is free for another. A second call does nothing."""
        super().close()
        if not self._engine.closed:
            with self._engine._use():  # which closes what was dropped
                pass

    # ---- questions ----

    @overload
    def ask(self, pictures: Any, text: str, *, stream: Literal[False] = False, system: str | None = None,
            **options: Unpack[AskOptions]) -> Answer: ...

    @overload
    def ask(self, pictures: Any, text: str, *, stream: Literal[True], system: str | None = None,
            **options: Unpack[AskOptions]) -> Stream: ...

    def ask(self, pictures: Any, text: str, *, stream: bool = False, system: str | None = None,
            **options: Unpack[AskOptions]) -> Answer | Stream:
        """Asks about pictures in a new conversation: what was said before is forgotten.

        `stream`: returns a Stream at once, whose pieces are computed as they are asked for. `system`: the instructions.
        Raises Error (BAD_IMAGE, FULL, CANCELLED, DEADLINE, ...); an answer that was stopped after its first token is
        returned, and `Answer.stop` says so."""
        return self._turn(pictures, text, stream, True, system, dict(options))

    @overload
    def chat(self, text: str, pictures: Any = (), *, stream: Literal[False] = False,
             **options: Unpack[AskOptions]) -> Answer: ...

    @overload
    def chat(self, text: str, pictures: Any = (), *, stream: Literal[True],
             **options: Unpack[AskOptions]) -> Stream: ...

    def chat(self, text: str, pictures: Any = (), *, stream: bool = False,
             **options: Unpack[AskOptions]) -> Answer | Stream:
        """Says something more in the conversation. See `ask`."""
        return self._turn(pictures, text, stream, False, None, dict(options))

    def caption(self, picture: Any, **options: Unpack[AskOptions]) -> Answer:
        """Describes a picture in a new conversation."""
        return self.ask([picture], CAPTION_PROMPT, **options)

    def _turn(self, pictures: Any, text: str, stream: bool, resets: bool, system: str | None,
              options: dict[str, Any]) -> Answer | Stream:
        numbers = self._engine.model.facts.image_numbers
        parts = place_pictures(text, as_pictures(pictures), numbers, 0 if resets else self._picture_count)
        answer = Stream(self, parts, options, resets, system)
        return answer if stream else answer.answer

    def choose(self, pictures: Any, text: str, choices: Sequence[str], *, whole: bool = True) -> list[Choice]:
        """The probability of each of several answers to a question in a new conversation; none is generated.

        `whole`: an answer ends after its choice; else it may go on. Raises Error (UNSUPPORTED) with methods that change
        the cache during answers."""
        numbers = self._engine.model.facts.image_numbers
        stream = Stream(self, place_pictures(text, as_pictures(pictures), numbers), {}, resets=True)
        texts = [choice.encode() for choice in choices]
        structs = (_abi.ocellus_choice * max(len(texts), 1))()
        for struct, data in zip(structs, texts):
            struct.text, struct.text_bytes, struct.may_go_on = data, len(data), int(not whole)

        def score() -> None:
            with self._engine._use():
                stream._begin(self._get())
                check(lib.ocellus_session_score_choices(self._get(), structs, len(texts)))

        self._engine._run(score, self.cancel)
        return [Choice(text, math.exp(struct.log_probability), struct.log_probability, struct.token_count)
                for text, struct in zip(choices, structs)]

    # ---- the conversation ----

    def reset(self) -> None:
        """Forgets the conversation."""
        self._call(lib.ocellus_session_reset)
        self._picture_count, self._stream = 0, None

    def add_system(self, text: str) -> None:
        """Adds the instructions, before anything else."""
        data = text.encode()
        self._call(lib.ocellus_session_add_system, data, len(data))

    def add_message(self, role: str, text: str, pictures: Any = ()) -> None:
        """Adds a message that was said: of the "user", the "assistant" or the "system". `chat` goes on from there."""
        parts = place_pictures(text, as_pictures(pictures), self._engine.model.facts.image_numbers, self._picture_count)
        roles = {"system": _abi.OCELLUS_ROLE_SYSTEM, "user": _abi.OCELLUS_ROLE_USER,
                 "assistant": _abi.OCELLUS_ROLE_ASSISTANT}
        if role not in roles:
            raise bad_argument(f"role is 'system', 'user' or 'assistant', not {role!r}")

        def add() -> None:
            with self._engine._use():
                pointer = self._get()
                check(lib.ocellus_session_begin_message(pointer, roles[role]))
                check(lib.ocellus_session_add_parts(pointer, parts.array(), len(parts), None))
                check(lib.ocellus_session_end_message(pointer))

        self._engine._run(add, self.cancel)
        self._picture_count += parts.picture_count

    def mark(self) -> None:
        """Marks the end of what was added, so that several questions can begin there: `rewind` returns to it."""
        self._call(lib.ocellus_session_mark)

    def rewind(self) -> bool:
        """Returns to the mark. False: there is none any more, and the session is empty."""
        found = ctypes.c_int32()
        self._call(lib.ocellus_session_rewind, ctypes.byref(found))
        self._stream = None
        return bool(found.value)

    def set_rolling(self, images: int, sink_tokens: int = 0) -> None:
        """Keeps the newest `images` images and releases the oldest for new ones, for sessions of hours; 0: does not. The
        first `sink_tokens` tokens, 0 to 64, stay (StreamingLLM, arXiv 2309.17453)."""
        self._call(lib.ocellus_session_set_rolling, images, sink_tokens)

    def let_think(self, thinks: bool = True) -> None:
        """Tells a model to think whose chat template does so in words. Before the first message."""
        self._call(lib.ocellus_session_let_think, int(thinks))

    @property
    def token_count(self) -> int:
        """Tokens that the conversation has read, rows of pictures and answers included."""
        count = ctypes.c_int64()
        self._call(lib.ocellus_session_count_tokens, ctypes.byref(count))
        return count.value

    def cancel(self) -> None:
        """Stops what the session computes, from any thread: that call raises Error (CANCELLED), or returns the answer so
        far."""
        if self._stream is not None:
            self._stream._cancelled = True
        lib.ocellus_session_cancel(self._get())

    # ---- embeddings ----

    def embed_text(self, text: str) -> array.array[float]:
        """The embedding of a text: `facts.width` values of length 1. Forgets the conversation."""
        tokens = self._engine.model.tokenize(text, start=True)
        numbers = (ctypes.c_int32 * max(len(tokens), 1))(*tokens)
        return self._embed(lambda pointer, values, width: (
            lib.ocellus_session_reset(pointer) or lib.ocellus_session_add_tokens(pointer, numbers, len(tokens)) or
            lib.ocellus_session_embed(pointer, values, len(values), width)))

    def embed_picture(self, picture: Any) -> array.array[float]:
        """The embedding of a picture: values of length 1, to compare with other pictures'. Forgets the conversation."""
        data = encode_picture(picture)
        return self._embed(lambda pointer, values, width: lib.ocellus_session_embed_image(
            pointer, data, len(data), values, len(values), width))

    def _embed(self, write: Any) -> array.array[float]:
        values, width = (ctypes.c_float * 65536)(), ctypes.c_int32()

        def embed() -> None:
            with self._engine._use():
                check(write(self._get(), values, ctypes.byref(width)))

        self._engine._run(embed, self.cancel)
        self._picture_count, self._stream = 0, None
        return array.array("f", values[:width.value])

    # ---- image library ----

    def use_library(self, library: Library | None, owner: str = "me", **labels: Any) -> None:
        """Looks up pictures that are added from now on in an image library, and stores new ones; None: no longer.
        `labels`: `caption`, `tags`, `pinned`, `expires` and `shared` of those that are stored, as in `Library.relabel`.
        The engine plans it: `Engine(library=1, reuse="mpic", reuse_rows=32)`."""
        from ._image_library import make_keep
        self._call(lib.ocellus_session_set_library, library._get() if library else None,
                   owner.encode() if library else None)
        self._library = library
        if library is not None:
            self._engine._libraries.add(library)
            library._engines.add(self._engine)
        if library is not None and labels:
            keep, _texts = make_keep(labels)
            self._call(lib.ocellus_session_set_library_keep, ctypes.byref(keep))

    def stored_key(self) -> str:
        """The key of the picture that was added last, after it has been stored."""
        image = _abi.ocellus_library_image()
        self._call(lib.ocellus_session_get_library_image, ctypes.byref(image))
        return str(image.key.decode())

    def search(self, picture: Any, count: int = 10) -> list[tuple[_abi.LibraryItem, float]]:
        """The entries of the library in use whose pictures are most similar, the best first, with their cosines."""
        data = encode_picture(picture)
        hits, found = (_abi.ocellus_library_hit * max(count, 1))(), ctypes.c_int32()
        self._call(lib.ocellus_session_search_library, data, len(data), hits, count, ctypes.byref(found))
        return [(record(_abi.LibraryItem, hit.item), hit.score) for hit in hits[:found.value]]

    def _call(self, function: Any, *arguments: Any) -> None:
        def call() -> None:
            with self._engine._use():
                check(function(self._get(), *arguments))

        self._engine._run(call, self.cancel)

    def _places(self, engine: int, text: str, parts: Parts) -> Iterator[Place]:
        """Boxes and points of an answer, if the model writes any and there is one picture."""
        units = self._engine.model.facts.place_units
        size = parts.only_size() if units != "none" else None
        if size is None:
            return iter(())
        across, down = 1000, 1000
        if number_of("place_units", units) == _abi.OCELLUS_PLACES_RESIZED_PIXELS:
            resized = (ctypes.c_int32 * 2)()
            second = ctypes.byref(resized, ctypes.sizeof(ctypes.c_int32))
            if lib.ocellus_engine_resized_size(engine, *size, resized, ctypes.cast(
                    second, ctypes.POINTER(ctypes.c_int32))) != 0:
                return iter(())
            across, down = resized
        return iter(Place(**place) for place in find_places(text, across, down, *size))


def ask_batch(engine: Engine, questions: list[tuple[Any, str]], options: dict[str, Any]) -> list[Answer]:
    """See `Engine.ask_batch`."""
    sessions: list[Session] = []
    try:
        while len(sessions) < len(questions):
            try:
                sessions.append(engine.session())
            except Error as error:
                if error.status != Status.FULL or not sessions:
                    raise
                break
        answers: list[Answer] = []
        for at in range(0, len(questions), max(len(sessions), 1)):
            answers += _ask_together(engine, sessions, questions[at:at + len(sessions)], options)
        return answers
    finally:
        for session in sessions:
            session.close()


def _ask_together(engine: Engine, sessions: list[Session], questions: list[tuple[Any, str]],
                  options: dict[str, Any]) -> list[Answer]:
    numbers = engine.model.facts.image_numbers
    streams = [Stream(session, place_pictures(text, as_pictures(pictures), numbers), options, resets=True)
               for session, (pictures, text) in zip(sessions, questions)]
    count = len(streams)
    stats = (_abi.ocellus_generate_stats * count)()

    def generate() -> None:
        with engine._use() as pointer:
            for stream in streams:
                stream._begin(stream._session._get())
                if stream._form is not None:
                    stream._params.constraint = engine._constraint(stream._form)
            handles = (ctypes.c_void_p * count)(*[stream._session._get() for stream in streams])
            params = (_abi.ocellus_generate_params * count)(*[stream._params for stream in streams])
            status = lib.ocellus_batch_generate(handles, params, stats, count)
            if status not in (0, Status.CANCELLED, Status.DEADLINE):
                check(status)
            for stream, one in zip(streams, stats):
                stream._slices.append(one)
                if status != 0 and not stream._has_begun():
                    check(status)
                stream._end(pointer)

    engine._run(generate, engine._stop_sessions)
    for stream in streams:
        if stream._failure is not None:
            raise stream._failure
    return [stream.answer for stream in streams]
