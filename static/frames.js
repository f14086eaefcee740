// Moves what a frame of progress says straight into the page: bar, percentage, stage, time left. Only values: whatever
// changes the markup (another status, another attempt, another job) is the server's to render.

const last = new Map();           // job id → the last frame of a job that runs

// Whether the page shows the job as the frame has it: false means that a region must be rendered anew.
export function apply(frame) {
  const before = last.get(frame.id);
  const news = !before || before.status !== frame.status || before.attempt !== frame.attempt;
  if (frame.status === "running") last.set(frame.id, frame);
  else last.delete(frame.id);
  const places = document.querySelectorAll(`[data-job="${CSS.escape(frame.id)}"]`);
  let fits = places.length > 0 || !news;
  for (const place of places) {
    if (place.dataset.status !== frame.status || place.dataset.attempt !== String(frame.attempt)) fits = false;
    else if (frame.status === "running") fill(place, frame);
  }
  return fits;
}

// After a swap: what was rendered may be older than what a frame has told since.
export function reapply() {
  for (const frame of last.values()) {
    for (const place of document.querySelectorAll(`[data-job="${CSS.escape(frame.id)}"][data-status=running]`)) {
      const bar = place.querySelector("[data-bar]");
      if (place.dataset.attempt === String(frame.attempt) && bar && frame.progress > bar.value) fill(place, frame);
    }
  }
}

function fill(place, {progress, stage, eta}) {
  const bar = place.querySelector("[data-bar]");
  if (bar && progress === null) bar.removeAttribute("value");
  else if (bar) bar.setAttribute("value", progress);
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
