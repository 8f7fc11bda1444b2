"""Tensors on a GPU are read there. Needs OCELLUS_TEST_GPU=0, a build with CUDA and PyTorch."""
import json
import os

import ocellus
import pytest
from conftest import SAMPLES

torch = pytest.importorskip("torch")
if not ocellus.built_with_cuda or not os.environ.get("OCELLUS_TEST_GPU") or not torch.cuda.is_available():
    pytest.skip("there is no GPU here, or no CUDA in the package", allow_module_level=True)


class CudaInterface:
    """A tensor that is known by __cuda_array_interface__ alone."""

    def __init__(self, tensor, **more):
        self._tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, **more}


@pytest.fixture(scope="module")
def engine():
    with ocellus.Engine(images=4, device="cuda:0") as engine:
        yield engine


@pytest.fixture(scope="module")
def tensor(pixels):
    return torch.from_numpy(pixels.copy()).to("cuda:0")


def test_a_tensor_has_the_caption_of_its_file(session, tensor, board):
    want = session.caption(board).text
    planar = tensor.permute(2, 0, 1).contiguous()
    padded = torch.zeros((256, 320, 3), dtype=torch.uint8, device="cuda:0")
    padded[:, :256] = tensor
    for picture in (tensor, CudaInterface(tensor), CudaInterface(tensor, stream=1), padded[:, :256],
                    planar.permute(1, 2, 0).contiguous(), tensor.cpu()):
        assert session.caption(picture).text == want
    alpha = torch.cat([tensor, torch.full_like(tensor[..., :1], 255)], dim=2)
    assert session.caption(alpha).text == want
    assert session.caption(ocellus.Frame(tensor.flip(2), "bgr8")).text == want


def test_a_tensor_that_is_still_being_written_is_waited_for(session, tensor, board):
    want = session.caption(board).text
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(tensor)
            torch.cuda._sleep(20_000_000)
            late.copy_(tensor)
            assert session.caption(late).text == want
            late.zero_()  # read before ask returned


def test_what_cannot_be_read_on_the_gpu(session, tensor):
    for bad, words in ((tensor.permute(2, 0, 1), "channels first"), (tensor.float(), "float32"),
                       (tensor.permute(1, 0, 2), ".contiguous()"), (CudaInterface(tensor, stream=77), "stream 77"),
                       (torch.zeros((4000, 4000, 3), dtype=torch.uint8, device="cuda:0"), "max_gpu_pixels")):
        with pytest.raises(ocellus.Error) as raised:
            session.caption(bad)
        assert words in raised.value.sentence
    with ocellus.Engine(device="cpu") as host:
        with pytest.raises(ocellus.Error, match="computes on the CPU"):
            host.session().caption(tensor)


def copies(trace: str) -> list:
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    return [(event["name"], event["args"]["bytes"]) for event in events if event.get("cat") == "gpu_memcpy"]


def test_a_profile_shows_no_copy_through_the_host(session, tmp_path):
    torch.manual_seed(1)
    picture = torch.randint(0, 256, (720, 1280, 3), dtype=torch.uint8, device="cuda:0")
    session.ask(picture, "What?", max_tokens=1)
    seen = {}
    for name, given in (("device", picture), ("host", picture.cpu().numpy())):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            session.ask(given, "What?", max_tokens=1)
        profile.export_chrome_trace(str(tmp_path / name))
        seen[name] = copies(str(tmp_path / name))
    size = picture.numel()
    assert any("DtoD" in name and count == size for name, count in seen["device"]), seen
    assert not any("DtoD" not in name and count >= size // 16 for name, count in seen["device"]), seen
    assert any("HtoD" in name and count == size for name, count in seen["host"]), seen
    if out := os.environ.get("OUT"):
        with open(os.path.join(out, "copies.json"), "w") as file:
            json.dump({name: [list(one) for one in found] for name, found in seen.items()}, file)
