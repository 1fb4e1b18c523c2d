"""What all segments of an index share: the rotation and the centroids of the lists."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from frazil.errors import IndexDamaged
from frazil.puffin import Blob, PuffinReader, PuffinWriter
from frazil.vector.codes import Codes, Query, Refined, encode_bytes, encode_signs, from_centroids
from frazil.vector.kmeans import Step, assign_surely, quietly, train
from frazil.vector.metric import METRICS, Matrix, Metric, Numbers, all_products, prepare, row_squares
from frazil.vector.reach import ASKED, Reach, choose_asked, measure_reach
from frazil.vector.record import IndexRecord, folder_of
from frazil.vector.rotation import make_rotation, padded, rotate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO, InputFile, OutputFile

    from frazil.vector.moved import MovedRows

MANY_SAMPLED = 4096
CODING = 2  # of the way in which vectors are encoded: it changes with the meaning of codes
COMMON = 0.25  # part of the centroids' squares from which on products are of what vectors do not have in common
BLOB = "frazil-vector-codebook-v1"
PROBED, LEAST_PROBED = 0.06, 16  # part of the lists that is looked at where nothing was measured, and at least


@dataclass(frozen=True, eq=False)
class Codebook:
    """The rotation and the rotated centroids, for vectors of one dimension and metric."""

    dimension: int
    metric: Metric
    rotation: Matrix
    centroids: Matrix
    reach: Reach | None = None  # not known of those that older versions wrote

    @classmethod
    def train(
        cls,
        sample: Matrix,
        lists: int,
        metric: Metric,
        *,
        seed: int,
        rows: int | None = None,
        step: Step = quietly,
    ) -> Codebook:
        """Lists that fit a sample of vectors of a table with that many rows; the sample is all if nothing is said."""
        rotation = make_rotation(sample.shape[1], seed)
        rotated = rotate(prepare(sample, metric), rotation)
        # Those that stand for queries fit no list better than others do, if there are enough without them.
        few = len(sample) < MANY_SAMPLED or len(sample) - ASKED < lists
        trained = rotated if few else np.delete(rotated, choose_asked(len(sample)), axis=0)
        centroids = train(trained, lists, seed=seed, step=step)
        reach = measure_reach(rotated, centroids, metric, rows=rows or len(sample))
        return cls(sample.shape[1], metric, rotation, centroids, reach)

    @property
    def lists(self) -> int:
        return len(self.centroids)

    @property
    def code_bytes(self) -> int:
        """Of the signs of a vector."""
        return padded(self.dimension) // 8

    def probes_for(self, rank: float) -> int:
        """How many lists a search looks at that wants the nearest rows up to a rank."""
        probes = self.reach.lists_for(rank) if self.reach else max(LEAST_PROBED, round(PROBED * self.lists))
        return min(max(probes, 1), self.lists)

    @cached_property
    def _rotation64(self) -> Matrix:
        return self.rotation.astype(np.float64)

    @cached_property
    def center(self) -> Matrix:
        """The middle of the centroids; for products zero, unless it is a large part of them: see `weights`."""
        middle: Matrix = self.centroids.mean(axis=0, dtype=np.float64).astype(np.float32)
        common = float(np.square(middle, dtype=np.float64).sum())
        if self.metric == "ip" and common <= COMMON * float(row_squares(self.centroids).mean(dtype=np.float64)):
            return np.zeros_like(middle)
        return middle

    @cached_property
    def shifted(self) -> Matrix:
        """The centroids without the centre."""
        return self.centroids - self.center

    @cached_property
    def squares(self) -> Matrix:
        """The square of the length of each centroid, without the centre."""
        return row_squares(self.shifted)

    @cached_property
    def fingerprint(self) -> str:
        """What tells codebooks apart whose numbers differ, or what they are for."""
        reach = self.reach.to_json() if self.reach else ""
        facts = f"{CODING} {self.dimension} {self.metric} {reach}".encode()
        return hashlib.sha256(facts + self._payload()).hexdigest()[:16]

    def encode(self, vectors: Matrix, moved: MovedRows | None = None) -> tuple[Numbers, Codes, Refined]:
        """The list and the codes of vectors that all have a distance; those of rows that only moved are known.

        Products of float32 depend in their last bits on the number of BLAS threads and on the rows next to a row. So
        that Spark's tasks and a single process write the same bytes, vectors are rotated in float64, and lists that are
        equally near in float32 are compared in float64.
        """
        prepared = prepare(vectors, self.metric).astype(np.float64)
        rotated = rotate(prepared, self._rotation64)
        shifted = (rotated - self.center).astype(np.float32)
        refined = encode_bytes(shifted)
        if moved is None:
            return *self._assign(shifted), refined
        places = moved.find(refined)
        nearest, signs, factors = moved.lists[places], moved.codes.signs[places], moved.codes.factors[places]
        new = np.flatnonzero(places < 0)
        if len(new):
            nearest[new], codes = self._assign(shifted[new])
            signs[new], factors[new] = codes.signs, codes.factors
        return nearest, Codes(signs, factors), refined

    def _assign(self, shifted: Matrix) -> tuple[Numbers, Codes]:
        nearest = assign_surely(shifted, self.shifted)
        return nearest, encode_signs(shifted, self.shifted[nearest], self.metric, self.center)

    def queries(self, vectors: Matrix) -> list[Query]:
        """Vectors that have a distance, ready to be compared."""
        # In float64, as vectors are: the same query has the same distances in a batch of any size.
        rotated = all_products(prepare(vectors, self.metric).astype(np.float64), self._turned64)
        return [Query(vector, self.metric, self.center) for vector in rotated]

    @cached_property
    def _turned64(self) -> Matrix:
        """The rotation as rows."""
        return np.ascontiguousarray(self._rotation64[: self.dimension].T)

    def weights(self, far: Matrix, lists: Numbers) -> Matrix | None:
        """How much of the centroid of some lists an estimate for a query leaves out: as much as lies in the direction
        of the query, for the error grows with what is left. None where it is all, as it is for distances.
        """
        if self.metric != "ip" or self.center.any():
            return None
        weights: Matrix = -far[lists] / np.maximum(self.squares[lists], np.finfo(np.float32).tiny)
        return weights

    def from_centroids(self, queries: Sequence[Query]) -> Matrix:
        """How far each list is from each query."""
        return from_centroids(queries, self.centroids if self.metric == "ip" else self.shifted, self.squares)

    # --- the file ----------------------------------------------------------------------------------------------------

    def write(self, output: OutputFile, *, field_id: int) -> int:
        """The codebook is in a new Puffin file; gives its size."""
        properties = {"dimension": str(self.dimension), "metric": self.metric, "lists": str(self.lists)}
        properties |= {"fingerprint": self.fingerprint, "index": folder_of(output.location)}
        if self.reach is not None:
            properties["reach"] = self.reach.to_json()
        with PuffinWriter(output) as writer:
            writer.add(Blob(BLOB, (field_id,), self._payload(), properties), snapshot_id=-1, sequence_number=-1)
        assert writer.written is not None
        return writer.written.size

    def _payload(self) -> bytes:
        return self.rotation.astype("<f4").tobytes() + self.centroids.astype("<f4").tobytes()

    @classmethod
    def read(cls, source: InputFile, *, metric: Metric | None = None, dimension: int | None = None) -> Codebook:
        """The codebook of a Puffin file, which must be for the metric and the dimension."""
        reader = PuffinReader(source)
        info = next((info for info in reader.blobs if info.type == BLOB), None)
        if info is None:
            raise IndexDamaged(source.location, "it has no codebook")
        try:
            own_dimension, lists, own_metric = (
                int(info.properties["dimension"]),
                int(info.properties["lists"]),
                info.properties["metric"],
            )
            reach = Reach.of(info.properties["reach"]) if "reach" in info.properties else None
            size = padded(own_dimension)
            numbers: Any = np.frombuffer(reader.read(info), "<f4").astype(np.float32).reshape(size + lists, size)
        except (KeyError, TypeError, ValueError, OSError) as exc:
            raise IndexDamaged(source.location, f"its codebook cannot be read ({exc})") from exc
        if own_metric not in METRICS:
            raise IndexDamaged(source.location, f"its metric is '{own_metric}'")
        if (metric or own_metric, dimension or own_dimension) != (own_metric, own_dimension):
            raise IndexDamaged(source.location, f"it is for {own_metric} and {own_dimension} dimensions")
        codebook = cls(own_dimension, own_metric, numbers[:size], numbers[size:], reach)
        # Those that were written before have none.
        if info.properties.get("fingerprint", codebook.fingerprint) != codebook.fingerprint:
            raise IndexDamaged(source.location, "its numbers are not those that were written")
        if (index := info.properties.get("index", folder_of(source.location))) != folder_of(source.location):
            raise IndexDamaged(source.location, f"it belongs to index {index}")
        return codebook


def read_codebook(io: FileIO, record: IndexRecord) -> Codebook:
    """The codebook of an index; that of another index counts as damaged."""
    return Codebook.read(io.new_input(record.codebook), metric=record.metric, dimension=record.dimension)
