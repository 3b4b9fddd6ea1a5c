"""Any open_clip model as a scorer, from the hub at a pinned commit, from a file, or untrained."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import open_clip
from torch import Tensor

from pipeline.errors import AssayError
from pipeline.models.open_clip_weights import Architecture, architecture, build, find_weights, transform
from pipeline.models.weights import seeded
from pipeline.scorers.dual_encoder import DualEncoder, check_template

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def load(*, arch: str, weights: Mapping[str, Any], template: str) -> DualEncoder:
    """Load a built-in open_clip architecture; `weights` are the settings of the config.

    A file that needs more than the architecture's name says (a tokenizer from the hub, the activation
    function, the image normalisation) is read with what lies beside it: tokenizer.json and
    tokenizer_config.json, and open_clip_config.json, as in a hub repository. Raises AssayError for an
    unknown architecture or tag, for weights trained with another activation function than the architecture
    has or where it cannot be known, a template without {}, and for weights or a tokenizer that cannot be
    read.
    """
    known = architecture(arch, "scorer.arch")
    check_template(template)
    named = known.config["text_cfg"].get("hf_tokenizer_name")
    found = find_weights(known, weights, also=TOKENIZER_FILES if named else ())
    with seeded(weights.get("seed", 0)):
        model = build(known, found)
    tokenize = _tokenizer(known, found.path.parent if found.path else None)
    shown = transform(model.visual.preprocess_cfg)
    return DualEncoder(model.eval(), shown, tokenize, template, int(known.config["embed_dim"]))


def _tokenizer(arch: Architecture, folder: Path | None) -> Callable[[list[str]], Tensor]:
    tokenizer: Callable[[list[str]], Tensor]
    text = arch.config["text_cfg"]
    name = text.get("hf_tokenizer_name")
    beside = folder is not None and all((folder / each).is_file() for each in TOKENIZER_FILES)
    try:
        if name and beside:
            tokenizer = open_clip.tokenizer.HFTokenizer(
                str(folder),
                context_length=text.get("context_length", 77),
                tokenizer_mode=text.get("tokenizer_mode"),
                **text.get("tokenizer_kwargs", {}),
            )
        else:
            tokenizer = open_clip.get_tokenizer(arch.name)
    except ImportError as error:
        raise AssayError(
            f"the tokenizer of {arch.name} needs transformers; run: pip install 'assay[crowd]'"
        ) from error
    except (OSError, ValueError) as error:
        raise AssayError(
            f"the tokenizer of {arch.name} ({name}) cannot be downloaded ({str(error)[:200]}); put its "
            f"{' and '.join(TOKENIZER_FILES)} beside the weight file and use weights.source=file"
        ) from error
    return tokenizer
