// Comfort only: every page reads and posts without this file. Hooks are data attributes, never handlers in the markup.
"use strict";
const root = document.documentElement, one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const on = (name, act, capture = false) => document.addEventListener(name, act, capture);
const stored = (area, key, value) => { // Storage may be forbidden; then a preference lasts as long as the page
  try { return value === undefined ? area.getItem(key) : value ? area.setItem(key, value) : area.removeItem(key); } catch { return null; }
};
root.dataset.js = "";

function prefer(name, value) { // scheme, clock, keys; applied before the first paint
  root.dataset[name] = value || "";
  all(`[data-set="${name}"]`).forEach((button) => button.setAttribute("aria-pressed", String(button.value === (value || ""))));
}
const preferences = () => ["scheme", "clock", "keys"].forEach((name) => prefer(name, stored(localStorage, name)));
preferences();

// Times: the server writes them exact, here they become relative and keep the exact one as their title.
function relative(at, local) {
  const seconds = Math.round((at - Date.now()) / 1000), size = Math.abs(seconds);
  if (size < 5) return "now";
  if (size >= 14 * 86400) return local ? at.toLocaleDateString("sv") : at.toISOString().slice(0, 10); // Sweden's are ISO's, too
  const [unit, of] = size < 60 ? [1, "s"] : size < 3600 ? [60, "min"] : size < 86400 ? [3600, "h"] : [86400, "d"];
  return `${seconds < 0 ? "" : "in "}${Math.floor(size / unit)} ${of}${seconds < 0 ? " ago" : ""}`;
}
function tellTimes(within = document) {
  for (const time of all("time[data-relative], time[data-clock]", within)) {
    const at = new Date(time.dateTime), local = root.dataset.clock === "local";
    time.dataset.exact ??= time.textContent;
    time.title = local ? at.toLocaleString([], { dateStyle: "medium", timeStyle: "long" }) : "clock" in time.dataset ? time.dateTime : time.dataset.exact;
    time.textContent = "relative" in time.dataset ? relative(at, local) : local ? at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", timeZoneName: "short" }) : time.dataset.exact;
  }
}

// Viewed boxes, by digest: another patch has other digests, so its boxes start empty.
const viewed = new Set(JSON.parse(stored(localStorage, "viewed") || "[]"));
function showViewed() {
  const boxes = all("[data-viewed-box]");
  boxes.forEach((box) => box.closest(".file").toggleAttribute("data-viewed", box.checked = viewed.has(box.dataset.viewedBox)));
  all("[data-viewed-count]").forEach((place) => { place.textContent = `${boxes.filter((box) => box.checked).length} of ${place.dataset.viewedCount || boxes.length} viewed`; });
}

// Drafts outlive a lost session: a sent one is dropped only when the next page was not the sign-in.
const draftKey = (area) => `draft:${area.dataset.draft || location.pathname}:${area.name}`; // A newer request of the same task takes it over
function restoreDrafts() {
  if (!("signedIn" in document.body.dataset)) return stored(sessionStorage, "signing-in", "1");
  const sent = stored(sessionStorage, "sent"), returned = stored(sessionStorage, "signing-in");
  if (sent && !returned) JSON.parse(sent).forEach((key) => stored(sessionStorage, key, ""));
  ["sent", "signing-in"].forEach((key) => stored(sessionStorage, key, ""));
  for (const area of all("[data-draft]")) area.value ? stored(sessionStorage, draftKey(area), area.value) : area.value = stored(sessionStorage, draftKey(area)) || "";
}

// Live parts: <div id data-live="url">, replaced by its own newer self; an answer without data-live is the last one.
let lastHeard = Date.now(), lastSaid = ["", 0];
const signedOut = () => { one("#signed-out a").href = `${document.body.dataset.login}?next=${encodeURIComponent(location.pathname + location.search)}`; one("#signed-out").hidden = false; };
const atSignIn = (url) => new URL(url, location).pathname === document.body.dataset.login && location.pathname !== document.body.dataset.login;
const heard = (well) => { lastHeard = well ? Date.now() : lastHeard; one("#away").hidden = Date.now() - lastHeard < 5000; };
function occupied(part) { // Never wipe what somebody types or has selected
  const active = document.activeElement, selection = getSelection();
  return (part.contains(active) && active.matches("textarea, select, input:not([type=checkbox])")) || all("textarea:not([data-draft][id])", part).some((area) => area.value !== area.defaultValue) || one("[data-pick]:checked", part)
    || (!selection.isCollapsed && part.contains(selection.anchorNode));
}
function replacePart(part, text, etag) {
  const frame = Object.assign(document.createElement("template"), { innerHTML: text });
  const focused = part.contains(document.activeElement) && document.activeElement.id, fresh = frame.content.getElementById(part.id);
  if (!fresh) return;
  const atEnd = scrollY + innerHeight > root.scrollHeight - 80;
  const follow = one("[data-follow]", part)?.checked;
  all("details[open][data-keep], textarea[data-draft]", part).forEach((kept) => frame.content.getElementById(kept.id)?.replaceWith(kept));
  if (follow && one("[data-follow]", fresh)) one("[data-follow]", fresh).checked = true;
  fresh.dataset.etag = etag || "";
  part.replaceWith(fresh); window.htmx?.process(fresh); enhance(fresh);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  if (atEnd && one("[data-follow]")?.checked) scrollTo(0, root.scrollHeight); // Only for one who reads the end already
  say(one("[data-announce]", fresh)?.textContent);
}
function say(text) { // Screen readers hear the newest, at most every 5 s
  if (text && text !== lastSaid[0] && Date.now() - lastSaid[1] > 5000) { one("#announce").textContent = text; lastSaid = [text, Date.now()]; }
}
async function refresh(part) {
  const headers = { "HX-Request": "true", ...(part.dataset.etag && { "If-None-Match": part.dataset.etag }) };
  const answer = await fetch(part.dataset.live, { headers, cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (answer.status >= 500) throw new Error(answer.statusText);
  heard(true);
  if (answer.status === 401 || atSignIn(answer.url)) { signedOut(); return part.removeAttribute("data-live"); }
  if (answer.status === 304) return;
  if (!answer.ok) return part.removeAttribute("data-live");
  const text = await answer.text();
  if (part.isConnected && !occupied(part)) replacePart(part, text, answer.headers.get("ETag"));
}
async function beat() { // One request at a time: a late answer can not undo a newer one
  if (!document.hidden) for (const part of all("[data-live]")) if (!occupied(part)) await refresh(part).catch(() => heard(false));
  setTimeout(beat, 2000);
}
on("visibilitychange", () => { lastHeard = Date.now(); });
on("htmx:beforeSwap", ({ detail }) => { if (detail.xhr.status === 401 || atSignIn(detail.xhr.responseURL)) { detail.shouldSwap = false; signedOut(); } else heard(true); });
on("htmx:afterRequest", ({ detail }) => { release(detail.elt); heard(detail.xhr.status > 0); });
on("htmx:load", ({ detail }) => enhance(detail.elt));

// Keys move and focus; none decides. A decision takes a second press, on its button.
function step(selector, by) {
  const items = all(selector).filter((item) => item.offsetParent), at = items.findIndex((item) => item.contains(document.activeElement));
  const item = items[Math.min(Math.max(at + by, 0), items.length - 1)];
  if (item) (one("[data-open]", item) || item).focus();
}
const keys = {
  "?": () => one("#keys").showModal(), "/": () => one("[data-search]")?.focus(), f: () => step("[data-failure]", 1), j: () => step("[data-item]", 1), k: () => step("[data-item]", -1),
  v: () => one("[data-viewed-box]", document.activeElement.closest(".file") || document.createElement("i"))?.click(),
};
on("keydown", (event) => {
  if (event.key === "Escape") all("details:is(.menu, .ask)[open]").forEach(close);
  const typing = event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, dialog, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || root.dataset.keys === "off") return;
  const button = one(`[data-key="${CSS.escape(event.key)}"]:not(:disabled)`), reason = button?.form?.elements.comment;
  const act = button ? () => (reason?.required && !reason.value && !button.formNoValidate ? reason : button).focus() : keys[event.key];
  if (act) { event.preventDefault(); act(); }
});

const close = (menu) => { const inside = menu.contains(document.activeElement); menu.open = false; if (inside) one("summary", menu).focus(); };
const release = (form) => { delete form.dataset.sent; all("[aria-busy]", form).forEach((button) => button.removeAttribute("aria-busy")); };
on("click", ({ target }) => {
  all("details:is(.menu, .ask)[open]").forEach((menu) => { if (!menu.contains(target) || target.closest("[data-close]")) close(menu); });
  const set = target.closest("[data-set]"), copy = target.closest("[data-copy]");
  if (set) { stored(localStorage, set.dataset.set, set.value); prefer(set.dataset.set, set.value); tellTimes(); }
  if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => { one("#announce").textContent = "Copied"; copy.classList.add("done"); setTimeout(() => copy.classList.remove("done"), 1500); });
  if (target.closest("[data-help]")) one("#keys").showModal();
});
on("toggle", ({ target: menu }) => {
  if (!menu.open || !menu.matches(".ask")) return;
  one(".pop", menu).toggleAttribute("data-left", one(".pop", menu).getBoundingClientRect().left < 0);
  one("textarea", menu)?.focus();
}, true);
on("change", ({ target: box }) => {
  if (!box.dataset.viewedBox) return;
  viewed[box.checked ? "add" : "delete"](box.dataset.viewedBox);
  stored(localStorage, "viewed", JSON.stringify([...viewed].slice(-2000)));
  showViewed();
});
on("input", ({ target }) => { if (target.matches("[data-draft]")) stored(sessionStorage, draftKey(target), target.value); });
on("submit", (event) => { // The second click of a double click sends nothing
  const form = event.target;
  if (form.method !== "post" || form.dataset.sent) return form.dataset.sent && event.preventDefault();
  form.dataset.sent = "1";
  event.submitter?.setAttribute("aria-busy", "true");
  stored(sessionStorage, "sent", JSON.stringify(all("[data-draft]", form).map(draftKey)));
});
addEventListener("pageshow", (event) => { if (event.persisted) all("form[data-sent]").forEach(release); });
function enhance(within) { tellTimes(within); showViewed(); }
on("DOMContentLoaded", () => { preferences(); restoreDrafts(); enhance(document); setInterval(tellTimes, 15000); setTimeout(beat, 2000); });
