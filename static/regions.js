// Parts of a page that the server renders anew and this script swaps. What stays the same is left alone, so that focus,
// selection, folds, scrolling and a playing video survive; what is marked data-own looks after itself.

import {localize, setClock} from "./times.js";

const PACE = 350;                 // milliseconds between two fetches of a region, at least
const SHARE = 4;                  // … and so many times what one takes, lest a slow server be kept busy by those who look
const HIDDEN_PACE = 15_000;       // while nobody sees the page: its title still tells
const LONGEST_PAUSE = 30_000;

export class Region {
  // onSwap() runs after each swap, onEdition(edition) when the server has changed its pages since this one was made.
  constructor(element, {onSwap, onEdition}) {
    Object.assign(this, {element, onSwap, onEdition});
    this.pause = 0;
    this.due = Infinity;
    this.last = this.took = -Infinity;
    document.addEventListener("visibilitychange", () => this.plan());
  }

  // A job has changed; `shown` tells whether the page has it.
  heed(id, shown, within = 0) {
    this.want(within);
  }

  // Fetch it again, at the latest `within` milliseconds from now if the pace allows; several wishes become one.
  want(within = 0) {
    const due = performance.now() + within;
    if (due >= this.due) return;
    this.due = due;
    this.plan();
  }

  // The address to fetch, or null when there is nothing to ask for.
  ask() {
    return this.element.dataset.src;
  }

  plan() {
    clearTimeout(this.timer);
    if (this.due === Infinity || this.busy || this.over) return;
    this.timer = setTimeout(() => this.fetch(), Math.max(0, Math.max(this.due, this.last + this.pace) - performance.now()));
  }

  get pace() {
    return document.hidden ? HIDDEN_PACE : Math.max(PACE, SHARE * this.took);
  }

  async fetch() {
    this.due = Infinity;
    const address = this.ask(), began = performance.now();
    if (!address) return;
    this.busy = true;
    try {
      const answer = await fetch(address, {cache: "no-store", headers: {Accept: "text/html"}});
      if ([401, 404, 410].includes(answer.status)) {     // the page itself says what is the matter
        this.over = true;
        return location.reload();
      }
      if (!answer.ok) throw new Error(answer.status);
      const html = await answer.text();
      setClock(answer.headers.get("Date"));
      this.swap(html);
      this.pause = 0;
      this.onEdition(answer.headers.get("Edition"));
    } catch {
      this.refused();
      this.pause = Math.min(LONGEST_PAUSE, 2 * this.pause || 1000);
      this.due = Math.min(this.due, performance.now() + this.pause * (0.5 + Math.random() / 2));
    } finally {
      this.busy = false;
      this.last = performance.now();
      this.took = this.last - began;
      this.plan();
    }
  }

  refused() {}

  swap(html) {
    morph(this.element, parse(html));
    this.onSwap();
  }
}

// All about one job. Its states are few, and the title of a tab that nobody sees tells them at once.
export class Job extends Region {
  heed(id, shown, within) {
    this.want(document.hidden && within ? HIDDEN_PACE : within);
  }

  get pace() {
    return Math.max(PACE, SHARE * this.took);
  }
}

// The note of what is not on the page.
export class Newer extends Region {
  heed(id, shown, within) {
    if (!shown) this.want(within);
  }
}

// The rows of a list that stays put: only those that changed are asked for, and only while they are on the screen.
export class Rows extends Region {
  constructor(element, handlers) {
    super(element, handlers);
    this.rows = new Map([...element.querySelectorAll("[data-job]")].map(row => [row.dataset.job, row]));
    this.stale = new Set();
    this.seen = new Set();
    const watch = new IntersectionObserver(entries => {
      for (const {target, isIntersecting} of entries) this.seen[isIntersecting ? "add" : "delete"](target.dataset.job);
      if (this.stale.size) super.want();
    }, {rootMargin: "25%"});
    for (const row of this.rows.values()) watch.observe(row);
  }

  heed(id, shown, within = 0) {
    if (!this.rows.has(id)) return;
    this.stale.add(id);
    if (this.seen.has(id)) super.want(within);
  }

  want(within) {
    this.stale = new Set(this.rows.keys());
    super.want(within);
  }

  ask() {
    this.asked = [...this.stale].filter(id => this.seen.has(id));
    for (const id of this.asked) this.stale.delete(id);
    return this.asked.length ? this.element.dataset.src + this.asked.join(",") : null;
  }

  refused() {
    for (const id of this.asked) this.stale.add(id);
  }

  swap(html) {
    const fresh = parse(html);
    for (const id of this.asked) {
      const row = this.rows.get(id), now = fresh.querySelector(`[data-job="${id}"]`);
      if (now) renew(row, now);
      else if (this.rows.delete(id)) row.remove();
    }
    this.onSwap();
  }
}

function parse(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").body;
  localize(fresh);
  return fresh;
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
