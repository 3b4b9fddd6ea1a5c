import { backoff, request } from "./request.js";

const QUIET_MS = 400;

/** Sends a task's draft after each change, one at a time, until the server has the newest. */
export class Autosave {
  /** `told(event, answer)` hears "saved", "later", "refused" and "submitted". */
  constructor(base, told) {
    this.base = base;
    this.told = told;
    this.task = null;
    this.sending = null;
    this.timer = 0;
    this.attempt = 0;
  }

  /** Watch another task, or none. */
  watch(task) {
    clearTimeout(this.timer);
    this.task = task;
    this.attempt = 0;
    if (task && task.version > task.saved) this.changed();
  }

  changed() {
    this.#after(QUIET_MS);
  }

  /** Send now what is not sent yet; resolves when the server has it or cannot be reached. */
  async flush() {
    clearTimeout(this.timer);
    while (this.sending) await this.sending;
    if (!this.task || this.task.version <= this.task.saved) return;
    this.sending = this.#send(this.task);
    await this.sending;
    this.sending = null;
  }

  /** The window may close: hand the draft to the browser, which sends it on its own. */
  leave() {
    const task = this.task;
    if (!task || task.version <= task.saved) return;
    request("PUT", this.#path(task), draft(task), { leaving: true });
  }

  #path(task) {
    return `${this.base}/assignments/${task.id}/draft`;
  }

  #after(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), ms);
  }

  async #send(task) {
    const sent = draft(task);
    const answer = await request("PUT", this.#path(task), sent);
    if (task !== this.task) return;
    if (answer.outcome === "ok") this.#accepted(task, sent, answer.body);
    else this.#failed(answer);
  }

  #accepted(task, sent, body) {
    this.attempt = 0;
    if (body.submitted) return this.told("submitted", null);
    task.saved = sent.version;
    // Another window was ahead: what is on the screen that is being used wins.
    if (body.version > sent.version) task.version = Math.max(task.version, body.version + 1);
    if (task.version > task.saved) return this.changed();
    return this.told("saved", null);
  }

  #failed(answer) {
    if (answer.outcome === "later") {
      this.attempt += 1;
      this.#after(1000 * backoff(this.attempt));
    }
    this.told(answer.outcome, answer);
  }
}

function draft(task) {
  return { marks: task.marked, version: task.version };
}
