import { Autosave } from "./autosave.js";
import { byId } from "./element.js";
import { Grid } from "./grid.js";
import { Outbox } from "./outbox.js";
import { request } from "./request.js";
import { Shelf } from "./shelf.js";
import { Task } from "./task.js";
import { Zoom } from "./zoom.js";

const { token, study } = byId("main").dataset;
const BASE = `/r/${encodeURIComponent(token)}`;
const POLL_MS = 10000;
const HEARTBEAT_MS = 5 * 60000;
const CALM_MS = 500;
const LONG_DESCRIPTION = 90;
const KEPT = "your answers are kept on this device";

const shelf = new Shelf(`assay:${study}:${token}:`);
const autosave = new Autosave(BASE, draftTold);
const outbox = new Outbox(BASE, shelf, outboxTold);
const grid = new Grid({ toggle, zoom: openZoom });
const zoom = new Zoom({ toggle, closed: zoomClosed });

let task = null;
let locked = false;
let polling = 0;
let calmUntil = 0;
let undone = "";

/** Say something in the status line; a problem stays visible as one. */
function say(text, problem = false) {
  const status = byId("status");
  status.textContent = text;
  status.classList.toggle("problem", problem);
}

function offlineText() {
  if (!shelf.durable) return "Offline: keep this window open, your answers are kept in it.";
  return `Offline: ${KEPT}.`;
}

/** Ignore what a double click or a held key would do to what has just appeared. */
function calm() {
  calmUntil = performance.now() + CALM_MS;
}

// What the server says

function show(state, { moved }) {
  clearTimeout(polling);
  byId("loading").hidden = true;
  if (zoom.open && state.assignment?.id !== task?.id) zoom.close();
  showProgress(state.progress);
  byId("reopen").hidden = !state.can_reopen || isCorrection(state);
  byId("retry").hidden = byId("skip-task").hidden = true;
  if (state.status === "rate" && state.assignment) showTask(state, moved);
  else showRest(state, moved);
}

function isCorrection(state) {
  return state.assignment !== null && state.assignment.number <= state.progress.tasks_done;
}

function showTask(state, moved) {
  task = new Task(state.assignment, shelf.get(state.assignment.id));
  byId("rest").hidden = true;
  byId("rate").hidden = false;
  byId("actions").classList.remove("resting");
  byId("instructions").hidden = false;
  byId("correcting").hidden = !isCorrection(state);
  byId("instructions").open = state.progress.tasks_done === 0;
  byId("description").textContent = byId("legend-description").textContent = task.description;
  byId("ask").classList.toggle("long", task.description.length > LONG_DESCRIPTION);
  document.title = `Task ${task.number}: ${task.description}`;
  closeQuestion();
  grid.show(task);
  setLocked(false);
  showMarks();
  autosave.watch(task);
  if (moved) arrive("ask");
}

function showRest(state, moved) {
  const wasResting = !byId("rest").hidden;
  task = null;
  autosave.watch(null);
  setLocked(false);
  byId("rate").hidden = true;
  byId("rest").hidden = false;
  byId("actions").classList.add("resting");
  byId("instructions").hidden = true;
  const done = state.status === "done";
  byId("rest-title").textContent = done ? "All done. Thank you!" : "Nothing to rate just now";
  byId("rest-text").textContent = done ? thanks(state.progress) : WAITING;
  document.title = byId("rest-title").textContent;
  if (!done) polling = setTimeout(refresh, POLL_MS);
  if (moved && !wasResting) arrive("rest-title");
}

const WAITING =
  "Other raters are working on the images that are left. This page looks for a new task every ten " +
  "seconds: leave it open, or come back later with the same link.";

function thanks(progress) {
  const images = counted(progress.ratings_done, "image");
  return `You rated ${images} in ${counted(progress.tasks_done, "task")}. You can close this window.`;
}

function showProgress(progress) {
  const bar = byId("progress");
  bar.max = Math.max(1, progress.ratings_done + progress.inputs_left);
  bar.value = progress.ratings_done;
  byId("progress-text").textContent =
    `${counted(progress.tasks_done, "task")} done · ${counted(progress.inputs_left, "image")} left`;
}

function counted(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

/** A new page: to its top, focus on its heading, and calm for a moment. */
function arrive(heading) {
  calm();
  scrollTo(0, 0);
  byId(heading).focus({ preventScroll: true });
}

/** Ask the server where this rater stands, and follow where another window is ahead. */
async function refresh() {
  if (outbox.entry) return outbox.deliver();
  const answer = await request("GET", `${BASE}/state`);
  if (locked || outbox.entry) return undefined;
  if (answer.outcome === "ok") return follow(answer.body);
  if (answer.outcome === "refused") return say(`${answer.text} Ask whoever sent you this link; ${KEPT}.`, true);
  if (!task) polling = setTimeout(refresh, POLL_MS);
  return undefined;
}

function follow(state) {
  const same = task !== null && state.assignment?.id === task.id;
  if (same && state.assignment.version <= task.version) return;
  if (task && !same) say("This task was finished in another window.");
  show(state, { moved: !same });
}

// Marks

function toggle(id) {
  task.toggle(id);
  changed();
}

function undo() {
  if (locked || !task) return;
  const id = task.undo();
  if (id === null) return;
  const number = task.inputs.findIndex((input) => input.id === id) + 1;
  changed();
  undone = `Undone: image ${number} is ${task.marks.has(id) ? "marked" : "not marked"}. `;
  say(undone);
}

function changed() {
  undone = "";
  shelf.put(task.id, task.kept);
  closeQuestion();
  showMarks();
  autosave.changed();
}

function showMarks() {
  grid.mark(task);
  zoom.mark();
  byId("undo").setAttribute("aria-disabled", String(task.history.length === 0));
  byId("count").textContent = `${task.marks.size} marked`;
}

function draftTold(event, answer) {
  if (locked) return;
  if (event === "saved") say(`${undone}Saved.`);
  else if (event === "submitted") refresh();
  else if (event === "refused") say(`${answer.text} Your marks are kept on this device.`, true);
  else if (answer.status === 0) say(offlineText());
  else say(`${answer.text} It is tried again; ${KEPT}.`, true);
}

function openZoom(position) {
  zoom.show(task, position, locked);
}

function zoomClosed(position) {
  if (zoom.task === task) grid.focus(position);
}

// Sending

function submit() {
  if (locked || !task || performance.now() < calmUntil) return;
  const doubts = [];
  if (task.marks.size === 0) doubts.push("None of these shows it?");
  if (grid.unseen.length) doubts.push(unseenText(grid.unseen));
  if (doubts.length && byId("question").hidden) ask(doubts);
  else send();
}

function unseenText(numbers) {
  const images = numbers.length === 1 ? `Image ${numbers[0]} has` : `Images ${numbers.join(", ")} have`;
  return `${images} not loaded: what is not marked counts as not showing it.`;
}

function ask(doubts) {
  const lines = doubts.map((doubt) => Object.assign(document.createElement("p"), { textContent: doubt }));
  byId("question-text").replaceChildren(...lines);
  byId("confirm").textContent = task.marks.size ? "Send as it is" : "None, send";
  byId("question").hidden = false;
  byId("actions").classList.add("asking");
  calm();
  byId("confirm").focus();
}

function closeQuestion() {
  byId("question").hidden = true;
  byId("actions").classList.remove("asking");
}

function goBack() {
  if (performance.now() < calmUntil) return;
  closeQuestion();
  grid.focus(0);
}

function send() {
  setLocked(true);
  closeQuestion();
  byId("ask").focus({ preventScroll: true });
  outbox.put(task);
  say("Sending…");
  outbox.deliver();
}

function setLocked(value) {
  locked = value;
  grid.lock(value);
  byId("submit").setAttribute("aria-disabled", String(value));
  byId("actions").classList.toggle("locked", value);
  byId("actions").classList.remove("queued");
}

function outboxTold(event, answer, entry) {
  if (event === "sent") return sent(answer.body, entry);
  if (event === "later") return queued(answer);
  if (event === "refused") return refused(answer);
  setLocked(false);
  return refresh();
}

function sent(body, entry) {
  shelf.drop(entry.assignment);
  setLocked(false);
  say(body.already ? "This task had been sent before; nothing is counted twice." : "Sent.");
  show(body.state, { moved: true });
}

function queued(answer) {
  byId("actions").classList.add("queued");
  byId("retry").hidden = false;
  if (answer.status === 0) return say(`${offlineText()} They are sent when the connection is back.`);
  return say(`${answer.text} It is tried again in ${answer.wait} s; ${KEPT}.`, true);
}

async function refused(answer) {
  if (answer.status !== 404) return takenBack(answer);
  byId("actions").classList.add("queued");
  const state = await request("GET", `${BASE}/state`);
  byId("skip-task").hidden = state.outcome !== "ok";
  return say(`${answer.text} Ask whoever sent you this link; ${KEPT}.`, true);
}

function takenBack(answer) {
  outbox.drop();
  setLocked(false);
  say(`${answer.text} Your marks are kept on this device.`, true);
}

function skipTask() {
  const entry = outbox.entry;
  if (entry) shelf.put(`unsent:${entry.assignment}`, entry);
  outbox.drop();
  task = null;
  setLocked(false);
  say("");
  refresh();
}

async function reopen() {
  if (locked) return;
  await autosave.flush();
  const answer = await request("POST", `${BASE}/reopen`, {});
  if (answer.outcome === "ok") {
    say("The previous task is open again.");
    show(answer.body.state ?? answer.body, { moved: true });
  } else {
    say(answer.status === 0 ? "Offline: the previous task can be corrected when the connection is back." : answer.text, true);
  }
}

// Keys and the window

function key(event) {
  if (document.querySelector("dialog[open]") || event.altKey) return;
  if (takesKey(event)) event.preventDefault();
}

function takesKey(event) {
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey) return takesControl(pressed, event);
  if (pressed === "?") return openKeys();
  if (!task) return false;
  if (pressed === "u") return undo() ?? true;
  if (pressed === "z") return openZoom(Math.max(0, grid.position)) ?? true;
  if (pressed === "Enter" && event.target.type === "checkbox") return toggleFocused(event);
  return takesArrow(pressed, event.target);
}

function takesControl(pressed, event) {
  if (pressed === "z" && !event.shiftKey) return undo() ?? true;
  if (pressed !== "Enter" || event.repeat) return false;
  submit();
  return true;
}

function toggleFocused(event) {
  if (!event.repeat) event.target.click();
  return true;
}

/** Arrow keys move within the grid, and from the heading into it; elsewhere they scroll the page. */
function takesArrow(pressed, target) {
  if (grid.position >= 0) return grid.move(pressed);
  const entering = target === byId("ask") || target === document.body;
  return entering && pressed === "ArrowRight" && grid.move(pressed);
}

function openKeys() {
  byId("keys").showModal();
  return true;
}

function visibility() {
  task?.seen(!document.hidden);
  if (task && !(shelf.get(task.id)?.version > task.version)) shelf.put(task.id, task.kept);
  if (document.hidden) autosave.leave();
  else refresh();
}

function online() {
  say("Back online.");
  grid.reload();
  if (outbox.entry) outbox.deliver();
  else autosave.flush();
}

/** Another window of this browser kept newer marks, or sent the task. */
function heard(name, value) {
  if (locked || !task || name !== task.id) return;
  if (value === null) refresh();
  else if (value.version > task.version) adopt(value);
}

function adopt(kept) {
  task.marks = new Set(kept.marks);
  task.history = kept.history;
  task.version = task.saved = kept.version;
  closeQuestion();
  showMarks();
}

function listen() {
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  byId("confirm").addEventListener("click", submit);
  byId("go-back").addEventListener("click", goBack);
  byId("undo").addEventListener("click", undo);
  byId("reopen").addEventListener("click", reopen);
  byId("retry").addEventListener("click", () => outbox.deliver());
  byId("skip-task").addEventListener("click", skipTask);
  byId("show-keys").addEventListener("click", openKeys);
  byId("keys-close").addEventListener("click", () => byId("keys").close());
  document.addEventListener("keydown", key);
  document.addEventListener("visibilitychange", visibility);
  addEventListener("pagehide", () => autosave.leave());
  addEventListener("pageshow", (event) => event.persisted && refresh());
  addEventListener("online", online);
  addEventListener("offline", () => say(offlineText()));
  shelf.listen(heard);
  setInterval(() => !document.hidden && task && refresh(), HEARTBEAT_MS);
}

/** Marks of an earlier visit may have arrived as its window closed: say that they are safe. */
function welcomeBack() {
  if (task && task.marks.size && shelf.get(task.id)?.version === task.saved) say("Saved.");
}

/** Show where the rater stands; answers that were still on their way when the window closed go first. */
function start() {
  listen();
  show(JSON.parse(byId("state").textContent), { moved: false });
  const entry = outbox.entry;
  if (!entry) return welcomeBack();
  if (task?.id === entry.assignment) {
    task.marks = new Set(entry.marks);
    showMarks();
  }
  setLocked(true);
  say("Sending the answers that were kept on this device…");
  outbox.deliver();
}

start();
