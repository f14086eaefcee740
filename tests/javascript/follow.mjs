// Reads {"url", "key", "body", "without", "via", "cancel"} from standard input, submits a job and follows it with the
// poller of @azure/core-lro, unmodified; prints {"status", "result"} or {"status", "code", "message"}.
//
// `without` names headers that do not get through to the poller, `via` is its resourceLocationConfig, `cancel` the base of
// the address to be called by DELETE once the poller has begun.
import { readFileSync } from "node:fs";
import { createHttpPoller } from "@azure/core-lro";
import {
  createDefaultHttpClient, createEmptyPipeline, createHttpHeaders, createPipelineRequest, defaultRetryPolicy, redirectPolicy,
} from "@azure/core-rest-pipeline";

const { url, key, body, without = [], via, cancel } = JSON.parse(readFileSync(0, "utf8"));
const client = createDefaultHttpClient();
const pipeline = createEmptyPipeline();
pipeline.addPolicy(redirectPolicy());
pipeline.addPolicy(defaultRetryPolicy());

async function send(method, url, body) {
  const headers = createHttpHeaders({ authorization: `Bearer ${key}`, "content-type": "application/json" });
  const request = createPipelineRequest({ url, method, headers, body, allowInsecureConnection: true });
  const response = await pipeline.sendRequest(client, request);
  const parsed = response.bodyAsText ? JSON.parse(response.bodyAsText) : undefined;
  if (response.status >= 400) {
    throw Object.assign(new Error(parsed.error.message), { name: "RestError", code: parsed.error.code });
  }
  const received = response.headers.toJSON();
  for (const name of without) delete received[name];
  return { flatResponse: parsed, rawResponse: { statusCode: response.status, headers: received, body: parsed, request } };
}

const poller = createHttpPoller({
  sendInitialRequest: () => send("POST", url, JSON.stringify(body)),
  sendPollRequest: (path) => send("GET", path),
}, { intervalInMs: 200, resourceLocationConfig: via });

let said;
try {
  await poller.submitted();
  const { config } = JSON.parse(await poller.serialize()).state;
  if (cancel) await send("DELETE", `${cancel}/${config.operationLocation.match(/\d+(?=\?|$)/)[0]}`);
  const result = await poller.pollUntilDone();
  said = { status: poller.operationState.status, result };
} catch (error) {
  said = { status: poller.operationState?.status, code: error.code ?? poller.operationState?.error?.code, message: error.message };
}
console.log(JSON.stringify(said));
