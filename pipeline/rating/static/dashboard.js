import { byId, element } from "./element.js";

const REFRESH_MS = 5000;
const BAR = 1000;
const SVG = "http://www.w3.org/2000/svg";
const source = byId("main").dataset.facts;

function percent(share) {
  return share === null ? "–" : `${Math.floor(100 * share + 0.5)}%`;
}

function write(id, value) {
  byId(id).textContent = value;
}

function render(facts) {
  renderProgress(facts.inputs, facts.n_raters);
  write("ratings", facts.ratings + facts.elsewhere);
  write("here", facts.ratings);
  write("elsewhere", facts.elsewhere);
  write("raw", percent(facts.agreement.raw));
  write("alpha", facts.agreement.alpha === null ? "–" : facts.agreement.alpha.toFixed(2));
  renderSaved(facts);
  renderRaters(facts.raters);
}

function renderProgress(inputs, nRaters) {
  write("complete", inputs.complete);
  write("total", inputs.total);
  let x = 0;
  const bars = inputs.by_ratings.map((n, k) => {
    const width = (BAR * n) / Math.max(1, inputs.total);
    const bar = rectangle(k, nRaters, { x, y: 0, width, height: 20 });
    x += width;
    return bar;
  });
  byId("stack").replaceChildren(...bars);
  byId("levels").replaceChildren(...inputs.by_ratings.map((n, k) => legend(n, k, nRaters)));
}

function legend(n, k, nRaters) {
  const swatch = document.createElementNS(SVG, "svg");
  swatch.setAttribute("viewBox", "0 0 12 12");
  swatch.setAttribute("aria-hidden", "true");
  swatch.append(rectangle(k, nRaters, { width: 12, height: 12, rx: 3 }));
  return element("li", {}, swatch, element("span", {}, `${level(k, nRaters)}: `, element("b", {}, String(n))));
}

function level(k, nRaters) {
  if (k === 0) return "not rated yet";
  return `${k} rating${k === 1 ? "" : "s"}${k === nRaters ? " or more" : ""}`;
}

function rectangle(k, nRaters, geometry) {
  const made = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries(geometry)) made.setAttribute(name, value);
  made.setAttribute("class", k ? "level" : "none");
  made.setAttribute("fill-opacity", k / nRaters);
  return made;
}

function renderSaved({ saved, inputs, n_raters: nRaters }) {
  write("saved", saved.adaptive ? saved.ratings : "–");
  write("saved-share", saved.adaptive ? `${percent(saved.share)} of all ratings planned` : "off");
  const decided = `${inputs.stopped} inputs were decided before all ${nRaters} ratings.`;
  write("saved-text", saved.adaptive ? decided : `Every input gets ${nRaters} ratings, however clear it is.`);
}

/** Rows stay where they are and only change their words: a focused button keeps its focus. */
function renderRaters(raters) {
  const body = byId("raters");
  const rows = new Map([...body.rows].map((row) => [row.cells[0].textContent, row]));
  for (const rater of raters) {
    const row = rows.get(rater.label) ?? body.appendChild(newRow(rater));
    fillRow(row, rater);
  }
}

function newRow(rater) {
  const copy = element("button", { type: "button", class: "quiet small", "data-link": rater.link }, "Copy link");
  copy.setAttribute("aria-label", `Copy the link of ${rater.label}`);
  const numbers = ["Tasks", "Ratings", "Median time a task", "Says yes", "Agrees with others"];
  return element(
    "tr",
    { role: "row" },
    element("th", { role: "rowheader", scope: "row" }, rater.label),
    element("td", { role: "cell", "data-name": "Link" }, copy),
    ...numbers.map((name) => element("td", { role: "cell", "data-name": name, class: "number" })),
    element("td", { role: "cell", "data-name": "Last seen" }),
    element("td", { role: "cell", "data-name": "Remarks" }),
  );
}

function fillRow(row, rater) {
  const seconds = rater.seconds === null ? "–" : `${Math.floor(rater.seconds + 0.5)} s`;
  const words = [rater.assignments, rater.ratings, seconds, percent(rater.yes), percent(rater.agreement)];
  words.forEach((word, i) => (row.cells[i + 2].textContent = word));
  row.cells[7].replaceChildren(...seen(rater));
  const flags = rater.flags.map((flag) => element("span", { class: "flag" }, flag));
  row.cells[8].replaceChildren(...(flags.length ? flags : ["–"]));
}

function seen(rater) {
  if (!rater.seen) return ["not yet"];
  return [element("time", { datetime: rater.seen, title: rater.seen }, ago(new Date(rater.seen)))];
}

function ago(then) {
  const minutes = Math.floor((Date.now() - then) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return then.toLocaleDateString();
}

async function refresh() {
  try {
    const response = await fetch(source, { cache: "no-store", credentials: "omit" });
    if (!response.ok) throw new Error(`the server said ${response.status}`);
    render(await response.json());
    write("updated", `Updated ${new Date().toLocaleTimeString()}`);
    byId("updated").classList.remove("problem");
  } catch {
    write("updated", "No connection: these figures are not the newest");
    byId("updated").classList.add("problem");
  }
  setTimeout(refresh, REFRESH_MS);
}

async function copy(button) {
  const link = new URL(button.dataset.link, location.href).href;
  const whose = button.closest("tr").cells[0].textContent;
  try {
    await navigator.clipboard.writeText(link);
    write("status", `The link of ${whose} is copied.`);
    byId("by-hand").hidden = true;
  } catch {
    byId("by-hand").hidden = false;
    byId("link").value = link;
    byId("link").select();
    write("status", "This browser lets no page copy here: copy the link by hand.");
  }
}

byId("raters").addEventListener("click", (event) => {
  const button = event.target.closest("button[data-link]");
  if (button) copy(button);
});
refresh();
