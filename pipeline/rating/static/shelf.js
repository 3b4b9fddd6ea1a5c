/** What this device keeps: localStorage under one prefix, or memory where the browser forbids it. */
export class Shelf {
  constructor(prefix) {
    this.prefix = prefix;
    this.memory = new Map();
    this.durable = true;
  }

  get(name) {
    if (this.memory.has(name)) return this.memory.get(name);
    try {
      return JSON.parse(localStorage.getItem(this.prefix + name));
    } catch {
      return null;
    }
  }

  put(name, value) {
    try {
      localStorage.setItem(this.prefix + name, JSON.stringify(value));
      this.memory.delete(name);
      this.durable = true;
    } catch {
      this.memory.set(name, value);
      this.durable = false;
    }
  }

  drop(name) {
    this.memory.delete(name);
    try {
      localStorage.removeItem(this.prefix + name);
    } catch {
      this.durable = false;
    }
  }

  /** Call `heard(name, value)` when another window of this browser changes something here. */
  listen(heard) {
    addEventListener("storage", (event) => {
      if (!event.key?.startsWith(this.prefix)) return;
      heard(event.key.slice(this.prefix.length), event.newValue && JSON.parse(event.newValue));
    });
  }
}
