/** Make an element: attributes by name, children as elements or text (never as HTML). */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** The element with an id. */
export function byId(id) {
  return document.getElementById(id);
}
