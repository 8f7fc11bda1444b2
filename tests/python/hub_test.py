"""Models by name: the program's cache is Python's, and the hub's own client finds what it fetched."""
import os
import sys

import ocellus
import pytest
from conftest import ROOT, SAMPLES, run_python

sys.path.insert(0, str(ROOT / "tests" / "apps"))
import loopback_hub  # noqa: E402

MODELS = ocellus.Model().files


@pytest.fixture
def hub(tmp_path, monkeypatch):
    files = {"tiny-Q8_0.gguf": open(MODELS.model, "rb").read(), "mmproj-tiny-Q8_0.gguf": open(MODELS.mmproj, "rb").read()}
    made = loopback_hub.Hub(files)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", made.url)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield made
    made.stop()


def test_a_model_by_name(hub, capfd):
    with pytest.raises(ocellus.Error):
        ocellus.Engine("owner/Tiny-GGUF")  # nothing is fetched unless asked for
    assert not hub.requests
    files = ocellus.pull("owner/Tiny-GGUF")
    assert capfd.readouterr().err
    with ocellus.Engine("owner/Tiny-GGUF", device="cpu") as engine:
        assert engine.session().caption(SAMPLES / "board_01.png").text.startswith("A small orange cross")
    fetched = len(hub.requests)
    assert ocellus.pull("owner/Tiny-GGUF", offline=True).model == files.model and len(hub.requests) == fetched
    ocellus.pull("owner/Tiny-GGUF", quiet=True)
    assert not capfd.readouterr().err


def test_the_hub_s_client_finds_it(hub):
    pytest.importorskip("huggingface_hub")
    files = ocellus.pull("owner/Tiny-GGUF", quiet=True)
    found = run_python("import huggingface_hub; print(huggingface_hub.hf_hub_download('owner/Tiny-GGUF', "
                       "'tiny-Q8_0.gguf', local_files_only=True))").stdout.strip()
    assert os.path.samefile(found, files.model)


def test_without_libcurl_the_hub_s_client_fetches(hub, monkeypatch):
    pytest.importorskip("huggingface_hub")
    from ocellus import _hub
    real = _hub._run

    def without_libcurl(*arguments, quiet=True):
        if arguments[0] == "pull" and "--offline" not in arguments:
            raise ocellus.Error(ocellus.Status.IO, "libcurl, which fetches models, is not on this system.")
        return real(*arguments, quiet=quiet)

    code = ("import ocellus\nfrom ocellus import _hub\nreal = _hub._run\n"
            "def run(*arguments, quiet=True):\n"
            "    if arguments[0] == 'pull' and '--offline' not in arguments:\n"
            "        raise ocellus.Error(ocellus.Status.IO, 'libcurl is not on this system.')\n"
            "    return real(*arguments, quiet=quiet)\n"
            "_hub._run = run\nprint(ocellus.pull('owner/Tiny-GGUF').model)\n")
    done = run_python(code)  # the client reads its environment when it is imported
    assert done.stdout.strip().endswith("tiny-Q8_0.gguf"), done.stderr
    monkeypatch.setattr(_hub, "_run", without_libcurl)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ocellus.Error, match=r"pip install ocellus-vlm\[hub\]"):
        ocellus.pull("owner/Tiny-GGUF")


@pytest.mark.parametrize("name, status", [("no such name", "BAD_ARGUMENT"), ("../../etc", "BAD_ARGUMENT"),
                                          ("owner/Other-GGUF", "IO"), ("owner/Tiny-GGUF:Q2_K", "BAD_FILE")])
def test_names_that_cannot_be_fetched(hub, name, status):
    with pytest.raises(ocellus.Error) as raised:
        ocellus.pull(name, quiet=True)
    assert raised.value.status.name == status and raised.value.sentence.count("\n") == 0, raised.value
