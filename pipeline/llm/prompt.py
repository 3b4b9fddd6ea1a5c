"""What the model is asked about a sheet of images."""

import re
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.explainers.text_file import read_text

WORD = re.compile(r"\{([^\W\d]\w*)\}")
KNOWN = ("n_top", "n_random")
TOP = (
    "The picture is a sheet of small images. Under the heading MOST ACTIVE are the {n_top} images that one "
    "unit of a vision network responds to most strongly, the strongest first."
)
COMPARED = (
    " Under the heading RANDOM are {n_random} other images of the same data set, for comparison.\n"
    "What do the most active images have in common that the random ones lack?"
)
ALONE = "\nWhat do these images have in common?"
FORM = (
    " Answer with one short English phrase of at most ten words that would fit as a caption: an object, a "
    "part, a material, a colour, a texture, a shape, an action or a scene. If you are not sure, give your "
    "best guess. Write the phrase alone: no introduction, no quotation marks, no full stop."
)


def read_prompt(path: Path | None) -> str | None:
    """Return the text of a prompt file, None for the built-in prompt.

    Raises AssayError for a blank file, and for a `{word}` that no number replaces.
    """
    if path is None:
        return None
    text = read_text(path, "explainer.prompt").strip()
    if not text:
        raise AssayError(f"{path} is blank; write the question there, or set explainer.prompt=null")
    if unknown := [word for word in WORD.findall(text) if word not in KNOWN]:
        raise AssayError(
            f"{path} holds {{{unknown[0]}}}, and only {{n_top}} and {{n_random}} become numbers; mend the "
            "word or leave the braces off"
        )
    return text


def prompt_text(template: str | None, n_top: int, n_random: int) -> str:
    """Return the question about a sheet; `{n_top}` and `{n_random}` in a template become numbers."""
    built_in = TOP + (COMPARED if n_random else ALONE) + FORM
    text = built_in if template is None else template
    return text.replace("{n_top}", str(n_top)).replace("{n_random}", str(n_random))
