// Brings a page to life. Everything works without this, too; then a reload shows what changed.

import {Feed, whenAwake} from "./live.js";
import {Region} from "./regions.js";
import {apply, reapply} from "./frames.js";
import {localize} from "./times.js";
import {followLog} from "./log.js";

const SLOW = 3000;                // milliseconds until what only refines a page is fetched
const SAFETY = 60_000;            // a look at everything, in case a proxy holds the stream back
const page = document.body.dataset;

localize(document);
const regions = [...document.querySelectorAll("[data-region]")].map(element => new Region(element, swapped));
const look = within => regions.forEach(region => region.want(within));

function watch() {
  const feed = new Feed({
    events: page.events, changes: page.changes, only: page.only || null, onState: show, onOpen: () => look(0),
    onFrame(frame) {
      if (page.only) frame.id = page.only;
      noticeNew(frame);
      if (!apply(frame)) look(0);
      else if (frame.version) look(SLOW);
      tellTab();
    },
  });
  whenAwake(feed, () => feed.wake());
  setInterval(() => look(0), SAFETY);
  feed.start();
}

let said;
function swapped() {
  reapply();
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  const state = document.querySelector("[data-title]");
  if (!state) return;
  tellTab();
  if (said && said !== state.dataset.said) document.getElementById("said").textContent = state.dataset.said;
  said = state.dataset.said;
  if ("final" in state.dataset) document.getElementById("live").hidden = true;
}

// The tab says how far the job of the page has come: in its title, and by a ring that closes.
function tellTab() {
  const {title, icon: name, rings} = document.querySelector("[data-title]")?.dataset || {};
  if (!title) return;
  const percent = document.querySelector("[data-rings] [data-bar]")?.getAttribute("value");
  const words = `${title.replace("{percent}", percent ?? 0)} · Accepted`;
  if (document.title !== words) document.title = words;
  const icon = document.getElementById("tab-icon");
  const wanted = title.includes("{percent}") && percent
    ? rings.replace("{percent}", percent - percent % 5) : icon.dataset[name];
  if (icon.getAttribute("href") !== wanted) icon.href = wanted;
}

function show(state) {
  const light = document.getElementById("live");
  light.hidden = false;
  light.dataset.state = state;
  light.lastElementChild.textContent = light.dataset[state];
}

// A list stays put while new jobs arrive; it only says how many.
const unseen = new Set();
function noticeNew(frame) {
  const note = document.getElementById("newer");
  if (!note) return;
  const newest = Math.max(0, ...[...document.querySelectorAll("[data-job]")].map(row => Number(row.dataset.job)));
  if (Number(frame.id) <= newest) return;
  unseen.add(frame.id);
  note.hidden = false;
  const {one, many} = note.dataset;
  note.firstElementChild.textContent = unseen.size === 1 ? one : many.replace("{n}", unseen.size);
}

function comforts() {
  document.addEventListener("click", async event => {
    const button = event.target.closest?.("[data-copy]");
    if (button) await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", event => {
    const menu = event.key === "Escape" && document.querySelector(".menu[open]");
    if (menu) {
      menu.open = false;
      menu.firstElementChild.focus();
    }
  });
  const choices = document.querySelector(".menu form");
  if (choices) {
    choices.querySelector("button").hidden = true;
    choices.addEventListener("change", () => choices.requestSubmit());
  }
  for (const zone of document.querySelectorAll("[data-zone]")) zone.value ||= new Date().getTimezoneOffset();
  const every = document.querySelector("[data-pick-all]");
  if (every) {
    every.hidden = false;
    every.addEventListener("change", () => {
      for (const one of document.querySelectorAll("[name=ids]")) one.checked = every.firstElementChild.checked;
    });
  }
  const log = document.getElementById("log-panel");
  if (log) followLog(log);
  let sent = false;
  document.addEventListener("submit", event => {   // one press, one job
    if (event.target.method !== "post") return;
    if (sent) event.preventDefault();
    sent = true;
  });
  addEventListener("pageshow", () => sent = false);
}

if (page.events && regions.length) watch();
swapped();
comforts();
