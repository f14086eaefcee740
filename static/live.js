// Tells a page what changed: by one stream of server-sent events, or, where streams are not to be had, by long-polling
// the feed of changes. Nothing is lost in between: whoever (re)connects looks at everything once (`onOpen`).

const MOST_FAILURES = 3;          // of a stream in a row, before polling takes over
const POLL_WAIT = 25;             // seconds that the server may hold a poll
const ASLEEP = 20_000;            // a pause of the clock that means that the machine slept
const LONGEST_PAUSE = 30_000;

export class Feed {
  // addresses: {events, changes}; only: the one job that matters, or null;
  // onFrame(frame), onOpen(), onState("live" | "polling" | "waiting" | "ended").
  constructor({events, changes, only, onFrame, onOpen, onState}) {
    Object.assign(this, {events, changes, only, onFrame, onOpen, onState});
    this.failures = 0;
    this.cursor = null;
    this.streamAgainAt = 0;
    this.streamPause = LONGEST_PAUSE;
    this.stopped = true;
  }

  start() {
    if (!this.stopped) return;
    this.stopped = false;
    this.run = {};                // a token: what an older run still answers is ignored
    window.EventSource && Date.now() >= this.streamAgainAt ? this.stream(this.run) : this.poll(this.run);
  }

  stop() {
    this.stopped = true;
    this.run = null;
    this.source?.close();
    this.request?.abort();
  }

  wake() {
    this.stop();
    this.start();
  }

  stream(run) {
    const source = this.source = new EventSource(this.events);
    const tell = event => this.run === run && this.onFrame(JSON.parse(event.data));
    source.onopen = () => {
      this.failures = 0;
      this.streamPause = LONGEST_PAUSE;
      this.onState("live");
      this.onOpen();
    };
    source.addEventListener("progress", tell);
    source.addEventListener("done", event => {
      if (this.only) this.stop(); // the server has said all
      this.onFrame(JSON.parse(event.data));
    });
    source.addEventListener("busy", () => this.onOpen());
    source.onerror = () => {
      if (this.run !== run) return;
      this.onState("waiting");
      this.failures += 1;
      if (source.readyState !== EventSource.CLOSED && this.failures < MOST_FAILURES) return; // it comes back by itself
      source.close();
      this.streamAgainAt = Date.now() + this.streamPause;
      this.streamPause = Math.min(2 * this.streamPause, 600_000);
      this.failures = 0;
      this.poll(run);
    };
  }

  async poll(run) {
    while (this.run === run) {
      try {
        const first = this.cursor === null;
        const query = first ? "" : `?since=${encodeURIComponent(this.cursor)}&wait=${POLL_WAIT}&limit=200`;
        const answer = await this.get(this.changes + query);
        if (this.run !== run) return;
        if (answer.status === 401) return this.end();
        if (answer.status === 410) { this.cursor = null; continue; }
        if (!answer.ok) throw new Refused(answer.headers.get("Retry-After"));
        const {changes, nextCursor, hasMore} = await answer.json();
        if (this.run !== run) return;
        this.cursor = nextCursor;
        this.failures = 0;
        this.onState("polling");
        if (first) this.onOpen();
        for (const change of changes) if (!this.only || change.id === this.only) this.onFrame(change);
        if (window.EventSource && Date.now() >= this.streamAgainAt && this.run === run) return this.stream(run);
        if (!hasMore) await pause(250);
      } catch (error) {
        if (this.run !== run) return;
        this.onState("waiting");
        this.failures += 1;
        const grown = Math.min(LONGEST_PAUSE, 500 * 2 ** this.failures);
        await pause(Math.max((error.seconds || 0) * 1000, grown * (0.5 + Math.random() / 2)));
      }
    }
  }

  get(address) {
    this.request = new AbortController();
    const patience = setTimeout(() => this.request.abort(), (POLL_WAIT + 15) * 1000);
    return fetch(address, {signal: this.request.signal, cache: "no-store", headers: {Accept: "application/json"}})
      .finally(() => clearTimeout(patience));
  }

  end() {
    this.stop();
    this.onState("ended");
  }
}

class Refused extends Error {
  constructor(seconds) {
    super("refused");
    this.seconds = Number(seconds) || 0;
  }
}

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

// Calls `wake` when the machine slept, the network came back, or the page came out of the browser's cache.
export function whenAwake(feed, wake) {
  let last = Date.now(), hiddenAt = 0;
  setInterval(() => {
    const now = Date.now();
    if (now - last > ASLEEP && !document.hidden) wake();
    last = now;
  }, 5000);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hiddenAt = Date.now();
    else if (Date.now() - hiddenAt > 60_000) wake();
    last = Date.now();
  });
  addEventListener("online", wake);
  addEventListener("pagehide", () => feed.stop());
  addEventListener("pageshow", event => event.persisted && wake());
}
