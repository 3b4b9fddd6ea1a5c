"""A transformers model and its processor, from a local folder or the hub at a pinned commit."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import AssayError
from pipeline.models.device import choose
from pipeline.models.downloads import is_of_network
from pipeline.vlms.vlm import ATTENTIONS

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

EXPLAINED = (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, RuntimeError)


def load_parts(
    model_class: Any,
    processor_class: Any,
    *,
    weights: Mapping[str, Any],
    attention: str,
    dtype: str,
    device: str,
) -> tuple[Any, Any]:
    """Return (module in evaluation mode, processor) of transformers.

    `weights`: {"source": "folder", "path": ...} or {"source": "hub", "tag": ..., "revision": commit}. Only
    safetensors are read, and no code from the folder or the hub runs. Raises AssayError where a part is
    missing or of another kind, where the files are of another kind of model, and where a tensor of the model
    is not in them.
    """
    check_numerics(attention, dtype)
    place, where = _place(weights)
    with _explained(place):
        _check_kind(model_class.config_class, place, where)
        processor = processor_class.from_pretrained(place, **where)
        module, report = model_class.from_pretrained(
            place,
            **where,
            attn_implementation=attention,
            dtype=DTYPES[dtype],
            use_safetensors=True,
            output_loading_info=True,
        )
    if absent := sorted({*report["missing_keys"], *(str(each) for each in report["mismatched_keys"])}):
        raise AssayError(
            f"{place}: {len(absent)} tensors of {model_class.__name__} are missing or of another shape, "
            f"first {absent[:3]}; the files are of another model"
        )
    return module.to(choose(device)).eval(), processor


def check_numerics(attention: str, dtype: str) -> None:
    """Raise AssayError for an attention implementation or a precision that is not known."""
    if attention not in ATTENTIONS:
        raise AssayError(f"vlm.attention={attention!r} is not one of {', '.join(ATTENTIONS)}")
    if dtype not in DTYPES:
        raise AssayError(f"vlm.dtype={dtype!r} is not one of {', '.join(DTYPES)}")


def _place(weights: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    source = weights.get("source")
    if source == "hub":
        return str(weights["tag"]), {"revision": weights["revision"]}
    if source != "folder":
        raise AssayError(f"vlm.weights.source={source!r} is not known; use folder or hub")
    folder = Path(weights["path"])
    if not (folder / "config.json").is_file():
        raise AssayError(f"vlm.weights.path={folder} holds no config.json; give the folder of a saved model")
    return str(folder), {"local_files_only": True}


def _check_kind(config_class: Any, place: str, where: Mapping[str, Any]) -> None:
    """Raise AssayError where config.json is of another kind of model: the library would load what fits."""
    found, wanted = config_class.get_config_dict(place, **where)[0].get("model_type"), config_class.model_type
    if found != wanted:
        raise AssayError(
            f"vlm.weights: {place} holds a model of the type {found!r}, and vlm={wanted} wants {wanted!r}; "
            "name other weights or another vlm (of a model's forms take the one that ends in -hf or -HF)"
        )


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Turn the library's errors about files into one that names the place."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, EXPLAINED) and not is_of_network(error):
            raise
        raise AssayError(
            f"vlm.weights: {place} cannot be loaded ({type(error).__name__}: {_first(error)}); check that "
            "model, tokenizer and processor files are there, and for the hub the network and the revision"
        ) from error


def _first(error: Exception) -> str:
    """Return what an error of the library says first; advice about folders of equal names follows."""
    return str(error).split(". If you were trying")[0].strip()[:300]
