import { byId } from "./element.js";
import { fit } from "./picture.js";

const SWIPE_PX = 60;

/** The large view of one image, with its own mark, and steps to the others. */
export class Zoom {
  /** `on.toggle(id)` is called for a mark, `on.closed(position)` at the end. */
  constructor(on) {
    this.on = on;
    this.dialog = byId("zoom");
    this.image = byId("zoom-image");
    this.box = byId("zoom-mark");
    this.task = null;
    this.position = 0;
    this.locked = false;
    this.#listen();
  }

  get open() {
    return this.dialog.open;
  }

  show(task, position, locked) {
    this.task = task;
    this.locked = locked;
    byId("zoom-description").textContent = task.description;
    this.#turn(position);
    this.dialog.showModal();
    this.box.focus();
  }

  close() {
    this.dialog.close();
  }

  /** Show the mark as the task has it. */
  mark() {
    if (this.task) this.box.checked = this.task.marks.has(this.task.inputs[this.position].id);
  }

  #turn(position) {
    const inputs = this.task.inputs;
    this.position = (position + inputs.length) % inputs.length;
    const name = `Image ${this.position + 1} of ${inputs.length}`;
    byId("zoom-title").textContent = name;
    this.image.alt = name;
    this.image.src = inputs[this.position].image;
    this.mark();
  }

  #listen() {
    this.image.addEventListener("load", () => fit(this.image));
    this.box.addEventListener("click", (event) => {
      if (this.locked) event.preventDefault();
      else this.on.toggle(this.task.inputs[this.position].id);
    });
    byId("zoom-previous").addEventListener("click", () => this.#turn(this.position - 1));
    byId("zoom-next").addEventListener("click", () => this.#turn(this.position + 1));
    byId("zoom-close").addEventListener("click", () => this.close());
    this.dialog.addEventListener("keydown", (event) => this.#key(event));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.close());
    this.dialog.addEventListener("close", () => this.on.closed(this.position));
    this.#swipe();
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) this.#turn(this.position + step);
    else if (event.key === "Enter" && event.target === this.box) this.box.click();
    else if (event.key.toLowerCase() === "z") this.close();
    else return;
    event.preventDefault();
  }

  #swipe() {
    let from = 0;
    this.dialog.addEventListener("touchstart", (event) => (from = event.touches[0].clientX), { passive: true });
    this.dialog.addEventListener("touchend", (event) => {
      const moved = event.changedTouches[0].clientX - from;
      if (event.touches.length === 0 && Math.abs(moved) > SWIPE_PX) this.#turn(this.position - Math.sign(moved));
    });
  }
}
