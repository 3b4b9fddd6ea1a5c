"""How often each input was rated, in memory: what decides who gets which input next."""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.aggregation import PAIR, PRIOR_RANGE, UNIFORM_PRIOR
from pipeline.crowd.composites import asked
from pipeline.crowd.stopping import decisive
from pipeline.errors import AssayError
from pipeline.rating.assignment import BoolArray, IntArray, choose
from pipeline.study.frozen import FrozenStudy

PREFIX = "page-"
"""What this page's assignments begin with wherever ratings of several sources meet."""
STOPS = ("none", "decisive")


class Counts:
    """A study's inputs by position 0..N-1, with their ratings, reservations and whether they stopped.

    Attention checks (inputs with a known answer) are counted but never needed.
    """

    def __init__(self, study: FrozenStudy, own: Container[str] = ()) -> None:
        """Start from the ratings that came from elsewhere; AssayError names an unknown `stop`.

        own: the assignments of this page, PREFIX and id, whose ratings are counted by their store.
        """
        inputs, settings = study.inputs, study.settings
        if settings.stop not in STOPS:
            raise AssayError(
                f"{study.folder / 'settings.json'}: stop is {settings.stop!r}; known: {', '.join(STOPS)}"
            )
        self.ids: list[str] = inputs["input_id"].tolist()
        self.position = {each: i for i, each in enumerate(self.ids)}
        codes, names = pd.factorize(inputs["description"])
        self.description_of: IntArray = codes.astype(np.int64)
        self.descriptions: list[str] = names.tolist()
        self.is_check: BoolArray = (inputs["answer"] != "").to_numpy(dtype=np.bool_)
        self.n_raters = settings.n_raters
        self.elsewhere, self.yes = ratings_elsewhere(study.folder, inputs, own)
        self.ratings = self.elsewhere.copy()
        self.reserved = np.zeros(len(self.ids), dtype=np.int64)
        self.stopped: BoolArray = np.zeros(len(self.ids), dtype=np.bool_)
        self._priors = priors(study) if settings.stop == "decisive" else None
        self._error_rate = settings.error_rate
        self._mine: dict[int, BoolArray] = {}
        self._judge(np.arange(len(self.ids)))

    def positions(self, inputs: Iterable[str]) -> IntArray:
        """Return where the inputs of these ids are."""
        return np.array([self.position[each] for each in inputs], dtype=np.int64)

    def add(self, positions: IntArray, yes: NDArray[np.integer], n_ratings: NDArray[np.integer]) -> None:
        """Count ratings: `yes` of `n_ratings` more at each position; a correction adds none."""
        self.yes[positions] += yes
        self.ratings[positions] += n_ratings
        self._judge(positions)

    def mine(self, rater: int) -> BoolArray:
        """Return, (N,), what a rater rated or holds; an array to write to."""
        if rater not in self._mine:
            self._mine[rater] = np.zeros(len(self.ids), dtype=np.bool_)
        return self._mine[rater]

    def next_for(self, rater: int, size: int) -> IntArray:
        """Return the positions that a rater gets next, empty where there are none."""
        return choose(
            self.ratings, self.reserved, self.description_of, self.mine(rater),
            self.stopped | self.is_check, self.n_raters, size,
        )  # fmt: skip

    def check_for(self, rater: int, description: int) -> int | None:
        """Return the first attention check of a description, unless the rater had it."""
        checks = np.flatnonzero(self.is_check & (self.description_of == description))
        if len(checks) == 0 or self.mine(rater)[checks].any():
            return None
        return int(checks[0])

    def left_for(self, rater: int) -> int:
        """Return how many inputs still need ratings that this rater could give."""
        return int((self.needed & ~self.mine(rater)).sum())

    @property
    def needed(self) -> BoolArray:
        """Which inputs still need ratings, whoever holds them."""
        return ~self.is_check & ~self.stopped & (self.ratings < self.n_raters)

    def _judge(self, positions: IntArray) -> None:
        if self._priors is None or len(positions) == 0:
            return
        self.stopped[positions] = ~self.is_check[positions] & decisive(
            self.yes[positions], self.ratings[positions], self._priors[positions], self._error_rate
        )


def ratings_elsewhere(
    folder: Path, inputs: pd.DataFrame, own: Container[str] = ()
) -> tuple[IntArray, IntArray]:
    """Return ratings and yes of each input, (N,) each, that ingest brought from other places.

    They are read from ratings.parquet, without those of the assignments in `own`; zeros where there is
    none.
    """
    path, zeros = folder / "ratings.parquet", np.zeros(len(inputs), dtype=np.int64)
    if not path.is_file():
        return zeros, zeros.copy()
    table = pd.read_parquet(path, columns=[*PAIR, "assignment", "rating"])
    table = table[[each not in own for each in table["assignment"].astype("str")]]
    votes = table.assign(vote=table["rating"].astype(np.int64)).groupby(PAIR)["vote"].agg(["size", "sum"])
    found = votes.reindex(pd.MultiIndex.from_frame(inputs[PAIR]), fill_value=0)
    return found["size"].to_numpy(dtype=np.int64, copy=True), found["sum"].to_numpy(dtype=np.int64, copy=True)


def priors(study: FrozenStudy) -> NDArray[np.float64]:
    """Return each input's prior, (N,): the settings' one, else the scorer's, clipped to [.001, .999].

    An attention check, which the scorer never saw, gets .05. Raises AssayError for any other input
    that study.parquet has no probability for.
    """
    inputs = study.inputs
    if study.settings.prior is not None:
        return np.full(len(inputs), study.settings.prior)
    first = asked(study.draws).drop_duplicates(PAIR).set_index(PAIR)["probability"]
    found = first.reindex(pd.MultiIndex.from_frame(inputs[PAIR])).to_numpy(dtype=np.float64)
    lacking = np.isnan(found)
    if (bad := np.flatnonzero(lacking & (inputs["answer"] == "").to_numpy())).size:
        row = inputs.iloc[int(bad[0])]
        raise AssayError(
            f"{study.folder / 'study.parquet'} has no probability for image {row['image_id']!r} with "
            f"{row['description']!r}: crowd.stop=decisive needs one; set a prior in settings.json"
        )
    return np.where(lacking, UNIFORM_PRIOR, np.clip(found, *PRIOR_RANGE))


def as_counts(values: Sequence[int]) -> IntArray:
    """Return whole numbers as an array that `Counts.add` takes."""
    return np.array(values, dtype=np.int64)
