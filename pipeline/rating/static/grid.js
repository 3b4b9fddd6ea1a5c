import { byId, element } from "./element.js";
import { arrived, fit } from "./picture.js";

/** The images of a task as labelled checkboxes; arrow keys go through them as they lie. */
export class Grid {
  /** `on.toggle(id)` and `on.zoom(position)` are called when a rater does so. */
  constructor(on) {
    this.on = on;
    this.root = byId("grid");
    this.cells = [];
    this.locked = false;
  }

  show(task) {
    this.cells = task.inputs.map((input, i) => this.#cell(input, i, task.inputs.length));
    this.root.replaceChildren(...this.cells.map((cell) => cell.root));
    this.mark(task);
  }

  /** Show which inputs are marked. */
  mark(task) {
    for (const cell of this.cells) {
      const marked = task.marks.has(cell.id);
      cell.box.checked = marked;
      cell.root.classList.toggle("marked", marked);
      cell.word.textContent = marked ? "Marked" : "";
    }
  }

  /** While answers are on their way nothing can be changed. */
  lock(locked) {
    this.locked = locked;
    for (const cell of this.cells) {
      if (locked) cell.box.setAttribute("aria-disabled", "true");
      else cell.box.removeAttribute("aria-disabled");
    }
  }

  /** Numbers (from 1) of the images that are not there to be seen. */
  get unseen() {
    return this.cells.flatMap((cell, i) => (arrived(cell.image) ? [] : [i + 1]));
  }

  /** Position of the focus, or -1. */
  get position() {
    return this.cells.findIndex((cell) => cell.root.contains(document.activeElement));
  }

  focus(position) {
    this.cells[position]?.box.focus();
  }

  /** Load again what did not arrive. */
  reload() {
    for (const cell of this.cells) if (cell.root.classList.contains("broken")) cell.load();
  }

  /** Move the focus by an arrow, Home or End key; false where the key means nothing here. */
  move(key) {
    const from = this.position;
    const to = from < 0 ? 0 : from + this.#step(key, from);
    if (Number.isNaN(to)) return false;
    this.focus(Math.max(0, Math.min(this.cells.length - 1, to)));
    return true;
  }

  #step(key, from) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -from, End: this.cells.length - 1 - from };
    if (key in steps) return steps[key];
    if (key !== "ArrowUp" && key !== "ArrowDown") return NaN;
    const top = this.cells[0].root.offsetTop;
    const columns = this.cells.filter((cell) => cell.root.offsetTop === top).length;
    const step = key === "ArrowUp" ? -columns : columns;
    return from + step < 0 || from + step >= this.cells.length ? 0 : step;
  }

  #cell(input, i, total) {
    const name = `Image ${i + 1} of ${total}`;
    const box = element("input", { type: "checkbox", id: `box-${i}`, "data-input": input.id });
    const image = element("img", { alt: name, decoding: "async", draggable: "false" });
    const word = element("span", { class: "word", "aria-hidden": "true" });
    const number = element("span", { class: "number", "aria-hidden": "true" }, String(i + 1));
    const label = element(
      "label",
      { for: box.id },
      element("span", { class: "picture" }, image),
      element("span", { class: "caption" }, box, number, word),
    );
    const zoom = element("button", { type: "button", class: "zoom-open", "aria-label": `Zoom image ${i + 1}` });
    zoom.append(byId("lens").content.cloneNode(true));
    const again = element("button", { type: "button" }, "Try again");
    const failure = element("div", { class: "failure", hidden: true }, element("p", {}, "Image did not load."), again);
    const root = element("div", { class: "cell" }, label, zoom, failure);
    const cell = { id: input.id, root, box, image, word, load: () => load(cell, failure, input.image) };
    box.addEventListener("click", (event) => this.#clicked(event, input.id));
    zoom.addEventListener("click", () => this.on.zoom(i));
    again.addEventListener("click", () => this.#again(cell));
    watch(cell, failure);
    image.src = input.image;
    return cell;
  }

  #clicked(event, id) {
    if (this.locked) event.preventDefault();
    else this.on.toggle(id);
  }

  #again(cell) {
    cell.box.focus();
    cell.load();
  }
}

function watch(cell, failure) {
  cell.image.addEventListener("load", () => {
    cell.root.classList.remove("broken");
    failure.hidden = true;
    fit(cell.image);
  });
  cell.image.addEventListener("error", () => {
    cell.root.classList.add("broken");
    failure.hidden = false;
  });
}

function load(cell, failure, source) {
  failure.hidden = true;
  cell.root.classList.remove("broken");
  cell.image.src = `${source}?again=${Date.now()}`;
}
