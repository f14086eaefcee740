// Times in the reader's zone and language; the exact instant on hover. The server's clock is the one that counts.

const root = document.documentElement;
const language = root.lang;
let offset = 0;
const now = () => Date.now() + offset;

// The server's time of this moment, as text.
export function setClock(said) {
  const skew = Date.parse(said) - Date.now();
  if (Math.abs(skew - offset) > 2000) offset = Math.abs(skew) > 2000 ? skew : 0;   // less is the way from there to here
}
setClock(root.dataset.now);

const relative = new Intl.RelativeTimeFormat(language, {numeric: "auto", style: "short"});
const two = "2-digit";
const clock = new Intl.DateTimeFormat(language, {hour: two, minute: two, second: two, hourCycle: "h23"});
const day = new Intl.DateTimeFormat(language, {month: "short", day: "numeric"});
const full = new Intl.DateTimeFormat(language, {dateStyle: "medium", timeStyle: "medium", hourCycle: "h23"});
const exact = new Intl.DateTimeFormat(language, {dateStyle: "full", timeStyle: "long", hourCycle: "h23"});
const UNITS = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [7 * 86400, "day", 86400]];

export function localize(tree) {
  for (const time of tree.querySelectorAll("time[data-when], time[data-tick]")) {
    const instant = Date.parse(time.dateTime);
    if (Number.isNaN(instant)) continue;
    put(time, time.dataset.tick ? ticking(instant, time.dataset.tick) : words(instant, time.dataset.when));
    const title = `${exact.format(instant)} · ${time.dateTime}`;
    if (time.title !== title) time.title = title;
  }
}

setInterval(() => {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[data-tick]")) {
    const instant = Date.parse(time.dateTime);
    put(time, ticking(instant, time.dataset.tick));
    const holder = time.dataset.tick === "left" && instant < now() && time.closest("[data-holds]");
    if (holder) holder.hidden = true;   // an estimate that did not hold says nothing
  }
}, 1000);
setInterval(() => {
  if (document.hidden) return;
  const passing = document.querySelectorAll("time[data-when=ago]");
  for (const time of passing) put(time, words(Date.parse(time.dateTime), "ago"));
}, 10_000);

function put(time, text) {
  if (time.textContent !== text) time.textContent = text;
}

function words(instant, how) {
  if (how === "full") return full.format(instant);
  if (how === "clock") return (sameDay(instant) ? "" : `${day.format(instant)} `) + clock.format(instant);
  const seconds = (instant - now()) / 1000;
  if (Math.abs(seconds) < 5) return relative.format(0, "second");
  for (const [below, unit, length] of UNITS) {
    if (Math.abs(seconds) < below) return relative.format(Math.round(seconds / length) || Math.sign(seconds), unit);
  }
  return full.format(instant);
}

function sameDay(instant) {
  return new Date(instant).toDateString() === new Date(now()).toDateString();
}

// As the server writes it: 0:42, 1:05:09.
function ticking(instant, to) {
  const whole = Math.max(0, Math.round((to === "left" ? instant - now() : now() - instant) / 1000));
  const [hours, minutes, seconds] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const padded = number => String(number).padStart(2, "0");
  return hours ? `${hours}:${padded(minutes)}:${padded(seconds)}` : `${minutes}:${padded(seconds)}`;
}
