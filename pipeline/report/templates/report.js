"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const told = document.querySelector("#told");
  let quiet = 0;
  const say = (words) => {
    told.textContent = words;
    clearTimeout(quiet);
    quiet = setTimeout(() => { told.textContent = ""; }, 4000);
  };

  const value = (row, column) => {
    const cell = row.cells[column], number = cell.dataset.v;
    return number === undefined ? cell.textContent.trim() : Number(number);
  };
  const absent = (one) => one === "-" || one === "" || Number.isNaN(one);
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sort = (table, head) => {
    const column = head.cellIndex, body = table.tBodies[0];
    const numeric = !head.classList.contains("words");
    const was = head.getAttribute("aria-sort") || (numeric ? "ascending" : "descending");
    const sign = was === "ascending" ? -1 : 1;
    const rows = [...body.rows].map((row, place) => [value(row, column), place, row]);
    rows.sort(([a, i], [b, j]) => {
      if (absent(a) || absent(b)) return absent(a) - absent(b) || i - j;
      return sign * compare(a, b) || i - j;
    });
    body.append(...rows.map(([, , row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
  };
  for (const table of all("table.data")) {
    for (const head of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => sort(table, head));
    }
  }

  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say(`${code.textContent} is copied`);
    } catch {
      getSelection().selectAllChildren(code);
      say(`${code.textContent} is selected`);
    }
  };
  for (const code of all(".hash")) {
    code.tabIndex = 0;
    code.setAttribute("role", "button");
    code.setAttribute("aria-label", `Copy key ${code.textContent}`);
    code.addEventListener("click", () => copy(code));
    code.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      copy(code);
    });
  }

  for (const link of all("a.save")) {
    link.href = link.closest("details").querySelector("img").src;
    link.hidden = false;
  }

  for (const label of all(".pick")) {
    const gallery = label.parentElement.querySelector(".gallery");
    const status = label.parentElement.querySelector(".found");
    const units = all(".unit", gallery), words = units.map((unit) => unit.textContent.toLowerCase());
    label.querySelector("input").addEventListener("input", (event) => {
      const wanted = event.target.value.trim().toLowerCase();
      units.forEach((unit, place) => { unit.hidden = !words[place].includes(wanted); });
      const n = units.filter((unit) => !unit.hidden).length;
      status.textContent = wanted ? `${n} of ${units.length} units shown` : "";
    });
    label.hidden = false;
  }

  const draw = async (figure) => {
    const live = figure.querySelector(".live"), drawn = figure.querySelector(".drawn");
    const spec = JSON.parse(figure.querySelector(".spec").textContent);
    live.hidden = false;
    if (live.clientWidth < 480) spec.config.legend.columns = 2; // four names are wider than a phone
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", drawn.getAttribute("aria-label"));
    drawn.hidden = true;
    try {
      await vegaEmbed(live, spec, { ast: true, renderer: "svg", actions: false });
      live.querySelector("svg").setAttribute("aria-hidden", "true"); // the label says it; marks have no names
    } catch (error) {
      live.hidden = true;
      drawn.hidden = false;
      throw error;
    }
  };
  const charts = all(".chart");
  if (window.vegaEmbed) Promise.all(charts.map(draw)).then(() => { document.body.dataset.charts = charts.length; });

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])").filter((each) => !each.closest("#tables"));
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
})();
