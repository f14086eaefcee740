// The log of a job: follows by a stream of its own while the page is seen, or by asking again where there are no streams;
// finds what is typed among the lines on show. Without this the form searches the whole log on the server.

import {localize} from "./times.js";

const MOST = 2000;                // lines kept on show
const LONGEST = 2000;             // characters of a line, as the server cuts them
const PAUSE = 2000;
const SEATS = 3;                  // tabs of a browser that follow by a stream at a time: it has few connections for a host

export function followLog(panel) {
  const list = panel.querySelector("ol"), search = panel.querySelector("[type=search]");
  const follow = panel.querySelector("[data-follow-switch]"), box = follow.querySelector("input");
  const toEnd = () => list.scrollTop = list.scrollHeight;
  let after = Number(list.lastElementChild?.id.slice(5) || 0);
  let source, timer, release, turn;     // turn: a token, so that what an older start answers is ignored
  if (!location.hash) toEnd();

  function add(lines) {
    const fresh = document.createDocumentFragment();
    for (const line of lines) {
      if (line.id <= after) continue;
      after = line.id;
      fresh.append(row(line));
    }
    localize(fresh);
    for (const one of fresh.children) sift(one);
    list.append(fresh);
    while (list.childElementCount > MOST) list.firstElementChild.remove();
    if (box.checked) toEnd();
  }

  function start() {
    const mine = turn = {};
    takeSeat(free => {
      if (turn !== mine) return free?.();
      release = free;
      free && window.EventSource ? listen(mine) : ask(mine);
    });
  }

  function listen(mine) {
    const waiting = [];
    source = new EventSource(`${panel.dataset.src}?follow=true&after=${after}`);
    source.addEventListener("line", event => {
      if (!waiting.push(JSON.parse(event.data)) || waiting.length > 1) return;
      requestAnimationFrame(() => add(waiting.splice(0)));
    });
    source.addEventListener("done", end);
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return;    // it comes back by itself
      const over = document.querySelector("[data-final]");     // 204: there will be no more
      if (over) end();
      else timer = setTimeout(() => ask(mine), PAUSE);
    };
  }

  async function ask(mine) {
    const over = document.querySelector("[data-final]");
    try {
      const answer = await fetch(`${panel.dataset.src}?after=${after}`, {headers: {Accept: "application/json"}});
      const lines = answer.ok ? (await answer.json()).lines : [];
      if (turn !== mine) return;
      add(lines);
      if (over || [401, 404, 410].includes(answer.status)) return end();
    } catch { /* the network is away; it is asked again */ }
    if (turn === mine) timer = setTimeout(() => ask(mine), PAUSE * (0.75 + Math.random() / 2));
  }

  function pause() {
    turn = null;
    source?.close();
    clearTimeout(timer);
    release?.();
  }

  function end() {
    pause();
    delete panel.dataset.live;
    follow.hidden = true;
  }

  function sift(line) {
    const wanted = search.value.trim().toLowerCase();
    line.hidden = wanted !== "" && !line.lastElementChild.textContent.toLowerCase().includes(wanted);
  }

  search.addEventListener("input", () => {
    for (const line of list.children) sift(line);
    if (box.checked) toEnd();
  });
  if (!("live" in panel.dataset)) return;
  follow.hidden = false;
  box.addEventListener("change", () => box.checked && toEnd());
  list.addEventListener("scroll", () => {
    box.checked = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  });
  // A tab that nobody sees gives its connection to those that are seen: browsers have few of them.
  document.addEventListener("visibilitychange", () => {
    if (!("live" in panel.dataset)) return;
    pause();
    if (!document.hidden) start();
  });
  addEventListener("pagehide", pause);
  addEventListener("pageshow", event => event.persisted && "live" in panel.dataset && start());
  if (!document.hidden) start();
}

// Calls `taken` with what gives the seat back, or with null when all are taken.
function takeSeat(taken, number = 1) {
  if (!navigator.locks) return taken(() => {});
  if (number > SEATS) return taken(null);
  navigator.locks.request(`log ${number}`, {ifAvailable: true},
    lock => lock ? new Promise(taken) : void takeSeat(taken, number + 1));
}

function row({id, at, line}) {
  const item = document.createElement("li"), link = document.createElement("a");
  const time = document.createElement("time"), text = document.createElement("bdi");
  item.id = `line-${id}`;
  link.href = `#line-${id}`;
  time.dateTime = at;
  time.dataset.when = "clock";
  text.textContent = visible(line.slice(0, LONGEST)) + (line.length > LONGEST ? " …" : "");
  link.append(time);
  item.append(link, text);
  return item;
}

// What would be invisible, or would turn the reading direction around, is shown as the server shows it.
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, one => {
    const code = one.codePointAt(0);
    if ("\n\t\u200c\u200d\u00ad\ufeff".includes(one)) return one;
    if (code < 32) return String.fromCharCode(0x2400 + code);
    return code === 127 ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
