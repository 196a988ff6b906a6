// workers.js - the workers, their leases and their partitions.

import { h } from "./dom.js";
import { badge, code, commandLine, empty, heading, table, when } from "./parts.js";
import { command, count, num, plural } from "./words.js";

// The rest of a time to live, counted down from the time of the response.
function left(ttl, asked) { return Math.max(0, num(ttl) - (Date.now() - asked)); }

function countdown(ttl, asked, whole) {
  if (ttl === null) return h("span", { class: "quiet" }, "–");
  const ms = left(ttl, asked);
  return h("span", { class: "countdown" }, h("i", { "aria-hidden": "true" },
    h("i", { style: { width: `${Math.min(100, ms / whole * 100).toFixed(0)}%` } })), `${Math.ceil(ms / 1000)} s`);
}

function tile(p, asked) {
  const waits = num(p.pending) + num(p.in_flight), bad = num(p.retry_rows) > 0;
  return h("li", { class: `tile ${p.live ? "owned" : "free"} ${bad ? "hurt" : ""}`, "data-key": p.partition },
    h("b", {}, p.partition), h("span", { class: "holder", title: p.holder ?? "" }, p.live ? p.holder : "free"),
    h("span", { class: "quiet" }, `epoch ${p.epoch}`), countdown(p.live ? p.ttl_ms : null, asked, 10000),
    h("span", { class: waits > 0 ? "strong" : "quiet" }, waits > 0 ? `${count(waits)} wait` : "nothing waits"),
    bad && h("span", { class: "bad" }, plural(p.retry_rows, "retry row")));
}

const LEASE_MS = { publisher: 30000 };
const IDLE_HEARTBEAT_MS = 150000;

// p00 to p15 for consecutive partitions.
function labels(numbers) {
  const label = (n) => `p${String(n).padStart(2, "0")}`;
  const runs = [];
  for (const n of [...numbers].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && n === last[1] + 1) last[1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([a, b]) => a === b ? label(a) : `${label(a)} to ${label(b)}`).join(", ");
}

// Leases of one kind and holder in one line, with the shortest time to live.
function together(leases) {
  const lines = new Map();
  for (const l of leases) {
    const key = `${l.kind}/${l.name}/${l.holder}/${l.live}`;
    const line = lines.get(key) ?? lines.set(key, { ...l, key, partitions: [] }).get(key);
    if (l.partition !== null) line.partitions.push(num(l.partition));
    if (l.ttl_ms !== null && (line.ttl_ms === null || num(l.ttl_ms) < num(line.ttl_ms))) line.ttl_ms = l.ttl_ms;
    if (num(l.token) > num(line.token)) line.token = l.token;
  }
  return [...lines.values()];
}

export default {
  title: "Workers and partitions",
  every: 2000,
  leave: (ctx) => clearInterval(ctx.state.beat),
  async load(ctx) {
    const [workers, partitions, leases] = await Promise.all([ctx.get("/v1/workers"), ctx.get("/v1/partitions"), ctx.get("/v1/leases")]);
    ctx.state.beat ??= setInterval(() => { if (!document.hidden) ctx.draw(); }, 1000);
    return { workers, partitions, leases, asked: Date.now() };
  },
  view({ workers, partitions, leases, asked }, ctx) {
    const owned = (id) => partitions.filter((p) => p.live && p.holder === id).length;
    const others = together(leases.filter((l) => l.kind !== "partition" && (l.live || l.holder !== null)));
    return [heading("Workers and partitions"),
      h("section", { class: "panel" }, h("h2", {}, "Workers"), workers.length > 0 ? table("Workers", [
        { name: "Worker", cell: (w) => w.id, kind: "grow" },
        { name: "State", cell: (w) => badge(w.state) },
        { name: "Heartbeat", cell: (w) => countdown(w.ttl_ms, asked, w.state === "idle" ? IDLE_HEARTBEAT_MS : 20000) },
        { name: "Host", cell: (w) => w.host ?? "–" },
        { name: "Process", cell: (w) => String(w.pid), kind: "number" },
        { name: "Since", cell: (w) => when(w.started_at) },
        { name: "Has", cell: (w) => `${owned(w.id)} of ${w.target_partitions.length}`, kind: "number" },
      ], workers, { key: (w) => w.id }) : empty("No worker is running.", "Start one with: everfold work"),
      commandLine(command("worker", "ls"))),
      h("section", { class: "panel" }, h("h2", {}, "Partitions ", h("span", { class: "quiet" },
        `${partitions.filter((p) => p.live).length} owned, ${partitions.filter((p) => !p.live).length} free`)),
      h("ul", { class: "tiles" }, partitions.map((p) => tile(p, asked))), commandLine(command("partition", "ls"))),
      h("section", { class: "panel" }, h("h2", {}, "Other leases"), others.length > 0 ? table("Leases", [
        { name: "Kind", cell: (l) => l.kind }, { name: "Of", cell: (l) => code(l.name ?? "–"), kind: "grow" },
        { name: "Partitions", cell: (l) => labels(l.partitions) || "–" }, { name: "Holder", cell: (l) => l.holder ?? "free" },
        { name: "Left", cell: (l) => countdown(l.ttl_ms, asked, LEASE_MS[l.kind] ?? 10000) },
        { name: "Token", cell: (l) => String(l.token), kind: "number" },
      ], others, { key: (l) => l.key }) : h("p", { class: "quiet" }, "None are held."), commandLine(command("lease", "ls")))];
  },
};
