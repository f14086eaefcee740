// Tells what changed: by one stream of server-sent events, or, where streams are not to be had, by long-polling the feed
// of changes. Nothing is lost in between: whoever (re)connects looks at everything once (`onOpen`). Runs in a page or in
// the worker that pages share.

const MOST_FAILURES = 3;          // of a stream in a row, before polling takes over
const POLL_WAIT = 25;             // seconds that the server may hold a poll
const ASLEEP = 20_000;            // a pause of the clock that means that the machine slept
const LONGEST_PAUSE = 30_000;
const SILENCE = 60_000;           // of a stream, after which it is asked whether there was nothing to say
const DOUBT = 10_000;             // for what it was asked for to come by the stream after all

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
    self.EventSource && performance.now() >= this.streamAgainAt ? this.stream(this.run) : this.poll(this.run);
  }

  stop() {
    this.stopped = true;
    this.run = null;
    clearTimeout(this.doubt);
    this.source?.close();
    this.request?.abort();
  }

  wake() {
    this.stop();
    this.start();
  }

  stream(run) {
    const source = this.source = new EventSource(this.events);
    const tell = event => {
      if (this.run !== run) return;
      this.listen(run);
      const {id = this.only, status, progress, stage, eta, attempt, version} = JSON.parse(event.data);
      this.onFrame({id, status, progress, stage, eta, attempt, version});
    };
    source.onopen = () => {
      if (this.run !== run) return;
      this.failures = 0;
      this.streamPause = LONGEST_PAUSE;
      this.listen(run);
      this.onState("live");
      this.onOpen();
    };
    source.addEventListener("progress", tell);
    source.addEventListener("done", event => {
      tell(event);
      if (this.only && this.run === run) this.stop();   // the server has said all
    });
    source.addEventListener("busy", () => this.onOpen());
    source.onerror = () => {
      if (this.run !== run) return;
      clearTimeout(this.doubt);
      this.onState("waiting");
      this.failures += 1;
      if (source.readyState !== EventSource.CLOSED && this.failures < MOST_FAILURES) return; // it comes back by itself
      source.close();
      this.streamAgainAt = performance.now() + this.streamPause;
      this.streamPause = Math.min(2 * this.streamPause, 600_000);
      this.failures = 0;
      this.poll(run);
    };
  }

  // A connection can die without a word: a network was changed, a router forgot it. So a stream that is silent for long
  // is checked against the feed, and opened anew if it did not tell what the feed tells.
  listen(run) {
    this.heard = {};
    this.since = null;
    this.missed = false;
    clearTimeout(this.doubt);
    this.doubt = setTimeout(() => this.check(run), SILENCE);
  }

  async check(run) {
    const {heard} = this, current = () => this.run === run && this.heard === heard;
    try {
      const answer = await this.get(this.changes + (this.since ? `?since=${encodeURIComponent(this.since)}&limit=200` : ""));
      const {changes = [], nextCursor} = answer.ok ? await answer.json() : {};
      const news = changes.some(change => !this.only || change.id === this.only);
      if (!current()) return;
      if (news && this.missed) return this.wake();
      this.missed = news;         // what has just happened may still be on its way
      if (!news) this.since = nextCursor || null;
    } catch { /* the stream's own errors tell of a network that is away */ }
    if (current()) this.doubt = setTimeout(() => this.check(run), this.missed ? DOUBT : SILENCE);
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
        if (self.EventSource && performance.now() >= this.streamAgainAt && this.run === run) return this.stream(run);
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
    const request = this.request = new AbortController();
    const patience = setTimeout(() => request.abort(), (POLL_WAIT + 15) * 1000);
    return fetch(address, {signal: request.signal, cache: "no-store", headers: {Accept: "application/json"}})
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

// Calls `wake` when the machine slept or the network came back, until the signal is given.
export function whenAwake(wake, {signal} = {}) {
  let last = Date.now();
  const watch = setInterval(() => {
    const now = Date.now();
    if (now - last > ASLEEP && !self.document?.hidden) wake();   // timers of hidden pages are slow by themselves
    last = now;
  }, 5000);
  self.document?.addEventListener("visibilitychange", () => last = Date.now(), {signal});
  addEventListener("online", wake, {signal});
  signal?.addEventListener("abort", () => clearInterval(watch));
}
