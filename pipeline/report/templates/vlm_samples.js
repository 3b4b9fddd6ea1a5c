"use strict";
(() => {
  const form = document.querySelector("#controls"), list = document.querySelector("#sheets");
  const status = document.querySelector("#shown"), sheets = [...list.children];
  const [sort, explainer, show] = ["sort", "explainer", "show"].map((name) => form.elements[name]);
  const parsed = (text) => (text === "" || text === undefined ? NaN : Number(text));
  const value = (sheet, key) => {
    if (key === "f") return parsed((sheet.dataset.f || "").split(" ")[explainer.selectedIndex].slice(1));
    return parsed(sheet.dataset[key]);
  };
  const arrange = () => {
    const [key, sign] = sort.value.split(":");
    const rows = sheets.map((sheet, place) => [value(sheet, key), place, sheet]);
    rows.sort(([a, i], [b, j]) => {
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b) || i - j;
      return Number(sign) * (a - b) || i - j;
    });
    list.append(...rows.map(([, , sheet]) => sheet));
    const [what, wanted] = show.value.split(":");
    for (const sheet of sheets) sheet.hidden = what !== "all" && sheet.dataset[what] !== wanted;
    const n = sheets.filter((sheet) => !sheet.hidden).length;
    status.textContent = `${n} of ${sheets.length} samples shown, ${sort.selectedOptions[0].label}`
      + (key === "f" ? ` (${explainer.value})` : "");
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  sort.addEventListener("change", arrange);
  show.addEventListener("change", arrange);
  explainer.addEventListener("change", () => {
    if (!sort.value.startsWith("f:")) sort.value = "f:-1";
    arrange();
  });
  form.hidden = false;
  arrange();
})();
