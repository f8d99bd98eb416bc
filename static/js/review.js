// The review page beyond app.js: remarks beside their lines, links to lines that are not loaded yet, how changes are shown.
"use strict";

// A remark moves below the line that was clicked; it stays the form's own field, so it posts as it would without script.
const blankOf = (file) => one("details[data-remark]:not([data-placed], [data-begun])", file);
function remarkIn(file, { side, line, text }) {
  const remark = blankOf(file);
  if (!remark) return null;
  remark.after(remark.cloneNode(true));
  remark.dataset.begun = "";
  remark.open = true;
  one("[name=remark_line]", remark).value = line;
  one("[name=remark_side]", remark).value = side;
  one("textarea", remark).value = text;
  return remark;
}
function standBeside(remark, row) {
  const cell = row.closest("table").insertRow(row.rowIndex + 1).insertCell();
  cell.parentElement.className = "remark-row";
  cell.colSpan = 4;
  cell.append(remark);
  remark.dataset.placed = "";
}
on("click", (event) => {
  const link = event.target.closest(".diff .n a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const [, letter, line] = link.hash.match(/([LR])(\d+)$/) || [], file = link.closest(".file");
  const remark = file && remarkIn(file, { side: letter === "L" ? "old" : "new", line, text: "" });
  if (!remark) return;
  event.preventDefault();
  history.replaceState(history.state, "", link.hash);
  standBeside(remark, link.closest("tr"));
  one("textarea", remark).focus();
});
on("keydown", (event) => { // An empty remark goes away as it came
  const remark = event.key === "Escape" && event.target.closest("[data-begun]");
  if (!remark || one("textarea", remark).value) return;
  const file = remark.closest(".file");
  (remark.closest("tr") || remark).remove();
  one("[data-open]", file)?.focus();
});
keys.l = () => {
  const remark = blankOf(document.activeElement.closest(".file") || document.createElement("i"));
  if (remark) { remark.open = true; one("[name=remark_line]", remark).focus(); }
};

// What is written of lines outlives a reload and another look, as the comment does. A line is known by its text: where
// another patch has another line there, the words stay with the file and its line is asked for.
let homeless = [];
const lineOf = (file, side, line) => {
  const place = document.getElementById(`${file.id}${side === "old" ? "L" : "R"}${line}`), cell = place?.matches("td") ? place.nextElementSibling : place?.lastElementChild;
  return { row: place?.closest("tr"), said: cell?.textContent };
};
function readRemark(remark) {
  const [line, side, text] = ["[name=remark_line]", "[name=remark_side]", "textarea"].map((field) => one(field, remark).value), file = remark.closest(".file");
  return { path: one("[name=remark_path]", remark).value, side, line, text, said: lineOf(file, side, line).said };
}
function keepRemarks() {
  const place = one("[data-remarks]"), rows = [...all("[data-remark]").map(readRemark).filter(({ text }) => text), ...homeless];
  if (!place) return;
  place.value = rows.length ? JSON.stringify(rows) : "";
  stored(sessionStorage, draftKey(place), place.value);
  one("#verdict-comment").required = !rows.length; // What is said of a line is reason enough
}
function placeRemarks(rows) {
  homeless = rows.filter((kept) => {
    const file = all(".file").find((section) => one("[name=remark_path]", section)?.value === kept.path);
    if (!file) return true;
    const { row, said } = lineOf(file, kept.side, kept.line), same = said === kept.said;
    const remark = remarkIn(file, { ...kept, line: same ? kept.line : "" });
    if (remark && row && same) standBeside(remark, row);
    return !remark;
  });
}
on("input", ({ target }) => { if (target.closest("[data-remark]")) keepRemarks(); });
on("DOMContentLoaded", () => { // After a refusal the server gives them back itself
  const place = one("[data-remarks]"), begun = all("[data-begun]");
  begun.forEach((remark) => { const { side, line } = readRemark(remark), { row } = lineOf(remark.closest(".file"), side, line); if (row) standBeside(remark, row); });
  if (place && !begun.length) placeRemarks(JSON.parse(place.value || "[]"));
  keepRemarks();
});
on("htmx:load", () => { if (homeless.length) placeRemarks(homeless); });

// A link to a line loads what holds it, once; then the browser knows where to go.
function findLine() {
  const [, anchor] = location.hash.match(/^#(f\d+)[LR]\d+$/) || [];
  if (!anchor || document.getElementById(location.hash.slice(1))) return;
  one("[data-load]", document.getElementById(anchor) || document.createElement("i"))?.click();
}
function tellUnread() {
  for (const part of all("[data-unread]")) {
    const left = part.dataset.unread - new Set(all("input[name=seen]").map((input) => input.value)).size;
    part.hidden = left <= 0;
    one("b", part).textContent = left;
  }
}
on("htmx:load", () => {
  tellUnread();
  const target = location.hash.match(/^#f\d+[LR]\d+$/) && document.getElementById(location.hash.slice(1));
  if (target && !target.dataset.found) { target.dataset.found = ""; location.replace(location.hash); }
});
on("DOMContentLoaded", () => { findLine(); tellUnread(); });
addEventListener("hashchange", findLine);

// Side by side or not is remembered for the next request.
on("click", ({ target }) => {
  const choice = target.closest("[data-look]");
  if (choice) document.cookie = `view=${choice.dataset.look}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
});
