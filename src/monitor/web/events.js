// events.js - search for streams and events, and the live log.

import { follow, path, post, query } from "./api.js";
import { h } from "./dom.js";
import { actButton, asked, commandLine, empty, heading, href, link, notice, pager, table, when } from "./parts.js";
import { command, count, forTenant, num } from "./words.js";

const PAGE = 50, LIVE_MAX = 200;

export function eventTable(items) {
  return table("Events", [
    { name: "Position", cell: (e) => String(e.position), kind: "number" },
    { name: "Type", cell: (e) => e.type },
    { name: "Stream", cell: (e) => link(href("stream", e.stream, { tenant: e.tenant, seq: String(e.seq) }), e.stream, h("span", { class: "quiet" }, ` · ${e.seq}`)) },
    { name: "Data", cell: (e) => h("code", { class: "clip one" }, String(e.data).slice(0, 200)), kind: "grow" },
    { name: "Recorded", cell: (e) => when(e.recorded_at) },
  ], items, { key: (e) => String(e.position), to: (e) => href("event", e.id, { tenant: e.tenant }) });
}

// The text of a search may be a stream, an event id or a position.
async function search(ctx, text, tenant) {
  const found = [];
  const quietly = (promise) => promise.catch(() => null);
  const [event, head] = await Promise.all([quietly(ctx.get(path`/v1/events/${text}`, { tenant })),
    quietly(ctx.get(path`/v1/streams/${text}`, { tenant }))]);
  if (head && String(head.seq) !== "0") found.push({ label: `stream ${text}`, more: `${count(head.seq)} events`, to: href("stream", text, { tenant }) });
  if (event) found.push({ label: `event ${text}`, more: `${event.type} in ${event.stream}`, to: href("event", text, { tenant }) });
  if (/^\d{1,18}$/.test(text) && text !== "0") {
    const at = await quietly(ctx.get(`/v1/events${query({ after: (BigInt(text) - 1n).toString(), limit: 1 })}`, { tenant }));
    if (at?.[0] && String(at[0].position) === text)
      found.push({ label: `position ${text}`, more: `${at[0].type} in ${at[0].stream}`, to: href("event", at[0].id, { tenant }) });
  }
  return found;
}

// The newest matching events: pages from the end backwards, a bounded number of requests.
async function newest(ctx, head, { type, tenant, before }) {
  const found = [];
  let upper = before ? Number(before) : num(head) + 1, width = PAGE;
  for (let looks = 0; looks < 12 && found.length < PAGE && upper > 1; looks++) {
    const after = Math.max(0, upper - 1 - width);
    const part = await ctx.get(`/v1/events${query({ after: after || "0", type, limit: Math.min(width, 10000) })}`, { tenant });
    found.push(...part.filter((e) => num(e.position) < upper).reverse());
    upper = after + 1;
    width = Math.min(10000, width * 4);
  }
  return { items: found.slice(0, PAGE), before: found.length > PAGE ? num(found[PAGE - 1].position) : upper > 1 ? upper : null };
}

function startFollowing(ctx, tenant, type) {
  const s = ctx.state;
  s.live = [];
  s.stop = new AbortController();
  const match = !type ? () => true : type.endsWith("*") ? (t) => t.startsWith(type.slice(0, -1)) : (t) => t === type;
  follow("/v1/subscribe/events", (event) => {
    if (!match(event.type)) return;
    s.live.unshift(event);
    s.live.length = Math.min(s.live.length, LIVE_MAX);
    s.pending ??= setTimeout(() => { s.pending = null; ctx.draw(); }, 250);
  }, { signal: s.stop.signal, tenant }).catch(() => {}).finally(() => { s.stop = null; });
}

function filters(ctx) {
  const q = ctx.query;
  const go = (change) => { location.hash = href("events", { ...asked(), before: undefined, ...change }); };
  const input = (name, label, hint) => h("label", {}, `${label} `, h("input", { type: "search", value: q[name] ?? "",
    placeholder: hint, size: String(Math.max(16, hint.length)), "data-filter": name, on: { change: (e) => go({ [name]: e.target.value.trim() }) } }));
  const following = ctx.state.stop !== undefined && ctx.state.stop !== null;
  return h("form", { class: "filters", role: "search", on: { submit: (e) => e.preventDefault() } },
    input("find", "Find", "stream, event id or position"), input("type", "Type", "order.*"), input("tenant", "Tenant", "the blank one"),
    h("button", { type: "button", "aria-pressed": String(following), title: command("event", "log", "--follow"),
      on: { click: () => {
        if (ctx.state.stop) ctx.state.stop.abort();
        else startFollowing(ctx, q.tenant, q.type);
        ctx.draw();
      } } }, following ? "Stop following" : "Follow"));
}

function appendAct(ctx) {
  return { title: "Append an event", verb: "Append", fields: [
    { name: "stream", label: "Stream", value: "" }, { name: "type", label: "Type", value: "" },
    { name: "data", label: "Data (JSON)", kind: "area", value: "{}" }],
  command: ({ stream, type, data }) => command("event", "append", stream || "STREAM", "--type", type || "TYPE", "--data", data || "{}", ...forTenant(ctx.query.tenant)),
  run: async ({ stream, type, data }) => {
    const placed = await post(path`/v1/streams/${stream}/events`, `{"type":${JSON.stringify(type)},"data":${data}}`, { tenant: ctx.query.tenant });
    return `Appended at position ${placed.position}.`;
  } };
}

function results(found, text) {
  if (!found) return null;
  return h("section", { class: "panel" }, h("h2", {}, "Found"), found.length > 0
    ? h("ul", { class: "plain-list" }, found.map((f) => h("li", {}, link(f.to, f.label), h("span", { class: "quiet" }, ` ${f.more}`))))
    : empty(`Not found: ${text}`, "Enter the whole name of a stream, the id of an event, or its position."));
}

function streams(items, tenant) {
  return h("details", { class: "panel", "data-key": "streams" }, h("summary", {}, "Streams by their first event"),
    table("Streams", [
      { name: "Stream", cell: (s) => s.stream, kind: "grow" },
      { name: "Events", cell: (s) => count(s.seq), kind: "number" },
      { name: "Last position", cell: (s) => String(s.position), kind: "number" },
    ], items, { to: (s) => href("stream", s.stream, { tenant: s.tenant }), key: (s) => `${s.tenant}/${s.stream}` }),
    commandLine(command("event", "log", ...forTenant(tenant))));
}

export default {
  title: "Streams and events",
  leave: (ctx) => ctx.state.stop?.abort(),
  async load(ctx) {
    const { find, type, tenant, before } = ctx.query;
    const head = ctx.status?.journal.position ?? (await ctx.get("/v1/projections"))[0]?.position ?? 0;
    const [page, list, found] = await Promise.all([newest(ctx, head, { type, tenant, before }),
      ctx.get(`/v1/streams${query({ limit: 100 })}`, { tenant }), find ? search(ctx, find, tenant) : null]);
    return { page, list: list.streams, found };
  },
  view({ page, list, found }, ctx) {
    const live = ctx.state.live;
    return [heading("Streams and events", h("div", { class: "buttons" },
      actButton(ctx, "Append an event", () => appendAct(ctx), { scope: "append" }))), filters(ctx),
    results(found, ctx.query.find),
    live && h("section", { class: "panel", "aria-label": "Coming in" }, h("h2", {}, "Coming in"),
      live.length > 0 ? eventTable(live) : h("p", { class: "quiet" }, "Nothing has come in since you began to follow.")),
    h("section", { class: "panel" }, h("h2", {}, "Newest events"), page.items.length > 0 ? eventTable(page.items)
      : page.before ? notice("calm", "None among the newest events.", h("p", {}, "Search older events:")) : empty("No events.", "Appended events are listed here."),
    pager("Pages of events",
      ctx.query.before && link(href("events", { ...ctx.query, before: undefined }), "To the newest"),
      page.before && link(href("events", { ...ctx.query, before: String(page.before) }), "Older"))),
    list.length > 0 && streams(list, ctx.query.tenant)];
  },
};
