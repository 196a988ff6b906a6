// overview.js - health, lag, what is blocked, and the actions that resolve it.

import { h } from "./dom.js";
import { chart, rates } from "./chart.js";
import { badge, card, empty, facts, heading, href, link, notice, table } from "./parts.js";
import { bytes, count, num, plural, rate, seconds } from "./words.js";

const HISTORY_MS = 10000;
const MINUTE_MS = 60000;
const HOUR_MS = 60 * MINUTE_MS;

// The server samples every ten seconds; the samples of this page since then are added at the end.
async function history(ctx) {
  const s = ctx.state;
  if (!s.samples || Date.now() - s.asked > HISTORY_MS) {
    const [samples, minutes] = await Promise.all([ctx.get("/v1/history"), ctx.get("/v1/history?by=minute")]);
    s.samples = samples.map((x) => ({ ...x, ms: Date.parse(x.at) }));
    s.minutes = minutes.map((x) => ({ ...x, ms: Date.parse(x.at) }));
    s.asked = Date.now();
  }
  return s.samples;
}

// Events per second in each minute of the last hour before `until`, from the throughput rows of all workers. A minute
// without a row had no work.
function byMinute(minutes, key, until) {
  const rows = new Map(minutes.map((m) => [m.ms, num(m[key])]));
  const first = minutes.length > 0 ? minutes[0].ms : until;
  const points = [];
  for (let ms = Math.max(first, Math.ceil((Date.now() - HOUR_MS) / MINUTE_MS) * MINUTE_MS); ms + MINUTE_MS <= until; ms += MINUTE_MS)
    points.push([ms + MINUTE_MS, (rows.get(ms) ?? 0) / 60]);
  return points;
}

// The minutes of the store cover the time before the first sample of this server.
function withPast(minutes, key, points) {
  return [...byMinute(minutes, key, points.length > 0 ? points[0][0] : Date.now()), ...points];
}

function worst(projections) {
  let lag = 0, age = 0, name = "";
  for (const p of projections) {
    if (num(p.lag_events) > lag) { lag = num(p.lag_events); name = p.name; }
    age = Math.max(age, p.lag_seconds);
  }
  return { lag, age, name };
}

// The streams that need an operator, in the active generations: the first generation of each name. Rows of publishers
// are in the outbox only.
function blockedWork(status) {
  const sum = { events: 0, streams: 0, age: 0 }, seen = new Set();
  for (const p of status.projections) {
    if (seen.has(p.name)) continue;
    seen.add(p.name);
    sum.events += num(p.blocked_events);
    sum.streams += num(p.blocked_streams);
    sum.age = Math.max(sum.age, p.blocked_seconds);
  }
  return sum.events > 0 ? sum : { events: num(status.outbox.blocked), streams: 0, age: status.outbox.blocked_seconds ?? 0 };
}

function cards(status, samples, minutes) {
  const hour = minutes.filter((m) => m.ms >= Date.now() - HOUR_MS);
  const { lag, age, name } = worst(status.projections);
  const o = status.outbox;
  const blocked = blockedWork(status);
  const tip = (points) => points.length > 0 ? points[points.length - 1][1] : 0;
  const held = new Map(); // per projection, the generation with the most blocked events
  for (const p of status.projections) held.set(p.name, Math.max(held.get(p.name) ?? 0, num(p.quarantined)));
  const quarantined = [...held.values()].reduce((sum, n) => sum + n, 0);
  const dead = num(o.dead) > 0;
  const atRest = lag === 0 && num(o.pending) + num(o.processing) === 0;
  return h("section", { class: "cards", "aria-label": "At a glance" },
    card("Lag", plural(lag, "event"), lag > 0 ? `${name}, ${seconds(age)} behind` : "nothing is behind",
      { to: "#/projections", tone: lag > 0 ? "warn" : "" }),
    card("Backlog", count(num(o.pending) + num(o.processing)),
      num(o.pending) + num(o.processing) === 0 ? "nothing waits" : `the oldest waits for ${seconds(o.lag_seconds)}`, { to: "#/outbox" }),
    card("Failed", count(o.failed), num(o.failed) > 0 ? "tried again by themselves" : "nothing is being retried",
      { to: href("outbox", { status: "failed" }), tone: num(o.failed) > 0 ? "warn" : "" }),
    card("Dead", count(o.dead), dead ? "need you" : "nothing needs you",
      { to: href("outbox", { status: "dead" }), tone: dead ? "bad" : "" }),
    card("Blocked", plural(blocked.events, "event"), blocked.events === 0 ? "no stream is blocked"
      : `${blocked.streams > 0 ? `of ${plural(blocked.streams, "stream")}, ` : ""}for up to ${seconds(blocked.age)}`,
    { to: href("outbox", { status: "blocked" }), tone: blocked.events > 0 ? "warn" : "" }),
    card("Quarantined", plural(quarantined, "stream"), "behind a dead event", { to: "#/projections",
      tone: quarantined > 0 ? "warn" : "" }),
    card("Workers", count(status.workers.live), num(status.workers.known) > num(status.workers.live)
      ? `${count(num(status.workers.known) - num(status.workers.live))} silent`
      : num(status.workers.live) === 0 ? "none is running"
      : num(status.workers.idle) > 0 ? `${count(status.workers.idle)} idle` : "all working",
    { to: "#/crew", tone: num(status.workers.live) === 0 ? "bad" : "" }),
    card("Appended", `${rate(tip(rates(samples, (s) => num(s.position))))}/s`,
      `${count(status.journal.events)} in all`, { to: "#/events" }),
    card("Folded", `${rate(tip(rates(samples, (s) => num(s.folded))))}/s`, "over all projections", { to: "#/projections" }),
    card("Published", count(hour.reduce((sum, m) => sum + num(m.published), 0)), "in the last hour", { to: "#/publishers" }),
    card("Unaccounted", count(status.unaccounted), num(status.unaccounted) === 0 ? "every event is accounted for"
      : atRest ? "this must be 0" : "moves while events are folded", { tone: num(status.unaccounted) !== 0 && atRest ? "bad" : "" }));
}

// `now` is the newest response: the lag is drawn up to it.
function charts(samples, minutes, now, ctx) {
  const wide = ctx.width >= 860;
  const width = Math.max(280, Math.round((wide ? (ctx.width - 16) / 2 : ctx.width) - 34));
  return h("section", { class: "two", "aria-label": "The last hour" },
    chart("Events a second", [
      { name: "appended", tone: "one", points: withPast(minutes, "appended", rates(samples, (s) => num(s.position))) },
      { name: "folded", tone: "two", points: withPast(minutes, "applied", rates(samples, (s) => num(s.folded))) },
      { name: "published", tone: "three", points: byMinute(minutes, "published", Date.now()) },
    ], { width, format: rate, unit: "/s" }),
    chart("Lag", [
      { name: "behind", tone: "three", points: [...samples, now].map((s) => [s.ms, num(s.lag_events)]) },
      { name: "waiting", tone: "four", points: [...samples, now].map((s) => [s.ms, num(s.waiting)]) },
    ], { width, format: (v) => count(Math.round(v)), unit: "events" }));
}

/* The overview does not say which is queried; of those of a name it is the first. */
const notQueried = (p, items) => p.routed === undefined ? items.find((other) => other.name === p.name) !== p : !p.routed;

export function projectionTable(items) {
  return table("Projections", [
    { name: "Projection", cell: (p) => p.name, kind: "grow" },
    { name: "State", cell: (p) => badge(p.state) },
    { name: "Version", cell: (p) => [notQueried(p, items) && [badge("not queried", "calm"), " "], `v${p.version} · g${p.generation}`], kind: "number" },
    { name: "Lag", cell: (p) => count(p.lag_events), kind: "number" },
    { name: "Behind", cell: (p) => seconds(p.lag_seconds), kind: "number" },
    { name: "Blocked", cell: (p) => num(p.blocked_events) > 0 ? h("b", { class: "bad" }, count(p.blocked_events)) : "0", kind: "number" },
    { name: "Views", cell: (p) => count(p.views), kind: "number" },
    { name: "Failures", cell: (p) => num(p.failures) > 0 ? h("b", { class: "bad" }, count(p.failures)) : "0", kind: "number" },
    { name: "Unaccounted", cell: (p) => num(p.unaccounted) !== 0 && num(p.lag_events) === 0 ? h("b", { class: "bad" }, count(p.unaccounted)) : count(p.unaccounted), kind: "number" },
  ], items, { key: (p) => `${p.name}/${p.generation}`, to: (p) => href("projection", p.name) });
}

function durability(journal) {
  return h("section", { class: "panel", "aria-label": "The journal" }, h("h2", {}, "Journal"),
    h("p", { class: "durability" }, journal.durability),
    facts(["Store", `${journal.backend} ${journal.version}`], ["Position", count(journal.position)],
      ["Streams", count(journal.streams)], ["Size", bytes(journal.store_bytes)],
      journal.wal_bytes !== null && ["Log", bytes(journal.wal_bytes)],
      journal.free_bytes !== null && ["Free", bytes(journal.free_bytes)]));
}

export default {
  title: "Overview",
  every: 3000,
  async load(ctx) {
    if (ctx.who.tenant !== null) return { projections: await ctx.get("/v1/projections") };
    return { status: ctx.status, samples: await history(ctx), minutes: ctx.state.minutes };
  },
  view({ status, samples, minutes, projections }, ctx) {
    if (!status)
      return [heading("Overview"), h("p", { class: "quiet" }, `This token is for tenant ${ctx.who.tenant}: numbers over all tenants are not shown.`),
        projectionTable(projections)];
    const now = { ms: Date.now(), lag_events: worst(status.projections).lag,
      waiting: num(status.outbox.pending) + num(status.outbox.processing) };
    return [heading("Overview"),
      status.views_error && notice("bad", "The views cannot be read.", h("p", {}, status.views_error)),
      cards(status, samples, minutes), charts(samples, minutes, now, ctx),
      h("section", { class: "panel", "aria-label": "Projections" }, h("h2", {}, "Projections"),
        status.projections.length > 0 ? projectionTable(status.projections)
          : empty("No projection yet.", link("#/projections", "Deploy one"))),
      durability(status.journal)];
  },
};
