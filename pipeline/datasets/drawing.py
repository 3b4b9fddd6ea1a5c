"""Draw a scene: shapes with texture, outline, shadow and light on a noisy background."""

import colorsys
from math import cos, pi, radians, sin

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from pipeline.datasets.scene import COUNTS, Nuisance, Scene

SUPERSAMPLING = 3
RADIUS = {"small": 0.098, "large": 0.153}
CENTRE = {"left": (0.24, 0.5), "right": (0.76, 0.5), "top": (0.5, 0.24), "bottom": (0.5, 0.76)}
HUE = {"red": 0.0, "orange": 0.075, "yellow": 0.148, "green": 0.355, "blue": 0.61, "purple": 0.79}
SATURATION = {"yellow": 0.95, "purple": 0.78}
VALUE = {"red": 0.87, "orange": 0.98, "yellow": 0.98, "green": 0.68, "blue": 0.88, "purple": 0.7}
GROUND = {
    "white background": (0.95, 0.95, 0.95),
    "grey background": (0.56, 0.56, 0.57),
    "dark background": (0.11, 0.11, 0.13),
    "grass background": (0.36, 0.50, 0.20),
}
Points = list[tuple[float, float]]
Planes = tuple[np.ndarray, np.ndarray, np.ndarray]


def _ring(n: int, radius: float, first: float) -> Points:
    turns = [radians(first) + 2 * pi * i / n for i in range(n)]
    return [(radius * cos(turn), radius * sin(turn)) for turn in turns]


def _star() -> Points:
    outer, inner = _ring(5, 1.2, -90), _ring(5, 0.52, -54)
    return [point for pair in zip(outer, inner, strict=True) for point in pair]


def _cross() -> Points:
    arm, half = 1.06, 0.36
    corner = [(half, -half), (arm, -half), (arm, half)]
    turned = [*corner]
    for _ in range(3):
        corner = [(-y, x) for x, y in corner]
        turned += corner
    return turned


def _heart() -> Points:
    turns = np.linspace(0, 2 * pi, 60, endpoint=False)
    x = 16 * np.sin(turns) ** 3
    y = 13 * np.cos(turns) - 5 * np.cos(2 * turns) - 2 * np.cos(3 * turns) - np.cos(4 * turns)
    return list(zip((x / 15.0).tolist(), (-(y + 2.5) / 15.0).tolist(), strict=True))


OUTLINES: dict[str, Points] = {
    "circle": _ring(72, 0.98, 0),
    "square": _ring(4, 1.24, 45),
    "triangle": [(x, y + 0.2) for x, y in _ring(3, 1.28, -90)],
    "star": _star(),
    "cross": _cross(),
    "heart": _heart(),
}


def render(scene: Scene, nuisance: Nuisance, size: int) -> Image.Image:
    """Draw one RGB image of `size` pixels a side; equal arguments give equal pixels."""
    body, inner, marks = _coverage(scene, nuisance, size)
    base = _colour(scene.colour, nuisance.tone)
    canvas = _ground(scene.background, nuisance, size)
    canvas *= 1 - 0.45 * _shadow(body, size)[..., None]
    light = _light(nuisance.light, size)[..., None]
    fill = base * (1 - marks[..., None]) + (0.22 * base + 0.78) * marks[..., None]
    paint = 0.5 * base + (fill * light - 0.5 * base) * inner[..., None]
    canvas += (paint - canvas) * body[..., None]
    canvas += 0.016 * nuisance.grain[..., None]
    return Image.fromarray((np.clip(canvas, 0, 1) * 255 + 0.5).astype(np.uint8))


def _colour(name: str, tone: np.ndarray) -> np.ndarray:
    hue = (HUE[name] + 0.013 * tone[0]) % 1
    saturation = SATURATION.get(name, 0.88) + 0.05 * tone[1]
    return np.array(colorsys.hsv_to_rgb(hue, saturation, VALUE[name] * (1 + 0.06 * tone[2])), np.float32)


def _centres(scene: Scene, nuisance: Nuisance) -> Points:
    x, y = CENTRE[scene.position]
    upright = scene.position in ("left", "right")
    n, radius = COUNTS[scene.count], RADIUS[scene.size]
    step = min(2.15 * radius + 0.03, 0.31)
    free = 0.47 - radius - step * (n - 1) / 2
    across, along = 0.035 * nuisance.shift[0], max(free, 0) * 0.8 * nuisance.shift[1]
    places = []
    for i, (side, ahead) in enumerate(nuisance.offsets[:n]):
        u = across + 0.02 * side
        v = along + step * (i - (n - 1) / 2) + 0.004 * ahead
        places.append((x + u, y + v) if upright else (x + v, y + u))
    return places


def _coverage(scene: Scene, nuisance: Nuisance, size: int) -> Planes:
    fine = size * SUPERSAMPLING
    body, inner = Image.new("L", (fine, fine)), Image.new("L", (fine, fine))
    outlines, insides = ImageDraw.Draw(body), ImageDraw.Draw(inner)
    radius = RADIUS[scene.size] * fine
    border = max(0.013 * fine, SUPERSAMPLING) / radius
    for centre, turn in zip(_centres(scene, nuisance), nuisance.rotations, strict=False):
        outlines.polygon(_placed(scene.shape, centre, turn, radius, fine), fill=255)
        insides.polygon(_placed(scene.shape, centre, turn, radius * (1 - border), fine), fill=255)
    marks = ImageChops.multiply(inner, _marks(scene.texture, nuisance, fine))
    planes = [np.asarray(plane.reduce(SUPERSAMPLING), np.float32) / 255 for plane in (body, inner, marks)]
    return planes[0], planes[1], planes[2]


def _placed(shape: str, centre: tuple[float, float], turn: float, radius: float, fine: int) -> Points:
    c, s = radius * cos(radians(turn)), radius * sin(radians(turn))
    x, y = centre[0] * fine, centre[1] * fine
    return [(x + c * u - s * v, y + s * u + c * v) for u, v in OUTLINES[shape]]


def _marks(texture: str, nuisance: Nuisance, fine: int) -> Image.Image:
    if texture == "plain":
        return Image.new("L", (fine, fine))
    angle = nuisance.angle if texture == "striped" else 0.25 * (nuisance.angle - pi / 2)
    period = {"striped": 0.068, "dotted": 0.078, "checkered": 0.1}[texture] * fine
    steps = np.arange(fine, dtype=np.float32) / np.float32(period)
    c, s = np.float32(cos(angle)), np.float32(sin(angle))
    u = (c * steps[None, :] + s * steps[:, None] + np.float32(nuisance.phase[0])) % 1
    if texture == "striped":
        return Image.fromarray((u < 0.45).astype(np.uint8) * 255)
    v = (c * steps[:, None] - s * steps[None, :] + np.float32(nuisance.phase[1])) % 1
    if texture == "dotted":
        return Image.fromarray(((u - 0.5) ** 2 + (v - 0.5) ** 2 < 0.31**2).astype(np.uint8) * 255)
    return Image.fromarray(((u < 0.5) ^ (v < 0.5)).astype(np.uint8) * 255)


def _stretched(noise: np.ndarray, size: int) -> np.ndarray:
    return np.asarray(Image.fromarray(noise).resize((size, size), Image.Resampling.BICUBIC))


def _ground(background: str, nuisance: Nuisance, size: int) -> np.ndarray:
    colour = np.array(GROUND[background], np.float32)
    if background != "grass background":
        level = 0.02 * nuisance.brightness + 0.018 * _stretched(nuisance.ground, size)
        return colour + level[..., None].astype(np.float32)
    blades = 0.085 * _stretched(nuisance.blades, size) + 0.03 * _stretched(nuisance.ground, size)
    tint = blades[..., None] * np.array([0.8, 1, 0.5], np.float32)
    return tint + colour * (1 + 0.05 * nuisance.brightness)


def _shadow(body: np.ndarray, size: int) -> np.ndarray:
    plane = Image.fromarray((body * 255).astype(np.uint8))
    moved = ImageChops.offset(plane, 0, max(1, size // 48))
    return np.asarray(moved.filter(ImageFilter.GaussianBlur(size / 48)), np.float32) / 255


def _light(direction: float, size: int) -> np.ndarray:
    steps = np.linspace(-1, 1, size, dtype=np.float32)
    slope = np.float32(cos(direction)) * steps[None, :] + np.float32(sin(direction)) * steps[:, None]
    return np.float32(1) + np.float32(0.09) * slope
