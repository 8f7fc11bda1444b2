"""Answers: whole, streamed, awaited, formed, scored, together, stopped."""
import asyncio
import threading
import time

import ocellus
import pytest
from conftest import CAPTIONS, ROOT, SAMPLES, run_program

QUESTION = "Caption this image."


def test_captions_are_the_program_s_to_the_byte(session):
    names = sorted(CAPTIONS)[:3]
    printed = run_program("caption", "--device", "cpu", *(SAMPLES / name for name in names)).splitlines()
    for name, line in zip(names, printed):
        caption = session.caption(SAMPLES / name)
        assert line.endswith(caption.text) and caption.text == CAPTIONS[name]
        assert "".join(session.ask(SAMPLES / name, QUESTION, stream=True)) == caption.text


def test_several_pictures_are_numbered_as_the_program_numbers_them(session):
    pictures = [SAMPLES / f"board_0{i}.png" for i in (1, 2, 3)]
    question = "In which image is there a ring?"
    want = run_program("ask", "--device", "cpu", "--prompt", question, *pictures).rstrip("\n")
    assert session.ask(pictures, question).text == want
    marked = "Image 1:<image>\nImage 2:<image>\nImage 3:<image>\n" + question
    assert session.ask(pictures, marked).text == want


def test_more_marks_than_pictures_are_refused(session):
    with pytest.raises(ocellus.Error, match="2 <image> marks for 1 pictures"):
        session.ask(SAMPLES / "board_01.png", "<image> and <image>")


def test_a_stream_is_the_answer_in_pieces(session, board):
    whole = session.ask(board, QUESTION)
    stream = session.ask(board, QUESTION, stream=True)
    pieces = list(stream)
    assert len(pieces) > 5 and "".join(pieces) == whole.text == stream.answer.text
    assert stream.answer.stats.generated_tokens == whole.stats.generated_tokens
    assert stream.answer.stats.logits_hash == whole.stats.logits_hash
    assert stream.answer.stats.image_tokens == whole.stats.image_tokens


def test_a_stream_that_is_left_does_not_hold_the_session(session, board):
    stream = session.ask(board, QUESTION, stream=True)
    next(stream)
    want = session.caption(board).text
    with pytest.raises(ocellus.Error, match="went on"):
        next(stream)
    assert session.caption(board).text == want


def test_pieces_and_wholes_in_asyncio(session, board):
    want = session.caption(board).text

    async def ask():
        pieces = [piece async for piece in session.ask(board, QUESTION, stream=True)]
        answer = await session.ask(board, QUESTION, stream=True)
        return "".join(pieces), answer.text

    assert asyncio.run(ask()) == (want, want)


def test_the_event_loop_runs_while_an_answer_is_computed(session, board):
    async def count():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        await session.ask(board, QUESTION, stream=True, ignore_end=1, max_tokens=300)
        ticking.cancel()
        return ticks

    assert asyncio.run(count()) >= 3


def test_a_cancelled_task_stops_the_answer(session, board):
    async def cancel():
        task = asyncio.ensure_future(session.ask(board, QUESTION, stream=True, ignore_end=1, max_tokens=900)._finish())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert session.caption(board).text  # the session is free


def test_cancelling_from_another_thread(session, board):
    stream = session.ask(board, QUESTION, stream=True, ignore_end=1, max_tokens=900)
    next(stream)
    timer = threading.Timer(0.05, session.cancel)
    timer.start()
    rest = "".join(stream)
    timer.join()
    assert stream.answer.stop == "cancelled" and 0 < len(rest) and stream.answer.stats.generated_tokens < 900


def test_cancelling_a_prompt_raises(session, board):
    timer = threading.Timer(0.02, session.cancel)
    timer.start()
    with pytest.raises(ocellus.Error) as raised:
        while True:
            session.ask([board] * 4, QUESTION, max_tokens=1)
    timer.join()
    assert raised.value.status == ocellus.Status.CANCELLED


def test_a_timeout_keeps_what_was_said(session, board):
    first = session.ask(board, QUESTION, max_tokens=1).stats.first_token_ms
    answer = session.ask(board, QUESTION, timeout=first / 1000 + 0.1, ignore_end=1, max_tokens=900)
    assert answer.stop == "deadline" and answer.stats.generated_tokens > 1
    with pytest.raises(ocellus.Error) as raised:
        session.ask(board, QUESTION, timeout=1e-4)
    assert raised.value.status == ocellus.Status.DEADLINE
    assert session.caption(board).stop == "end_token"  # the deadline is gone


SCHEMA = {"type": "object", "properties": {"shape": {"enum": ["circle", "ring", "heart"]}}, "required": ["shape"]}


def test_forms(session, board):
    answer = session.ask(board, "What is at the bottom right?", schema=SCHEMA)
    assert answer.value == {"shape": answer.value["shape"]} and answer.value["shape"] in SCHEMA["properties"]["shape"]["enum"]
    assert session.ask(board, "What?", schema='{"const": 7}').value == 7
    assert session.ask(board, "How many?", regex="(One|Two)\\.").text in ("One.", "Two.")
    assert session.ask(board, "How many?", grammar='root ::= "a" | "b"').text in ("a", "b")
    assert "".join(session.ask(board, "How many?", regex="(One|Two)\\.", stream=True)) in ("One.", "Two.")
    cut = session.ask(board, "What?", schema=SCHEMA, max_tokens=2)
    assert cut.stop == "max_tokens" and cut.value is None


def test_a_pydantic_class_comes_back_as_its_instance(session, board):
    pydantic = pytest.importorskip("pydantic")
    shape = pydantic.create_model("Shape", color=(str, ...), large=(bool, ...))
    answer = session.ask(board, "What is at the bottom right?", schema=shape, max_tokens=60, regex=None)
    assert answer.stop == "max_tokens" or isinstance(answer.value, shape)
    fixed = pydantic.create_model("Fixed", large=(bool, ...))
    assert isinstance(session.ask(board, "Is it large?", schema=fixed).value, fixed)


@pytest.mark.parametrize("options, words", [
    ({"schema": 5}, "a schema is"), ({"schema": "{"}, None), ({"schema": {}, "regex": "a"}, "one form"),
    ({"grammar": "x"}, "line 1, column 2"), ({"regex": "("}, None), ({"timeout": 0}, "timeout"), ({"timeout": -1}, "timeout"),
    ({"no_such": 1}, "no_such"), ({"max_tokens": -1}, "max_tokens"), ({"max_tokens": 2**40}, "out of range"),
    ({"temperature": "hot"}, "temperature"), ({"temperature": float("nan")}, "temperature"),
    ({"draft": "perhaps"}, "draft is one of auto"), ({"logit_bias": 5}, "logit_bias"), ({"logprobs": 20}, "the planned 3"),
    ({"logit_bias": {10**6: 1.0}}, None), ({"seed": -1}, "out of range"),
])
def test_bad_options_are_named(session, board, options, words):
    with pytest.raises(ocellus.Error) as raised:
        session.ask(board, QUESTION, **options)
    assert words is None or words in raised.value.sentence


@pytest.mark.parametrize("text", ["a\0b", "\ud800", b"bytes", None, 5])
def test_text_is_text(session, board, text):
    try:
        session.ask(board, text, max_tokens=2)
    except ocellus.Error as error:
        assert text != "a\0b" and "text" in error.sentence
    else:
        assert text == "a\0b"


def test_probabilities_of_choices(session, board):
    question, texts = "How many circles are there?", ["Zero.", "One.", "Two."]
    choices = session.choose(board, question, texts)
    assert [choice.text for choice in choices] == texts and session.ask(board, question).text == "Zero."
    assert choices[0].probability > 0.5 > choices[1].probability
    beginnings = session.choose(board, question, ["Zero"], whole=False)
    assert beginnings[0].probability >= choices[0].probability * 0.99


def test_log_probabilities_of_tokens(session, board):
    answer = session.ask(board, QUESTION, logprobs=3)
    assert len(answer.tokens) == answer.stats.generated_tokens and len(answer.tokens[0].top) == 3
    assert "".join(token.text for token in answer.tokens).strip() == answer.text
    assert answer.tokens[0].top[0].token == answer.tokens[0].token  # greedy
    assert 1 <= answer.perplexity < 3
    assert answer.perplexity == session.ask(board, QUESTION, logprobs=0).perplexity


def test_answers_of_a_batch_are_those_alone(engine):
    questions = [(SAMPLES / f"board_0{i}.png", QUESTION) for i in (1, 2, 3)]
    with engine.session() as session:
        alone = [session.ask(*question).text for question in questions]
    together = engine.ask_batch(questions)
    assert [answer.text for answer in together] == alone
    assert engine.ask_batch([]) == []


def test_a_conversation_goes_on(session, board):
    session.ask(board, QUESTION)
    before = session.token_count
    answer = session.chat("How many shapes are there?")
    assert answer.text and session.token_count > before
    session.reset()
    assert session.token_count == 0
    session.add_message("user", "How many rings are there?", [board])
    session.add_message("assistant", "One.")
    assert session.chat("Are you sure?").text
    with pytest.raises(ocellus.Error, match="role"):
        session.add_message("robot", "Hello")


def test_marks(session, board):
    session.add_message("user", "Look.", [board])
    session.mark()
    first = session.chat(QUESTION).text
    assert session.rewind()
    assert session.chat(QUESTION).text == first


def test_clips_of_a_video(pixels):
    folder = ROOT / "tests" / "data" / "families" / "qwen2-vl"
    frames = [pixels, pixels[::-1].copy(), pixels[:, ::-1].copy(), pixels]
    with ocellus.Engine(folder / "model.gguf", folder / "mmproj.gguf", images=0, max_clip_frames=4, device="cpu",
                        text_tokens=400, max_image_rows=64) as engine:
        assert engine.model.sample_clip(25, 2.0, most=4) == [0, 8, 16, 24]
        session = engine.session()
        answer = session.ask([ocellus.Clip(frames, fps=2)], "What happens?", max_tokens=4)
        assert answer.stats.image_count == 2  # pairs of frames
        timed = session.ask([ocellus.Clip(frames, seconds=[0, 0.5, 1, 1.5])], "What happens?", max_tokens=4)
        assert timed.text == answer.text
        with pytest.raises(ocellus.Error):
            session.ask([ocellus.Clip(frames * 2, fps=2)], "What?")
        with pytest.raises(ocellus.Error, match="no Entry"):
            session.ask([ocellus.Clip([ocellus.Entry("0" * 32)], fps=2)], "What?")


def test_embeddings(session, board, pixels):
    text, picture = session.embed_text("a red ring"), session.embed_picture(board)
    for values in (text, picture):
        assert abs(sum(value * value for value in values) - 1) < 1e-3
    assert max(abs(a - b) for a, b in zip(picture, session.embed_picture(pixels))) < 1e-6


def test_sampling_is_seeded(session, board):
    answers = [session.ask(board, QUESTION, temperature=20, seed=seed, max_tokens=24).text for seed in (1, 1, 2, 3)]
    assert answers[0] == answers[1] and len(set(answers)) > 1


def test_boxes_are_read_by_the_program_s_own_reader():
    from ocellus._places import find_places
    places = find_places('[{"bbox_2d": [100, 200, 300, 400], "label": "cat"}, {"point_2d": [500, 500]}]', 1000, 1000, 640, 480)
    assert places[0] == {"label": "cat", "left": 64, "top": 96, "right": 192, "bottom": 192, "is_point": False}
    assert places[1]["is_point"] and (places[1]["left"], places[1]["top"]) == (320, 240)
    assert find_places("no places", 1000, 1000, 640, 480) == []


def test_answers_say_what_they_took(session, board):
    started = time.monotonic()
    answer = session.ask(board, QUESTION)
    spent = 1000 * (time.monotonic() - started)
    assert str(answer) == answer.text and answer.stop == "end_token"
    stats = answer.stats
    assert 0 < stats.first_token_ms + stats.decode_ms <= spent and stats.image_tokens == 64
    with pytest.raises(AttributeError):
        answer.text = ""
