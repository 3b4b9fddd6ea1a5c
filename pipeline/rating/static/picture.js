/** Tell the style sheet an image's shape: it is then as large as its frame allows, and no larger. */
export function fit(image) {
  image.style.setProperty("--shape", image.naturalWidth / image.naturalHeight);
}

/** Did the image arrive? */
export function arrived(image) {
  return image.complete && image.naturalWidth > 0;
}
