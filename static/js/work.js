// Work that takes a while shows how far it is: one action on many tasks, and downloads of unknown length.
"use strict";
const AT_ONCE = 5;
const picks = (form) => [...document.querySelectorAll(`[data-pick][form="${form.id}"]`)];
async function doAll(form) {
  const chosen = picks(form).filter((box) => box.checked).map((box) => box.value);
  const [bar, told] = [form.querySelector("progress"), form.querySelector("output")], refused = [];
  bar.max = chosen.length;
  bar.hidden = false;
  for (let at = 0; at < chosen.length; at += AT_ONCE) {
    const body = new FormData(form);
    body.delete("task");
    chosen.slice(at, at + AT_ONCE).forEach((id) => body.append("task", id));
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { Accept: "application/json" } });
    if (!answer.ok || !answer.headers.get("Content-Type").startsWith("application/json")) return HTMLFormElement.prototype.submit.call(form); // The page says why
    refused.push(...(await answer.json()).refused);
    bar.value = Math.min(at + AT_ONCE, chosen.length);
    told.textContent = `${bar.value} of ${chosen.length} done`;
  }
  if (!refused.length) return location.reload();
  told.textContent = `${chosen.length - refused.length} of ${chosen.length} done. ${refused.join(" ")}`;
  picks(form).forEach((box) => { box.checked = false; });
  bar.hidden = true;
  form.querySelectorAll("[aria-busy]").forEach((button) => button.removeAttribute("aria-busy"));
  delete form.dataset.sent;
}
async function save(link) {
  const label = link.textContent, answer = await fetch(link.href);
  if (!answer.ok || !answer.body) return location.assign(link.href);
  const total = Number(answer.headers.get("X-Rows")), parts = [], reader = answer.body.getReader();
  let lines = 0;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    parts.push(piece.value);
    lines += piece.value.filter((byte) => byte === 10).length;
    link.textContent = `${Math.min(lines, total).toLocaleString("en")} of ${total.toLocaleString("en")}`;
  }
  const file = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob(parts)), download: "runs.csv" });
  file.click();
  URL.revokeObjectURL(file.href);
  link.textContent = label;
}
document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-bulk]") && picks(event.target).some((box) => box.checked)) { event.preventDefault(); doAll(event.target); }
});
document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-pick-all]")) picks(target.form).forEach((box) => { box.checked = target.checked; });
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-download]");
  if (link && !event.ctrlKey && !event.metaKey) { event.preventDefault(); save(link); }
});
