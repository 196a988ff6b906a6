// outbox.js - the rows of the outbox by status, and the actions on failed and dead ones.

import { post, query } from "./api.js";
import { h } from "./dom.js";
import { actButton, asked, badge, commandLine, empty, heading, href, link, notice, pager, tabs, table, when } from "./parts.js";
import { command, count, forTenant, kept, num, plural } from "./words.js";

const PAGE = 50;
const TABS = [["", "All"], ["pending", "Pending"], ["processing", "Processing"], ["failed", "Failed", "warn"],
  ["dead", "Dead", "bad"], ["blocked", "Blocked", "warn"], ["published", "Published"]];

function requeueDeadAct(lane, dead) {
  const fields = [{ name: "limit", label: "At most", value: "100" }];
  return { title: lane ? `Requeue dead rows of ${lane}` : "Requeue dead rows", verb: "Requeue", fields,
    typed: lane || "all lanes",
    text: `${plural(dead, "row")} ${String(dead) === "1" ? "is" : "are"} dead. They are tried again, the oldest first, each stream in its order.`,
    command: ({ limit }) => command("outbox", "requeue-dead", ...(lane ? ["--lane", lane] : []), "--limit", limit || "100"),
    run: async ({ limit }) => {
      const n = Number(limit);
      if (!Number.isInteger(n) || n < 1 || n > 10000) throw new Error("At most: a number from 1 to 10,000");
      const done = await post("/v1/outbox:requeue-dead", { ...(lane ? { lane } : {}), limit: n });
      return `${plural(done.requeued, "row")} requeued.`;
    } };
}

const AGES = [["", "any time"], ["1m", "a minute"], ["10m", "10 minutes"], ["1h", "an hour"], ["24h", "a day"]];
const UNITS = { m: 60000, h: 3600000 };

// The latest enqueue time of rows older than `age`.
function before(age) {
  const found = /^(\d+)([mh])$/.exec(age ?? "");
  return found ? new Date(Date.now() - Number(found[1]) * UNITS[found[2]]).toISOString() : "";
}

function filters(ctx, lanes) {
  const q = ctx.query, partitions = num(ctx.status?.partitions);
  const go = (change) => { location.hash = href("outbox", { ...asked(), after: undefined, ...change }); };
  const choice = (name, label, options) => h("label", {}, `${label} `,
    h("select", { value: q[name] ?? "", on: { change: (e) => go({ [name]: e.target.value }) } },
      options.map(([value, text]) => h("option", { value, selected: value === (q[name] ?? "") }, text))));
  const text = (name, label, hint) => h("label", {}, `${label} `, h("input", { type: "search", value: q[name] ?? "", placeholder: hint,
    size: "12", maxlength: "255", on: { change: (e) => go({ [name]: e.target.value.trim() }) } }));
  return h("form", { class: "filters", role: "search", on: { submit: (e) => e.preventDefault() } },
    choice("lane", "Lane", [["", "all"], ...lanes.map((l) => [l, l === "*" ? "* (all projections)" : l])]),
    text("stream", "Stream", "whole name"), text("error", "Error", "a part of it"),
    h("details", { "data-key": "more", open: Boolean(q.types || q.partition || q.older || q.tenant) }, h("summary", {}, "More filters"),
      h("div", {}, text("types", "Type", "order.*"), text("tenant", "Tenant", q.stream ? "the blank one" : "all"),
        partitions > 0 && choice("partition", "Partition", [["", "all"], ...Array.from({ length: partitions },
          (_, n) => `p${String(n).padStart(2, "0")}`).map((p) => [p, p])]),
        choice("older", "Older than", AGES))));
}

// A published row has neither a next attempt nor an error; the time of publication is shown instead.
function published(items) {
  return table("Published", [
    { name: "Event", cell: (r) => [r.stream, h("span", { class: "quiet together" }, ` · ${r.seq}`)], kind: "grow" },
    { name: "Status", cell: (r) => badge(r.status) },
    { name: "Lane", cell: (r) => r.lane },
    { name: "Type", cell: (r) => r.event_type },
    { name: "Partition", cell: (r) => r.partition },
    { name: "Position", cell: (r) => count(r.position), kind: "number" },
    { name: "Since", cell: (r) => when(r.enqueued_at) },
    { name: "Published", cell: (r) => when(r.published_at) },
  ], items, { key: (r) => `${r.lane}/${r.tenant}/${r.position}`,
    to: (r) => href("stream", r.stream, { tenant: r.tenant, seq: String(r.seq) }) });
}

function rows(items) {
  return table("Rows", [
    { name: "Event", cell: (r) => [r.stream, h("span", { class: "quiet together" }, ` · ${r.seq}`)] },
    { name: "Status", cell: (r) => badge(r.status) },
    { name: "Lane", cell: (r) => r.lane },
    { name: "Type", cell: (r) => r.event_type },
    { name: "Attempts", cell: (r) => count(r.attempt_count), kind: "number" },
    { name: "Next try", cell: (r) => when(r.next_attempt_at) },
    { name: "Error", cell: (r) => r.last_error && h("span", { class: "clip", title: r.last_error }, r.last_error), kind: "grow" },
    { name: "Since", cell: (r) => when(r.enqueued_at) },
  ], items, { key: (r) => `${r.lane}/${r.tenant}/${r.position}`,
    to: (r) => href("row", r.lane, r.stream, String(r.seq), { tenant: r.tenant }) });
}

// Acknowledged rows leave the outbox; projections and publishers count what they have processed.
function taken(projections, publishers) {
  return [h("p", { class: "quiet" }, "A row goes when its lane has taken it. What became of events, by projection and by publisher:"),
    table("Applied", [
      { name: "Projection", cell: (p) => p.name },
      { name: "Up to position", cell: (p) => count(p.position), kind: "number" },
      { name: "Views", cell: (p) => count(p.views), kind: "number" },
      { name: "Unaccounted", cell: (p) => count(p.unaccounted), kind: "number" },
    ], projections.filter((p) => p.routed), { to: (p) => href("projection", p.name), key: (p) => p.name }),
    publishers.length > 0 && table("Publishers", [
      { name: "Publisher", cell: (p) => p.name },
      { name: "To", cell: (p) => p.url, kind: "grow" },
      { name: "Still waiting", cell: (p) => count(num(p.pending) + num(p.processing)), kind: "number" },
      { name: "Kept", cell: (p) => num(p.retain_ms) > 0 ? kept(p) : "not kept", kind: "number" },
    ], publishers, { to: (p) => href("publishers", p.name), key: (p) => p.name }),
    h("p", {}, link("#/events", "The events themselves"))];
}

function pages(ctx, answer) {
  return pager("Pages of rows",
    ctx.query.after && link(href("outbox", { ...ctx.query, after: undefined }), "To the first"),
    answer.next && link(href("outbox", { ...ctx.query, after: answer.next }), answer.rows.length === PAGE ? `Next ${PAGE}` : "Search on"));
}

function report(q) {
  const given = ["status", "lane", "stream", "types", "partition", "error", "older"].filter((name) => q[name]);
  return commandLine(command("outbox", "report", ...given.flatMap((name) => [`--${name}`, q[name]]), ...forTenant(q.tenant)));
}

// A filter without an index reads a limited number of rows per request.
function nothing(status, answer) {
  if (!answer.next && status === "published") return empty("No published rows are kept.",
    "A publisher keeps the rows that it has published for the time that its --retain gives.");
  if (answer.next) return notice("calm", "No match in the rows that were read.", h("p", {}, "10,000 rows are read per request."));
  return empty(status ? `No row is ${status}.` : "No rows.", "An event has rows from its append until every lane has processed it.");
}

export default {
  title: "Outbox",
  async load(ctx) {
    const { status, lane, stream, types, partition, error, older, tenant, after } = ctx.query;
    const [answer, projections, publishers] = await Promise.all([
      ctx.get(`/v1/outbox${query({ status, lane, after, limit: PAGE, stream, types, partition, error, before: before(older) })}`, { tenant }),
      ctx.get("/v1/projections"), ctx.who.tenant === null ? ctx.get("/v1/publishers") : []]);
    return { answer, projections, publishers, lanes: ["*", ...new Set([...projections, ...publishers].map((p) => p.name))] };
  },
  view({ answer, projections, publishers, lanes }, ctx) {
    const { status = "", lane } = ctx.query;
    const s = answer.summary;
    const items = TABS.map(([name, label, tone]) => ({ name, label, tone, number: s[name],
      to: href("outbox", { ...ctx.query, status: name, after: undefined }) }));
    return [heading("Outbox", h("div", { class: "buttons" }, num(s.dead) > 0 && ctx.who.tenant === null &&
        actButton(ctx, "Requeue dead", () => requeueDeadAct(lane, s.dead)))),
    tabs("Status", items, status), filters(ctx, lanes),
    h("section", { class: "panel", "aria-live": "off" },
      answer.rows.length === 0 ? nothing(status, answer) : status === "published" ? published(answer.rows) : rows(answer.rows),
      pages(ctx, answer), report(ctx.query)),
    status === "published" && h("section", { class: "panel" }, taken(projections, publishers))];
  },
};
