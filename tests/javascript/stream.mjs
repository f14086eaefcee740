// Reads {"url", "key"} from standard input and listens to the stream with the library eventsource, unmodified. It is left to
// reconnect as it likes until the server tells it to stop; prints what it heard.
import { readFileSync } from "node:fs";
import { EventSource } from "eventsource";

const { url, key } = JSON.parse(readFileSync(0, "utf8"));
const heard = { progress: [], done: [], opened: 0 };
const source = new EventSource(url, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${key}` } }),
});
source.addEventListener("open", () => { heard.opened += 1; });
source.addEventListener("progress", (event) => heard.progress.push(JSON.parse(event.data).progress));
source.addEventListener("done", (event) => heard.done.push({ id: event.lastEventId, ...JSON.parse(event.data) }));
await new Promise((resolve) => {
  source.addEventListener("error", (event) => {
    if (source.readyState !== EventSource.CLOSED) return;
    heard.code = event.code;
    resolve();
  });
});
console.log(JSON.stringify(heard));
