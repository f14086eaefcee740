// How a page hears of changes: through the worker that all tabs share, or, where there is none, by a feed of its own.

import {Feed, whenAwake} from "./live.js";

const PATIENCE = 15_000;          // for the worker to answer
const LONG_AWAY = 60_000;

// page: the addresses on <body>; told: onFrame(frame), onOpen(), onState(state), as of a Feed. Gives what ends it for good.
export function follow(page, told) {
  const heard = {...told, onFrame: frame => (!page.only || frame.id === page.only) && told.onFrame(frame)};
  const tab = new AbortController(), when = {signal: tab.signal};
  let way = self.SharedWorker && self.EventSource && shared(page, heard, lost) || own(page, heard);

  function lost() {
    way.stop();
    way = own(page, heard);
    if (!tab.signal.aborted) way.start();
  }

  let hiddenAt = 0;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hiddenAt = Date.now();
    else if (Date.now() - hiddenAt > LONG_AWAY) way.wake();
  }, when);
  whenAwake(() => way.wake(), when);
  document.addEventListener("freeze", () => way.stop(), when);
  document.addEventListener("resume", () => way.start(), when);
  addEventListener("pagehide", () => way.stop(), when);
  addEventListener("pageshow", event => event.persisted && way.start(), when);
  way.start();
  return () => {
    tab.abort();
    way.stop();
  };
}

const own = ({events, ownEvents, changes, only}, told) =>
  new Feed({events: ownEvents || events, changes, only: only || null, ...told});

// The same three verbs as a Feed has; null where the browser does not let us have a worker.
function shared({events, changes, reader}, told, lost) {
  const address = new URL("./shared.js", import.meta.url);
  address.search = new URLSearchParams({events, changes});
  let worker, patience;
  try {
    worker = new SharedWorker(address, {type: "module", name: reader});   // another reader has a worker of their own
  } catch {
    return null;
  }
  function giveUp() {
    clearTimeout(patience);
    worker.onerror = worker.port.onmessage = null;
    lost();
  }
  worker.onerror = giveUp;
  worker.port.onmessage = ({data: {state, open, frame}}) => {
    clearTimeout(patience);
    if (state) told.onState(state);
    if (open) told.onOpen();
    if (frame) told.onFrame(frame);
  };
  const hello = () => {
    clearTimeout(patience);
    patience = setTimeout(giveUp, PATIENCE);
    worker.port.postMessage("hello");
  };
  return {start: hello, wake: hello, stop: () => (clearTimeout(patience), worker.port.postMessage("bye"))};
}
