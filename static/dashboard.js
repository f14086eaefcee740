// Brings a page to life. Everything works without this, too; then a reload shows what changed.

import {follow} from "./following.js";
import {Job, Newer, Region, Rows} from "./regions.js";
import {Frames} from "./frames.js";
import {localize} from "./times.js";
import {followLog} from "./log.js";
import {tellTab} from "./tab.js";
import {Notices} from "./notices.js";
import {comforts} from "./comforts.js";
import {uploads} from "./uploads.js";
import {renewPage} from "./edition.js";

const SLOW = 3000;                // milliseconds until what only refines a page is fetched
const SAFETY = 60_000;            // a look at everything, in case a proxy holds the stream back
const KINDS = {job: Job, newer: Newer, rows: Rows};
const page = document.body.dataset;
const log = document.getElementById("log-panel");

localize(document);
const regions = [...document.querySelectorAll("[data-region]")]
  .map(element => new (KINDS[element.dataset.region] || Region)(element, {onSwap, onEdition: renewPage}));
const look = () => regions.forEach(region => region.want());
const heed = (id, shown, within) => regions.forEach(region => region.heed(id, shown, within));

const notices = new Notices(document.getElementById("notify"), page.only);
const frames = new Frames({
  onNews: (id, shown) => heed(id, shown, 0),
  onTold(ids) {
    for (const id of ids) heed(id, true, SLOW);
    tellTab();
  },
});

let end = () => {};              // status → nothing: the job of the page has ended
function watch() {
  const stop = follow(page, {
    onState: show,
    onOpen() {
      frames.forget();
      look();
    },
    onFrame(frame) {
      notices.take(frame);
      frames.take(frame);
    },
  });
  const safety = setInterval(look, SAFETY);
  end = status => {
    stop();
    clearInterval(safety);
    document.getElementById("live").hidden = true;
    notices.end(status);
  };
}

let said;
function onSwap() {
  frames.reapply();
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  const state = document.querySelector("[data-title]");
  if (!state) return;
  tellTab();
  if (said && said !== state.dataset.said) document.getElementById("said").textContent = state.dataset.said;
  said = state.dataset.said;
  if ("final" in state.dataset) end(state.dataset.status);
}

function show(state) {
  const light = document.getElementById("live");
  light.hidden = false;
  light.dataset.state = state;
  const words = light.dataset[state];
  if (light.lastElementChild.textContent !== words) light.lastElementChild.textContent = words;
}

if (page.events && regions.length) watch();
onSwap();
comforts();
uploads(document);
if (log) followLog(log);
