// Moves what frames of progress say straight into the page: bar, percentage, stage, time left. Only values: whatever
// changes the markup (another status, another attempt, another job) is the server's to render. However many frames come,
// the page is written once for each picture that the screen shows, with the last frame of each job.

const HIDDEN_PACE = 1000;         // milliseconds; a page that nobody sees has no pictures
const running = new Map();        // job id → its last frame, of jobs that run
let fresh = new Map();            // job id → its last frame, not yet on the page
let planned = 0;

// onNews(id, shown): a job changed in a way that only the server can show; `shown` if the page has it at all.
// onTold(ids): frames of these jobs have been put into the page.
export class Frames {
  constructor({onNews, onTold}) {
    Object.assign(this, {onNews, onTold});
    document.addEventListener("visibilitychange", () => fresh.size && this.write());
  }

  take(frame) {
    if (frame.deleted) frame.status = "deleted";
    const waiting = fresh.get(frame.id);
    if (waiting && waiting.news) frame.news = true;
    const before = waiting || running.get(frame.id);
    if (!before || before.status !== frame.status || before.attempt !== frame.attempt) frame.news = true;
    fresh.set(frame.id, frame);
    if (planned) return;
    planned = document.hidden ? setTimeout(() => this.write(), HIDDEN_PACE) : requestAnimationFrame(() => this.write());
  }

  write() {
    const frames = fresh;
    fresh = new Map();
    planned = 0;
    const places = placesOf(frames);
    for (const [id, frame] of frames) {
      if (frame.status === "running") running.set(id, frame);
      else running.delete(id);
      const here = places.get(id) || [];
      for (const place of here) if (fits(place, frame) && frame.status === "running") fill(place, frame);
      if (here.length ? !here.every(place => fits(place, frame)) : frame.news) this.onNews(id, here.length > 0);
    }
    this.onTold([...frames.keys()].filter(id => places.has(id) && frames.get(id).version));
  }

  // The connection was away: jobs may have ended unheard, and a page that is open for days must not remember them all.
  forget() {
    running.clear();
  }

  // After a swap: what was rendered may be older than what a frame has told since.
  reapply() {
    const places = placesOf(running);
    for (const [id, frame] of running) {
      for (const place of places.get(id) || []) {
        const bar = place.querySelector("[data-bar]");
        if (fits(place, frame) && bar && frame.progress > bar.value) fill(place, frame);
      }
    }
  }
}

function placesOf(frames) {
  const places = new Map();
  for (const place of document.querySelectorAll("[data-job]")) {
    const id = place.dataset.job;
    if (frames.has(id)) places.set(id, [...places.get(id) || [], place]);
  }
  return places;
}

const fits = (place, frame) =>
  place.dataset.status === frame.status && place.dataset.attempt === String(frame.attempt);

function fill(place, {progress, stage, eta}) {
  const bar = place.querySelector("[data-bar]");
  if (bar && progress === null) bar.removeAttribute("value");
  else if (bar && bar.getAttribute("value") !== String(progress)) bar.setAttribute("value", progress);
  if (progress !== null) put(place, "percent", `${progress} %`);
  put(place, "stage", stage || "");
  const holder = place.querySelector("[data-holds=eta]");
  if (holder) {
    holder.hidden = !eta;
    if (eta) holder.querySelector("time").dateTime = eta;
  }
}

function put(place, name, text) {
  const element = place.querySelector(`[data-value=${name}]`);
  if (element && element.textContent !== text) element.textContent = text;
}
