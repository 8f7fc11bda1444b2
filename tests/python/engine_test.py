"""Engines: plans, budgets, threads, forks and ends."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import ocellus
import pytest
from conftest import SAMPLES, run_program, run_python

BOARD = str(SAMPLES / "board_01.png")


def test_the_plan_is_the_program_s():
    import json
    plan = ocellus.plan(images=3, budget="512M", kv_bits="8/4", text_tokens=300, device="cpu", max_constraints=0)
    printed = json.loads(run_program("plan", "--images", 3, "--budget", "512M", "--kv-bits", "8/4", "--text-tokens", 300,
                                     "--device", "cpu", "--image-pixels", 16384 * 12288, "--image-side", 16384,
                                     "--whole-pixels", 4096 * 2304, "--json"))
    assert plan.total_bytes == printed["total_bytes"] and plan.fits
    assert plan.total_bytes == sum(size for _, size in plan.sums())
    assert sum(row.bytes for row in plan if row.lifetime == "weights") == plan.weights_bytes


def test_a_plan_is_a_table_and_a_picture():
    plan = ocellus.plan(images=400, budget="100M")
    assert not plan.fits and plan.shortfall_bytes > 0 and plan.advice
    text, page = str(plan), plan._repr_html_()
    assert f"{plan.total_bytes:,}" in text and plan.advice[0].text in text
    assert page.count("<tr>") == len(plan.rows) + 1 and "MiB are missing" in page


def test_a_plan_is_plotted(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plan = ocellus.plan(images=8, budget="100M")
    axes = plan.plot()
    assert sum(bar.get_width() for bar in axes.patches) * 2 ** 20 == pytest.approx(plan.total_bytes)
    axes.figure.savefig(tmp_path / "plan.png")


def test_too_small_a_budget_says_what_would_fit():
    with pytest.raises(ocellus.Error) as raised:
        ocellus.Engine(budget="10M")
    assert raised.value.status == ocellus.Status.OVER_BUDGET and raised.value.sentence


@pytest.mark.parametrize("options, words", [
    ({"budget": "5X"}, "no size"), ({"budget": "lots"}, "no size"), ({"budget": -1}, None), ({"images": -1}, None),
    ({"images": 2**40}, "out of range"), ({"device": "tpu"}, "device is one of auto"), ({"device": "cpu:1"}, "device is"),
    ({"kv_bits": 3}, None), ({"kv_bits": "a"}, "kv_bits is"), ({"kv_bits": [8]}, None), ({"evict": "magic"}, None),
    ({"keep": 0.5}, None), ({"reuse": "some"}, "reuse is one of none"), ({"nonsense": 1}, "nonsense"),
    ({"mmproj": "a.gguf"}, "without its model"), ({"model": "/no/such.gguf"}, "/no/such.gguf"),
    ({"model": BOARD}, None), ({"evict": "x" * 999}, None),
])
def test_bad_limits_are_named(options, words):
    try:
        engine = ocellus.Engine(**options)
    except ocellus.Error as error:
        assert words is None or words in error.sentence, error.sentence
    else:  # a fraction without a method keeps all
        assert options == {"keep": 0.5}
        engine.close()


def test_policies_reach_the_plan():
    packed = ocellus.plan(images=8, kv_bits=2)
    assert packed.kv_bytes_per_image < ocellus.plan(images=8).kv_bytes_per_image / 5
    assert ocellus.plan(images=8, kv_bits=8, evict="snapkv", keep=0.5, compress_at="image_end").fits
    layers = [4] * ocellus.Model().facts.layer_count
    assert ocellus.plan(images=8, kv_bits=layers).kv_bytes_per_image == ocellus.plan(images=8, kv_bits=4).kv_bytes_per_image


def test_models():
    model = ocellus.Model()
    assert model.facts.has_vision and model.facts.image_numbers == "plain" and "Shapeboard" in repr(model)
    assert model.detokenize(model.tokenize("a large red ring")).strip() == "a large red ring"
    shape = ocellus.Model.shape("SmolVLM-256M", layers=1)
    assert ocellus.plan(shape, images=1).total_bytes > 0
    assert any(known["name"] == "SmolVLM-256M" for known in ocellus.published_models())
    with pytest.raises(ocellus.Error, match="SmolVLM"):
        ocellus.Model.shape("no such model")


def test_a_model_without_a_vision_part_plans_no_images():
    bundled = ocellus.Model()
    with ocellus.Engine(bundled.files.model, device="cpu") as engine:
        assert engine.session().ask([], "Hello.", max_tokens=3).text
        with pytest.raises(ocellus.Error):
            engine.session().ask([BOARD], "What?")


def test_closed_objects_say_so():
    engine = ocellus.Engine()
    session = engine.session()
    engine.close()
    engine.close()
    for call in (lambda: session.caption(BOARD), engine.session, session.reset, lambda: engine.stats):
        with pytest.raises(ocellus.Error, match="closed"):
            call()
    session.close()


def test_loading_tells_how_far_it_is(capsys):
    seen = []
    with ocellus.Engine(progress=lambda done, total: seen.append((done, total))) as engine:
        assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] > 30 << 20
        assert engine.session().caption(BOARD).text

    def refuse(done, total):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        ocellus.Engine(progress=refuse)
    pytest.importorskip("tqdm")
    ocellus.Engine(progress=True).close()
    assert "loading" in capsys.readouterr().err


@pytest.mark.parametrize("ends", ["engine.close()", "del session, engine", "pass"])
def test_compiled_forms_end_before_their_engine(ends):
    """In a process that counts the calls, as a handle of memory that is gone does not always crash."""
    code = ("import gc, ocellus\nfrom ocellus._native import lib\norder = []\n"
            "def watch(name):\n    real = getattr(lib, name)\n"
            "    def call(pointer):\n        print(name, flush=True)\n        real(pointer)\n    setattr(lib, name, call)\n"
            "watch('ocellus_constraint_destroy')\nwatch('ocellus_engine_destroy')\n"
            "engine = ocellus.Engine(device='cpu')\nsession = engine.session()\n"
            f"session.ask([{BOARD!r}], 'How many?', regex='(One|Two)')\n{ends}\ngc.collect()\n")
    done = run_python(code)
    assert (done.returncode, done.stdout.split()) == (0, ["ocellus_constraint_destroy", "ocellus_engine_destroy"]), done.stderr


def test_sessions_are_planned():
    with ocellus.Engine(sessions=1) as engine:
        first = engine.session()
        with pytest.raises(ocellus.Error) as raised:
            engine.session()
        assert raised.value.status == ocellus.Status.FULL
        del first
        gc.collect()
        engine.session().close()


def test_one_engine_on_many_threads_and_two_engines_at_once():
    with ocellus.Engine(sessions=3) as one, ocellus.Engine(sessions=1) as other:
        want = one.session().caption(BOARD).text
        answers = []

        def ask(engine):
            with engine.session() as session:
                answers.append(session.caption(BOARD).text)
                answers.append("".join(session.ask(BOARD, "Caption this image.", stream=True)))

        gc.collect()
        threads = [threading.Thread(target=ask, args=(engine,)) for engine in (one, one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [want] * 6


def test_python_runs_while_an_answer_is_computed(engine, session):
    ticks = 0
    done = threading.Event()

    def tick():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    session.ask(BOARD, "What?", ignore_end=1, max_tokens=300)
    done.set()
    thread.join()
    assert ticks > 20


def test_engines_and_sessions_leave_nothing(board):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def once():
        with ocellus.Engine() as engine:
            engine.session().ask(board, "How many?", max_tokens=2)

    for _ in range(3):
        once()
    gc.collect()
    before, files = resident(), descriptors()
    for _ in range(8):
        once()
    gc.collect()
    assert resident() - before < 8 << 20 and descriptors() == files


def test_a_fork_cannot_use_the_parent_s_engine(engine, session):
    want = session.caption(BOARD).text
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.caption(BOARD)
        except ocellus.Error as error:
            os.write(write, error.sentence.encode())
        with ocellus.Engine() as own:
            os.write(write, own.session().caption(BOARD).text.encode())
        os._exit(0)
    os.close(write)
    said = b""
    while chunk := os.read(read, 4096):
        said += chunk
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0
    assert b"forked" in said and want.encode() in said
    assert session.caption(BOARD).text == want


def test_a_fork_that_ends_normally_leaves_the_parent_alone():
    code = ("import os, sys, ocellus\nengine = ocellus.Engine()\nsession = engine.session()\n"
            "if os.fork() == 0: sys.exit(0)\n_, status = os.wait()\n"
            f"print(status, session.caption({BOARD!r}))\n")
    done = run_python(code)
    assert done.returncode == 0 and done.stdout.startswith("0 A "), done.stderr


def test_an_interpreter_that_exits_during_an_answer():
    code = ("import threading, time, ocellus\nengine = ocellus.Engine()\nsession = engine.session()\n"
            f"thread = threading.Thread(target=lambda: session.ask([{BOARD!r}] * 4, 'What?', ignore_end=1, max_tokens=900), "
            "daemon=True)\nthread.start()\ntime.sleep(0.2)\n")
    done = run_python(code)
    assert done.returncode == 0  # the thread may still say that it was cancelled


def test_an_interpreter_that_exits_in_the_middle_of_a_stream():
    code = ("import ocellus\nengine = ocellus.Engine()\nsession = engine.session()\n"
            f"stream = session.ask({BOARD!r}, 'What?', stream=True)\nprint(next(stream))\n")
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.strip()


def test_control_c_stops_an_answer():
    code = ("import signal, ocellus\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it\n"
            "engine = ocellus.Engine()\nsession = engine.session()\nprint('ready', flush=True)\n"
            "try:\n"
            f"    while True: session.ask([{BOARD!r}] * 4, 'What?', ignore_end=1, max_tokens=600)\n"
            "except KeyboardInterrupt:\n"
            f"    print(session.caption({BOARD!r}))\n")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and out.startswith("A "), err


def test_errors_travel():
    import pickle
    error = pickle.loads(pickle.dumps(ocellus.Error(ocellus.Status.FULL, "No room.")))
    assert (error.status, str(error)) == (ocellus.Status.FULL, "No room.")


def test_another_distribution_of_this_name_is_told(tmp_path):
    package = tmp_path / "ocellus"
    package.symlink_to(os.path.dirname(ocellus.__file__))
    (tmp_path / "ocellus-1.2.dist-info").mkdir()
    done = run_python("import ocellus", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "pip uninstall ocellus ocellus-vlm" in done.stderr


def test_the_program_is_in_the_package():
    assert ocellus.__version__ in run_program("--version")
