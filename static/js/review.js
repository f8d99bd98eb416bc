// The review page beyond app.js: remarks beside their lines, links to lines that are not loaded yet, how changes are shown.
"use strict";

// A remark moves below the line that was clicked; it stays the form's own field, so it posts as it would without script.
function remarkOn(row, file, number, side) {
  const blank = one("details[data-remark]:not([data-placed])", file), table = row.closest("table");
  if (!blank) return;
  const fresh = blank.cloneNode(true), place = table.insertRow(row.rowIndex + 1);
  blank.after(fresh);
  place.className = "remark-row";
  place.insertCell().colSpan = 4;
  place.cells[0].append(blank);
  blank.dataset.placed = "";
  blank.open = true;
  one("[name=remark_line]", blank).value = number;
  one("[name=remark_side]", blank).value = side;
  one("textarea", blank).focus();
}
on("click", (event) => {
  const link = event.target.closest(".diff .n a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const [, side, number] = link.hash.match(/([LR])(\d+)$/) || [], file = link.closest(".file");
  if (!file || !one("[data-remark]", file)) return;
  event.preventDefault();
  history.replaceState(history.state, "", link.hash);
  remarkOn(link.closest("tr"), file, number, side === "L" ? "old" : "new");
});
on("keydown", (event) => { // An empty remark goes away as it came
  const remark = event.key === "Escape" && event.target.closest("[data-placed]");
  if (!remark || one("textarea", remark).value) return;
  const file = remark.closest(".file");
  remark.closest("tr").remove();
  one("[data-open]", file)?.focus();
});
keys.l = () => {
  const remark = one("details[data-remark]:not([data-placed])", document.activeElement.closest(".file") || document.createElement("i"));
  if (remark) { remark.open = true; one("[name=remark_line]", remark).focus(); }
};

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
