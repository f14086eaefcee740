// Parts of a page that the server renders anew and this script swaps. What stays the same is left alone, so that focus,
// selection, folds, scrolling and a playing video survive; what is marked data-own looks after itself.

import {localize} from "./times.js";

const PACE = 350;                 // milliseconds between two fetches of a region, at least
const LONGEST_PAUSE = 30_000;

export class Region {
  // onSwap() runs after each swap.
  constructor(element, onSwap) {
    this.element = element;
    this.onSwap = onSwap;
    this.pause = 0;
    this.due = Infinity;
    this.earliest = 0;
    document.addEventListener("visibilitychange", () => this.plan());
  }

  // Fetch it again, at the latest `within` milliseconds from now if the pace allows; several wishes become one.
  want(within = 0) {
    this.due = Math.min(this.due, Date.now() + within);
    this.plan();
  }

  plan() {
    clearTimeout(this.timer);
    if (this.due === Infinity || this.busy || document.hidden) return;
    this.timer = setTimeout(() => this.fetch(), Math.max(0, Math.max(this.due, this.earliest) - Date.now()));
  }

  async fetch() {
    this.busy = true;
    this.due = Infinity;
    try {
      const answer = await fetch(this.element.dataset.src, {cache: "no-store", headers: {Accept: "text/html"}});
      if ([401, 404, 410].includes(answer.status)) return location.reload(); // the page itself says what is the matter
      if (!answer.ok) throw new Error(answer.status);
      this.swap(await answer.text());
      this.pause = 0;
    } catch {
      this.pause = Math.min(LONGEST_PAUSE, 2 * this.pause || 1000);
      this.due = Math.min(this.due, Date.now() + this.pause * (0.5 + Math.random() / 2));
    } finally {
      this.busy = false;
      this.earliest = Date.now() + PACE;
      this.plan();
    }
  }

  swap(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").body;
    localize(fresh);
    morph(this.element, fresh);
    this.onSwap();
  }
}

// Make the children of `mine` like those of `fresh`, keeping every node that can be kept.
function morph(mine, fresh) {
  const wanted = new Set([...fresh.children].map(child => child.id).filter(Boolean));
  const known = new Map();
  for (const child of [...mine.children]) {
    if (!child.id) continue;
    if (wanted.has(child.id)) known.set(child.id, child);
    else child.remove();
  }
  let here = mine.firstChild;
  for (const want of [...fresh.childNodes]) {
    const found = want.id ? known.get(want.id) : here && !here.id && here;
    if (!found || !alike(found, want)) {
      mine.insertBefore(want, here);
      continue;
    }
    if (found === here) here = here.nextSibling;
    else mine.insertBefore(found, here);
    renew(found, want);
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;

function renew(mine, fresh) {
  if (mine.nodeType !== Node.ELEMENT_NODE) {
    if (mine.data !== fresh.data) mine.data = fresh.data;
    return;
  }
  if (mine.isEqualNode(fresh) || "own" in mine.dataset) return;
  const folds = mine.nodeName === "DETAILS";         // the reader's own doing
  for (const {name, value} of fresh.attributes) {
    if (!(folds && name === "open") && mine.getAttribute(name) !== value) mine.setAttribute(name, value);
  }
  for (const {name} of [...mine.attributes]) {
    if (!(folds && name === "open") && !fresh.hasAttribute(name)) mine.removeAttribute(name);
  }
  morph(mine, fresh);
}
