"""Every example of README.md runs, in order, in a folder that has what they read."""
import os
import pathlib
import re
import warnings

import pytest

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = pathlib.Path(os.environ.get("MIRAS_ROOT") or HERE.parent.parent)


@pytest.mark.skipif(not (ROOT / "examples" / "weights").exists(),
                    reason="no checkout is here: MIRAS_ROOT says where one is")
def test_examples(tmp_path, monkeypatch, capsys):
    for name in ("examples", "tests", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.S)
    assert len(blocks) == 10
    names, said = {}, []
    for block in blocks:
        if "import torch" in block:
            try:
                import torch  # noqa: F401
            except ImportError:
                warnings.warn("PyTorch is not here: its example in README.md was left out")
                continue
        exec(block, names)
        said.append(capsys.readouterr().out)
    first = [float(word) for word in re.findall(r"-?\d+\.\d+", said[0])]
    assert first[11] < 0.01 * first[0] and abs(first[-2] - 0.5) < 0.05
    assert "is it learning_rate?" in said[1] and names["loss"] < 5
