"""The module that is made from the header describes the library's own structs."""
import ctypes

import ocellus
import pytest
from ocellus import _abi
from ocellus._native import lib

VERSIONED = ["allocator", "constraint_params", "engine_config", "generate_params", "library_keep", "limits"]


@pytest.mark.parametrize("name", VERSIONED)
def test_sizes_are_those_of_the_library(name):
    struct = getattr(_abi, f"ocellus_{name}")()
    getattr(lib, f"ocellus_{name}_init")(ctypes.byref(struct))
    assert struct.struct_bytes == ctypes.sizeof(struct)


def test_every_function_of_the_header_is_there():
    for name in _abi.FUNCTIONS:
        assert getattr(lib, name).argtypes is not None
    assert len(_abi.FUNCTIONS) >= 90


def test_defaults_lie_where_the_header_says():
    params = _abi.ocellus_generate_params()
    lib.ocellus_generate_params_init(ctypes.byref(params))
    assert (params.max_tokens, params.dry_base, params.dry_length) == (128, 1.75, 2)
    limits = _abi.ocellus_limits()
    lib.ocellus_limits_init(ctypes.byref(limits))
    assert (limits.max_image_pixels, limits.max_text_tokens, limits.cache.kv_bits) == (1920 * 1080, 512, 16)


def test_names_of_constants():
    assert _abi.NAMES["reuse"]["mpic"] == _abi.OCELLUS_REUSE_MPIC
    assert _abi.NAMES["stop"]["end_token"] == 0
    assert ocellus.Status.BAD_IMAGE == _abi.OCELLUS_BAD_IMAGE


def test_version_is_the_program_s():
    assert ocellus.__version__.count(".") == 2


def test_a_library_of_another_version_is_refused(tmp_path):
    import os
    import pathlib
    import shutil

    from conftest import run_python
    package = tmp_path / "ocellus"
    for libraries in pathlib.Path(ocellus.__file__).parents[1].glob("ocellus_vlm.libs"):  # of a wheel
        (tmp_path / libraries.name).symlink_to(libraries)
    shutil.copytree(os.path.dirname(ocellus.__file__), package, ignore=shutil.ignore_patterns("share", "bin"))
    abi = (package / "_abi.py").read_text()
    (package / "_abi.py").write_text(abi.replace('_fields_ = [("struct_bytes", c_uint32), ("kind"', '_fields_ = [("struct_bytes", c_uint32), ("new", c_int64), ("kind"'))
    done = run_python("import ocellus", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "different versions" in done.stderr
