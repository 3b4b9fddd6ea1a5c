/** One assignment as the rater sees it: marks, what can be undone, a version that only grows. */
export class Task {
  /** `kept` is what this device kept of it: the newer version of the two wins. */
  constructor(assignment, kept) {
    const newer = kept !== null && kept.version > assignment.version;
    this.id = assignment.id;
    this.description = assignment.description;
    this.inputs = assignment.inputs;
    this.number = assignment.number;
    this.version = newer ? kept.version : assignment.version;
    this.saved = assignment.version;
    const known = new Set(this.inputs.map((input) => input.id));
    this.marks = new Set((newer ? kept.marks : assignment.marks).filter((id) => known.has(id)));
    const sameMarks = newer || kept?.version === assignment.version;
    this.history = sameMarks ? kept.history.filter((id) => known.has(id)) : [];
    this.spent = kept?.seconds ?? 0;
    this.since = document.hidden ? null : performance.now();
  }

  /** Marked inputs in the order in which they are shown. */
  get marked() {
    return this.inputs.map((input) => input.id).filter((id) => this.marks.has(id));
  }

  toggle(id) {
    this.#flip(id);
    this.history.push(id);
  }

  /** Take the last change back; returns its input's id, or null. */
  undo() {
    const id = this.history.pop();
    if (id === undefined) return null;
    this.#flip(id);
    return id;
  }

  #flip(id) {
    if (!this.marks.delete(id)) this.marks.add(id);
    this.version += 1;
  }

  /** Seconds for which the task was in view, here and in earlier visits with this device. */
  get seconds() {
    const now = this.since === null ? 0 : (performance.now() - this.since) / 1000;
    return Math.round((this.spent + now) * 10) / 10;
  }

  seen(visible) {
    this.spent = this.seconds;
    this.since = visible ? performance.now() : null;
  }

  /** What this device keeps. */
  get kept() {
    return { marks: this.marked, version: this.version, history: this.history, seconds: this.seconds };
  }
}
