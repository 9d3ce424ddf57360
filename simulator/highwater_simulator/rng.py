"""Random streams by name: the only module of the simulator that imports random."""

from __future__ import annotations

import hashlib
import random

from highwater_core.check import check


class SeededRng:
    """The Rng port: a stream whose draws depend on (seed, name) and its own past alone.

    Two requests for one name give two equal streams, as in the real world: keep a stream to go on
    with it.
    """

    def __init__(self, seed: int, name: str = "") -> None:
        self._seed = seed
        self._name = name
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))  # noqa: S311 (no secrets)

    def stream(self, name: str) -> SeededRng:
        return SeededRng(self._seed, f"{self._name}/{name}")

    def randrange(self, start: int, stop: int) -> int:
        check(start < stop, "a range to draw from is not empty")
        # Not Random.randrange, which is unbiased beyond 2**53 too, but three times slower.
        return start + int(self._random.random() * (stop - start))

    def random(self) -> float:
        return self._random.random()

    def hex_id(self) -> str:
        return f"{self._random.getrandbits(128):032x}"
