import { backoff, request } from "./request.js";

const NAME = "outbox";

/** The one submission on its way. It is kept on this device until the server has answered it. */
export class Outbox {
  /** `told(event, answer, entry)` hears "sent", "later" (with answer.wait in seconds), "refused", "gone". */
  constructor(base, shelf, told) {
    this.base = base;
    this.shelf = shelf;
    this.told = told;
    this.busy = false;
    this.timer = 0;
    this.attempt = 0;
  }

  get entry() {
    return this.shelf.get(NAME);
  }

  /** Queue a task's answers; what is queued already stays as it is. */
  put(task) {
    if (this.entry) return;
    this.shelf.put(NAME, { assignment: task.id, marks: task.marked, seconds: task.seconds });
  }

  /** Take back a submission that the server refused. */
  drop() {
    this.shelf.drop(NAME);
  }

  /** Send what is queued; tries again by itself until the server has answered. */
  async deliver() {
    clearTimeout(this.timer);
    if (this.busy) return;
    const entry = this.entry;
    if (!entry) return this.told("gone", null, null);
    this.busy = true;
    const path = `${this.base}/assignments/${entry.assignment}`;
    const answer = await request("POST", path, { marks: entry.marks, seconds: entry.seconds });
    this.busy = false;
    return this.#answered(answer, entry);
  }

  #answered(answer, entry) {
    if (answer.outcome === "ok") {
      this.attempt = 0;
      this.drop();
      return this.told("sent", answer, entry);
    }
    if (answer.outcome === "refused") return this.told("refused", answer, entry);
    this.attempt += 1;
    answer.wait = backoff(this.attempt);
    this.timer = setTimeout(() => this.deliver(), 1000 * answer.wait);
    return this.told("later", answer, entry);
  }
}
