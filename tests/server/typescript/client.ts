// A typed client of a server, made from its /openapi.json. It has to compile with --strict, and to work.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Event = components["schemas"]["Event"];
type Problem = components["schemas"]["Problem"];

const [, , url, token] = process.argv;
// Events are answered as CloudEvents to those who ask for them: this client does not.
type Media = "application/json" | "application/problem+json";
const api = createClient<paths, Media>({ baseUrl: url!, headers: { Authorization: `Bearer ${token!}` } });

function need<T>(value: T | undefined, problem?: Problem): T {
  if (value === undefined) throw new Error(`${problem?.status} ${problem?.code}: ${problem?.detail}`);
  return value;
}

// Data of any JSON kind, with the headers of an append.
const kinds: unknown[] = [{ customer: "ann", amount: 12.5, lines: [{ sku: "a", qty: 1 }] }, [1, 2], "text", 7, true, null];
for (const [i, data] of kinds.entries()) {
  const placed = await api.POST("/v1/streams/{stream}/events", {
    params: { path: { stream: "ts-1" }, header: { "If-Match": String(i), "Idempotency-Key": `ts-${i}` } },
    body: { type: i === 0 ? "order.placed" : "any.json", data, meta: { by: "typescript" } },
  });
  const one = need(placed.data, placed.error);
  if (Array.isArray(one)) throw new Error("one event is answered by one object");
  const seq: number = one.seq, written: string | null = one.token;
  if (seq !== i + 1 || !written) throw new Error(`seq ${seq}`);
}

// A batch, NDJSON and CloudEvents.
const many = await api.POST("/v1/events", { body: [{ stream: "ts-2", type: "t", data: {} }, { stream: "ts-3", type: "t", data: [] }] });
if ((need(many.data, many.error) as components["schemas"]["PlacedOne"][]).length !== 2) throw new Error("two events");
const lines = await api.POST("/v1/events", {
  headers: { "Content-Type": "application/x-ndjson" },
  body: '{"stream":"ts-4","type":"t","data":{}}\n', bodySerializer: (body: unknown) => String(body),
});
need(lines.data, lines.error);
const cloud: components["schemas"]["CloudEvent"] = { specversion: "1.0", id: "ce-1", source: "/ts", type: "t", subject: "ts-5", data: 3 };
const event = await api.POST("/v1/events", { headers: { "Content-Type": "application/cloudevents+json" }, body: cloud });
need(event.data, event.error);

// Reading a stream by pages.
const page = await api.GET("/v1/streams/{stream}/events", { params: { path: { stream: "ts-1" }, query: { from_seq: 1, limit: 100 } } });
const events: Event[] = need(page.data, page.error);
if (JSON.stringify(events.map((e) => e.data)) !== JSON.stringify(kinds)) throw new Error(JSON.stringify(events));
const short = await api.GET("/v1/streams/{stream}/events", { params: { path: { stream: "ts-1" }, query: { limit: 2 } } });
const next: string | null = short.response.headers.get("Everfold-Next");
if (next !== "3") throw new Error(`Everfold-Next ${next}`);

// A view, a query, and an error with a code.
const view = await api.GET("/v1/views/{projection}/{id}", { params: { path: { projection: "customers", id: "ann" }, query: { current: true, wait: "20s" } } });
const data = need(view.data, view.error).data as { orders: number };
if (data.orders !== 1) throw new Error(JSON.stringify(data));
const found = await api.GET("/v1/views/{projection}", { params: { path: { projection: "customers" }, query: { where: "orders == 1", limit: 10 } } });
if (need(found.data, found.error).items?.length !== 1) throw new Error("one view");
const missing = await api.GET("/v1/views/{projection}/{id}", { params: { path: { projection: "customers", id: "nobody" } } });
const code: Problem["code"] | undefined = missing.error?.code;
if (code !== "not_found") throw new Error(`code ${code}`);
const conflict = await api.POST("/v1/streams/{stream}/events", {
  params: { path: { stream: "ts-1" }, header: { "If-Match": "0" } }, body: { type: "t", data: {} },
});
if (conflict.response.status !== 409 || conflict.error?.code !== "seq_conflict" || conflict.error.found !== kinds.length) throw new Error("conflict");

// @ts-expect-error a path that does not exist
void (() => api.GET("/v1/nothing"));
// @ts-expect-error an event needs a type
void (() => api.POST("/v1/streams/{stream}/events", { params: { path: { stream: "s" } }, body: { data: {} } }));
console.log("ok");
