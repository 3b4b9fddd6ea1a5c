"""What a rendered image shows: its factors, its nuisance, and sentences that describe it."""

from dataclasses import asdict, dataclass
from typing import Self

import numpy as np

from pipeline.seeds import generator

FACTORS: dict[str, tuple[str, ...]] = {
    "shape": ("circle", "square", "triangle", "star", "cross", "heart"),
    "colour": ("red", "orange", "yellow", "green", "blue", "purple"),
    "size": ("small", "large"),
    "texture": ("plain", "striped", "dotted", "checkered"),
    "position": ("left", "right", "top", "bottom"),
    "count": ("one", "two", "three"),
    "background": ("white background", "grey background", "dark background", "grass background"),
}
COUNTS = {"one": 1, "two": 2, "three": 3}
PLURALS = {"circle": "circles", "cross": "crosses"}
PLACES = {"left": "on the left", "right": "on the right", "top": "at the top", "bottom": "at the bottom"}
OPENINGS = ("", "", "a picture of ", "an image of ", "a drawing of ", "a photo of ")


@dataclass(frozen=True)
class Scene:
    """One value of every factor."""

    shape: str
    colour: str
    size: str
    texture: str
    position: str
    count: str
    background: str

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Self:
        """Draw every factor independently and uniformly."""
        return cls(**{factor: values[rng.integers(len(values))] for factor, values in FACTORS.items()})

    def values(self) -> dict[str, str]:
        """Return the value of each factor, in the order of FACTORS."""
        return asdict(self)

    def changed(self, factor: str, value: str) -> "Scene":
        """Return the scene with one factor set to another value."""
        return Scene(**{**self.values(), factor: value})


@dataclass(frozen=True)
class Nuisance:
    """What varies between images and is no factor; drawn without looking at the factors.

    shift (2,), offsets (3, 2) and rotations (3,) move the group and its shapes, in shares of the
    reach and in degrees; tone (3,) moves hue, saturation and value; light is a direction and angle
    and phase (2,) place the texture; ground (10, 10), blades and grain (size, size) are noise.
    """

    shift: np.ndarray
    offsets: np.ndarray
    rotations: np.ndarray
    tone: np.ndarray
    light: float
    angle: float
    phase: np.ndarray
    brightness: float
    ground: np.ndarray
    blades: np.ndarray
    grain: np.ndarray

    @classmethod
    def drawn(cls, rng: np.random.Generator, size: int) -> Self:
        """Draw the nuisance of one image of `size` pixels a side."""
        return cls(
            shift=rng.uniform(-1, 1, 2),
            offsets=rng.uniform(-1, 1, (3, 2)),
            rotations=rng.uniform(-14, 14, 3),
            tone=rng.uniform(-1, 1, 3),
            light=float(rng.uniform(0, 2 * np.pi)),
            angle=float(rng.uniform(0, np.pi)),
            phase=rng.uniform(0, 1, 2),
            brightness=float(rng.uniform(-1, 1)),
            ground=rng.standard_normal((10, 10), dtype=np.float32),
            blades=rng.standard_normal((max(2, size // 8), max(2, size // 2)), dtype=np.float32),
            grain=rng.standard_normal((size, size), dtype=np.float32),
        )


def scene_of(seed: int, index: int) -> Scene:
    """Return the scene of image `index`: it depends on (seed, index) alone."""
    return Scene.drawn(generator(seed, "shapes", "scene", index))


def nuisance_of(seed: int, index: int, size: int) -> Nuisance:
    """Return the nuisance of image `index`: it depends on (seed, index, size) alone."""
    return Nuisance.drawn(generator(seed, "shapes", "nuisance", index), size)


def sentence(scene: Scene, told: frozenset[str]) -> str:
    """Describe the factors in `told` in one phrase, such as "two small red stars on the left"."""
    words = [getattr(scene, factor) for factor in ("size", "texture", "colour") if factor in told]
    phrase = " ".join([*_article(scene, told, words), *words, _noun(scene, told)])
    if "position" in told:
        phrase += f" {PLACES[scene.position]}"
    if "background" in told:
        phrase += f" on a {scene.background}"
    return phrase


def captions(seed: int, index: int, scene: Scene) -> tuple[str, str]:
    """Return two sentences about image `index`: one tells every factor, one a random part."""
    rng = generator(seed, "shapes", "caption", index)
    part = rng.permutation(list(FACTORS))[: rng.integers(1, 5)].tolist()
    openings = [OPENINGS[i] for i in rng.integers(len(OPENINGS), size=2)]
    whole, some = sentence(scene, frozenset(FACTORS)), sentence(scene, frozenset(part))
    return openings[0] + whole, openings[1] + some


def _noun(scene: Scene, told: frozenset[str]) -> str:
    name = scene.shape if "shape" in told else "shape"
    return name if scene.count == "one" else PLURALS.get(name, f"{name}s")


def _article(scene: Scene, told: frozenset[str], words: list[str]) -> list[str]:
    if "count" in told:
        return [scene.count]
    if scene.count != "one":
        return ["some"]
    following = words[0] if words else _noun(scene, told)
    return ["an" if following[0] in "aeiou" else "a"]
