// The worker that the tabs of a browser share: one stream for all of them, since a browser has few connections for one
// host. It knows each tab by its port; a tab says "hello" when it wants to hear, and "bye" when it will not listen.

import {Feed, whenAwake} from "./live.js";

const {searchParams} = new URL(self.location);
const ports = new Set();
let state;
const tell = message => ports.forEach(port => port.postMessage(message));

const feed = new Feed({
  events: searchParams.get("events"), changes: searchParams.get("changes"), only: null,
  onFrame: frame => tell({frame}),
  onOpen: () => tell({open: true}),
  onState: next => tell({state: state = next}),
});
whenAwake(() => ports.size && feed.wake());

self.onconnect = ({ports: [port]}) => {
  port.onmessage = ({data}) => {
    if (data === "bye") ports.delete(port);
    else ports.add(port);
    if (!ports.size) {
      state = undefined;
      feed.stop();
    }
    if (data === "bye") return;
    feed.start();                 // unless it runs
    port.postMessage({state, open: state === "live" || state === "polling"});
  };
};
