"""The wheel has the front end, all of it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tokenfield.lab.pages import WEB

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_wheel_has_the_front_end(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in WEB.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert {f"tokenfield/lab/web/{path.relative_to(WEB).as_posix()}" for path in files} <= names


def test_the_page_needs_no_file_that_is_not_there():
    """Whatever a module or the page names is in the folder."""
    import re

    for path in [*WEB.rglob("*.js"), WEB / "index.html"]:
        text = path.read_text(encoding="utf-8")
        names = re.findall(r"^import [^\n]*?['\"](\.[^'\"]+)['\"]", text, re.MULTILINE)
        names += re.findall(r"(?:src|href)=\"(?!data:)([^\"#]+)\"", text) if path.suffix == ".html" else []
        for name in names:
            assert (path.parent / name).is_file(), f"{path.name}: {name}"
