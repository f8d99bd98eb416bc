// The run's page beyond app.js: a link to an event lands on the sentence that tells it, in whichever window of the story it stands.
"use strict";
const wanted = () => (/^#e(\d+)$/.exec(location.hash) || [])[1];
function land() {
  const number = Number(wanted());
  if (!number) return;
  const covers = ({ dataset }) => Number(dataset.from) <= number && number <= Number(dataset.to);
  const item = [...document.querySelectorAll(".tl > li[data-from]")].find(covers);
  const address = new URL(location);
  if (item) {
    item.scrollIntoView({ block: "center" });
    item.tabIndex = -1;
    item.focus({ preventScroll: true });
    item.dataset.landed = "";
  } else if (address.searchParams.get("at") !== String(number) || address.searchParams.get("show") !== "all") {
    address.search = `?at=${number}&show=all`; // Asked for once: what is nowhere told stays where it is
    location.replace(address);
  }
}
addEventListener("hashchange", land);
addEventListener("DOMContentLoaded", land);

keys.f = () => { // Past the last failure here to the next in another window of the log
  const after = (item) => document.activeElement.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_FOLLOWING;
  const next = all("[data-failure]").find(after);
  if (next) next.focus(); else one("[data-next-failure]")?.click();
};
