"""file: an SAE that exists already, of ours or of another library."""

from dataclasses import replace
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.saes import dictionary_learning, sae_lens, storage
from pipeline.saes.sae import Sae, load

OWN = "sae.safetensors"
FORMATS = ("auto", "assay", "sae_lens", "dictionary_learning")


def build(d: int, *, path: str | Path, format: str = "auto") -> Sae:
    """Return the SAE at `path`, a folder or a weight file, for activations of `d` features.

    auto tells the format by content. Its variant is "file"; the settings say the format and what the file
    says of its origin, never the path. Raises AssayError where there is nothing that can be read, and
    where the SAE has another d.
    """
    where = Path(path)
    if not where.exists():
        raise AssayError(f"sae.path={where} does not exist")
    sae = _read(where, _format(where) if format == "auto" else format)
    if sae.d != d:
        raise AssayError(
            f"sae.path={where}: the SAE is of {sae.d} features, the activations have {d}; "
            "choose the model and layer that it was trained on"
        )
    return sae


def _read(path: Path, format: str) -> Sae:
    if format == "sae_lens":
        return sae_lens.read(path)
    if format == "dictionary_learning":
        return dictionary_learning.read(path)
    if format != "assay":
        raise AssayError(f"sae.format={format!r} is not known; choose from {', '.join(FORMATS)}")
    own = load(path / OWN if path.is_dir() else path)
    settings = {"format": "assay", "architecture": own.variant, "settings": dict(own.settings)}
    return replace(own, variant="file", settings=settings)


def _format(path: Path) -> str:
    """Return the format by what is there; raises AssayError, listing it, where it is none."""
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.suffix == ".safetensors" and storage.is_own(path):
        return "assay"
    if path.is_dir() and (path / OWN).is_file() and storage.is_own(path / OWN):
        return "assay"
    if (folder / sae_lens.CONFIG).is_file() and path.suffix != ".pt":
        return "sae_lens"
    if (folder / dictionary_learning.CONFIG).is_file():
        return "dictionary_learning"
    names = sorted(each.name for each in folder.iterdir())[:10]
    raise AssayError(
        f"sae.path={path} is no known SAE: neither {OWN} of ours, nor {sae_lens.CONFIG} (sae-lens), nor "
        f"{dictionary_learning.CONFIG} (dictionary-learning); {folder} holds {names}"
    )
