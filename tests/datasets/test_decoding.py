from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets.decoding import Undecodable, decode, displayed_size


def saved(image, kind="PNG", **options):
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixel(encoded, at=(0, 0)):
    return decode(encoded).getpixel(at)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "RGBA", "LA", "CMYK", "I;16"])
def test_every_mode_becomes_rgb_of_the_same_size(mode):
    image = Image.new(mode, (7, 5)) if mode == "I;16" else Image.new("RGB", (7, 5), "white").convert(mode)
    decoded = decode(saved(image, "TIFF"))
    assert decoded.mode == "RGB"
    assert decoded.size == (7, 5)


def test_transparency_is_flattened_on_white():
    assert pixel(saved(Image.new("RGBA", (2, 2), (0, 0, 0, 0)))) == (255, 255, 255)
    assert pixel(saved(Image.new("RGBA", (2, 2), (0, 0, 0, 128)))) == (127, 127, 127)
    assert pixel(saved(Image.new("LA", (2, 2), (10, 0)))) == (255, 255, 255)


def test_a_transparent_palette_entry_is_white():
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    encoded = saved(image, transparency=0)
    assert pixel(encoded) == (255, 255, 255)
    assert pixel(encoded, (1, 0)) == (40, 50, 60)


def test_a_transparent_rgb_colour_is_white():
    assert pixel(saved(Image.new("RGB", (2, 2), (1, 2, 3)), transparency=(1, 2, 3))) == (255, 255, 255)


def test_16_bit_grey_keeps_its_brightness():
    levels = np.array([[0, 257, 32768, 65535]], dtype=np.uint16)
    decoded = np.asarray(decode(saved(Image.fromarray(levels))))
    assert decoded[0, :, 0].tolist() == [0, 1, 128, 255]


def test_a_white_cmyk_jpeg_is_white():
    white = saved(Image.new("CMYK", (8, 8), (0, 0, 0, 0)), "JPEG")
    assert min(pixel(white)) > 250


def test_floating_point_pixels_are_refused_with_the_reason():
    with pytest.raises(Undecodable, match="floating-point"):
        decode(saved(Image.new("F", (2, 2)), "TIFF"))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_as_pillow_does(orientation):
    from PIL import ImageOps

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 9, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    encoded = saved(image, "PNG", exif=exif)
    oracle = ImageOps.exif_transpose(Image.open(BytesIO(encoded)))
    assert decode(encoded).tobytes() == oracle.tobytes()
    assert displayed_size(encoded) == decode(encoded).size == oracle.size


def test_broken_exif_does_not_make_an_image_unreadable():
    encoded = saved(Image.new("RGB", (16, 8)), "JPEG", exif=b"Exif\x00\x00 this is no TIFF header")
    assert displayed_size(encoded) == (16, 8)
    assert decode(encoded).size == (16, 8)


def test_an_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    assert pixel(saved(frames[0], "GIF", save_all=True, append_images=frames[1:])) == (255, 0, 0)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
@pytest.mark.parametrize("read", [decode, displayed_size])
def test_a_truncated_file_is_undecodable(kind, read):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = saved(Image.fromarray(noise), kind)
    read(whole)
    with pytest.raises(Undecodable):
        read(whole[: int(len(whole) * 0.7)])


@pytest.mark.parametrize(("encoded", "reason"), [(b"", "empty"), (b"<html>", "no image")])
def test_what_is_no_image_says_so(encoded, reason):
    with pytest.raises(Undecodable, match=reason):
        decode(encoded)


def test_a_jpegs_size_is_that_of_the_whole_image():
    assert displayed_size(saved(Image.new("RGB", (641, 333)), "JPEG")) == (641, 333)
