"""The blocks of the Python page run as they stand, one after the other."""
import re

from conftest import ROOT


def test_the_page(monkeypatch, capsys):
    import pytest
    pytest.importorskip("numpy")
    pytest.importorskip("pydantic")
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "apps/python/README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "apps/python/README.md", "exec"), names)
    names["engine"].close()
    printed = capsys.readouterr().out
    assert "has_heart=" in printed and "end_token" in printed
