"""Activations and probabilities from files, for draws that name only their images."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.crowd.arrays import FloatArray, standardised
from pipeline.crowd.proposal import proposal
from pipeline.errors import AssayError


def image_rows(ids: Iterable[str], n_images: int, images: Path | None = None) -> dict[str, int]:
    """Return the row of each image in arrays over n_images images.

    images: images.parquet, or a result of the images stage. An id is an image id of its table, or a
    file name whose stem is one; where none is, or without a table, all ids are row numbers from 0.
    Raises AssayError for an id that is neither.
    """
    distinct = list(dict.fromkeys(ids))
    known = _table_rows(images) if images is not None else {}
    rows = {text: known.get(text, known.get(Path(text).stem)) for text in distinct}
    if all(row is None for row in rows.values()):
        rows = {text: _row_number(text, n_images) for text in distinct}
    found = {text: row for text, row in rows.items() if row is not None}
    if lost := next((text for text in distinct if text not in found), None):
        raise AssayError(
            f"image {lost!r} of the tasks is no image of {images}"
            if images is not None
            else f"image {lost!r} of the tasks is no row number in 0..{n_images - 1}: give --images "
            "results/images/KEY, whose table has the image ids"
        )
    return found


def drawn_activations(draws: pd.DataFrame, rows: Mapping[str, int], path: Path, n_images: int) -> FloatArray:
    """Return the activation of each draw, standardised over all images; NaN for a constant unit.

    draws has unit and image_id; path is a .npy (N, U), or a folder that holds one. Raises AssayError
    for an array of another shape, a unit that it does not have, and NaN or infinity.
    """
    array = _opened(_only_array(path), n_images)
    units = sorted(draws["unit"].unique())
    if units[-1] >= array.shape[1]:
        raise AssayError(
            f"{path} has the units 0 to {array.shape[1] - 1}, the tasks have {units[-1]}: another layer, or "
            "the mapping's first_unit"
        )
    chosen, found = np.asarray(array[:, units]), np.empty(len(draws))
    places, image = draws["unit"].to_numpy(), draws["image_id"].map(rows).to_numpy()
    for column, unit in enumerate(units):
        activation = chosen[:, column].astype(np.float64)
        if not np.isfinite(activation).all():
            raise AssayError(f"{path}: the activations of unit {unit} hold NaN or infinity; make them again")
        found[places == unit] = standardised(activation)[image[places == unit]]
    return found


def drawn_probabilities(
    draws: pd.DataFrame, rows: Mapping[str, int], folders: Sequence[Path], n_images: int
) -> FloatArray:
    """Return the scorer's probability of each draw's image and text; NaN where no folder has the text.

    draws has description and image_id; a folder holds probabilities.npy (N, T) and texts.parquet.
    Raises AssayError for a folder that lacks them, or an array of another shape.
    """
    columns = _text_columns(folders, n_images)
    found = np.full(len(draws), np.nan)
    texts, image = draws["description"].to_numpy(), draws["image_id"].map(rows).to_numpy()
    for text in draws["description"].unique():
        if text in columns:
            found[texts == text] = columns[text][image[texts == text]]
    return found


def share_of_fitting_weights(
    draws: pd.DataFrame, rows: Mapping[str, int], activations: Path, folders: Sequence[Path], n_images: int
) -> float:
    """Return the share of draws whose q is, within 10%, that of MG-IS on these arrays; NaN without any.

    Where images are in another order than that of the draws, this share is small.
    """
    columns = _text_columns(folders, n_images)
    array = _opened(_only_array(activations), n_images)
    fits: list[FloatArray] = []
    for _, own in draws.groupby(["unit", "description"], sort=False):
        unit, text = int(own["unit"].iloc[0]), str(own["description"].iloc[0])
        if text not in columns:
            continue
        q = proposal(array[:, unit].astype(np.float64), columns[text])
        fits.append(np.abs(np.log(q[own["image_id"].map(rows)] / own["q"].to_numpy())) < np.log(1.1))
    return float(np.concatenate(fits).mean()) if fits else float("nan")


def _table_rows(images: Path) -> dict[str, int]:
    path = images / "images.parquet" if images.is_dir() else images
    if not path.is_file():
        raise AssayError(f"--images {images}: no such file; it is images.parquet, or results/images/KEY")
    ids = pd.read_parquet(path, columns=["image_id"])["image_id"].tolist()
    return {str(image): row for row, image in enumerate(ids)}


def _row_number(text: str, n_images: int) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and int(text) < n_images else None


def _only_array(path: Path) -> Path:
    if path.is_file():
        return path
    found = sorted(path.glob("*.npy"))
    if len(found) != 1:
        raise AssayError(f"--activations {path}: expected a .npy, or a folder with one; it has {len(found)}")
    return found[0]


def _text_columns(folders: Sequence[Path], n_images: int) -> dict[str, FloatArray]:
    """Return each text's probabilities (N,)."""
    columns: dict[str, FloatArray] = {}
    for folder in folders:
        if not (folder / "texts.parquet").is_file():
            raise AssayError(
                f"--probabilities {folder} lacks texts.parquet: give a folder results/probabilities/KEY"
            )
        array = _opened(folder / "probabilities.npy", n_images)
        texts = pd.read_parquet(folder / "texts.parquet")["description"].tolist()
        columns |= {text: array[:, i].astype(np.float64) for i, text in enumerate(texts)}
    return columns


def _opened(path: Path, n_images: int) -> NDArray[np.generic]:
    try:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise AssayError(f"{path} is no array: {error}") from None
    if not isinstance(array, np.ndarray):  # an archive of arrays, whatever its name says
        raise AssayError(f"{path} is no array, but an .npz of several: give the one .npy")
    if array.ndim != 2 or len(array) != n_images:
        raise AssayError(
            f"{path} has the shape {array.shape}; expected a row for each of {n_images} images (the "
            "mapping's n_images says how many there are)"
        )
    return array
