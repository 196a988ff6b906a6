// publishers.js - the publishers: their progress and settings.

import { ask, path, post, query } from "./api.js";
import { h } from "./dom.js";
import { actButton, badge, code, commandLine, empty, facts, heading, href, link, notice, table } from "./parts.js";
import { because, bytes, command, count, kept, num, plural, seconds } from "./words.js";

// The state of a publisher, from the rows of its lane: [badge, tone].
function health(p) {
  if (num(p.dead) > 0) return ["needs you", "bad"];
  if (p.paused) return ["paused", "warn"];
  if (num(p.failed) > 0 || p.sink?.state === "retrying") return ["retrying", "warn"];
  return num(p.pending) + num(p.processing) > 0 ? ["at work", "busy"] : ["well", "ok"];
}

function state(p) {
  const [words, tone] = health(p);
  return badge(words, tone);
}

// --- actions --------------------------------------------------------------------------------------

function addAct() {
  return { title: "Add a publisher", verb: "Add", fields: [
    { name: "name", label: "Name", value: "" },
    { name: "url", label: "To", value: "", hint: "file:PATH, the https address of a webhook, or nats://HOST:PORT/SUBJECT" },
    { name: "types", label: "Types (optional)", value: "", hint: "order.*,cart.checked_out; empty: all published types" },
    { name: "paused", label: "Paused: queue, but deliver nothing yet", kind: "check" }],
  text: "It publishes every event of its types from now on, at least once, in the order of each stream.",
  command: (v) => command("publisher", "add", v.name || "NAME", "--to", v.url || "URL",
    ...(v.types ? ["--types", v.types] : []), v.paused && "--paused"),
  run: async ({ name, url, types, paused }) => {
    if (!name) throw new Error("The name is missing.");
    await ask("PUT", path`/v1/publishers/${name}`, { body: { url, types, paused } });
    return `${name} is added.`;
  } };
}

function pauseAct(p) {
  const verb = p.paused ? "resume" : "pause", title = p.paused ? "Resume" : "Pause";
  return { title: `${title} ${p.name}`, verb: title, reason: "asked",
    text: p.paused ? "The queued events are delivered, in order." : "Events queue up meanwhile; nothing is lost.",
    command: ({ reason }) => command("publisher", verb, p.name, ...because(reason)),
    run: async ({ reason }) => { await post(`${path`/v1/publishers/${p.name}`}:${verb}`, { reason }); return `${title}: done.`; } };
}

function removeAct(p) {
  const left = num(p.pending) + num(p.processing) + num(p.failed) + num(p.dead);
  return { title: `Remove ${p.name}`, verb: "Remove", typed: p.name, reason: "needed",
    text: left > 0 ? `${plural(left, "row")} of it ${left === 1 ? "has" : "have"} not been published, and would never be.`
      : "Everything that was queued for it has been published.",
    fields: left > 0 ? [{ name: "discard", label: "Discard what was not published", kind: "check" }] : [],
    command: ({ discard, reason }) => command("publisher", "rm", p.name, discard && "--discard", ...because(reason)),
    run: async ({ discard, reason }) => {
      await ask("DELETE", path`/v1/publishers/${p.name}` + query({ discard: discard ? "true" : "", reason }));
      location.hash = href("publishers");
      return `${p.name} is removed.`;
    } };
}

function buttons(ctx, p) {
  return h("div", { class: "buttons" },
    actButton(ctx, p.paused ? "Resume" : "Pause", () => pauseAct(p)),
    actButton(ctx, "Remove", () => removeAct(p), { scope: "admin", tone: "danger quiet-button" }));
}

// --- parts ----------------------------------------------------------------------------------------

function list(items) {
  return table("Publishers", [
    { name: "Publisher", cell: (p) => p.name },
    { name: "State", cell: state },
    { name: "To", cell: (p) => code(p.url), kind: "grow" },
    { name: "Types", cell: (p) => p.types || "all" },
    { name: "Waiting", cell: (p) => count(num(p.pending) + num(p.processing)), kind: "number" },
    { name: "Failed", cell: (p) => count(p.failed), kind: "number" },
    { name: "Dead", cell: (p) => num(p.dead) > 0 ? h("b", { class: "bad" }, count(p.dead)) : "0", kind: "number" },
    { name: "Blocked", cell: (p) => count(p.blocked), kind: "number" },
  ], items, { key: (p) => p.name, to: (p) => href("publishers", p.name) });
}

function lane(p, status, number) {
  return num(number) > 0 ? link(href("outbox", { lane: p.name, status }), count(number)) : "0";
}

function one(p, ctx) {
  const ms = (value) => seconds(num(value) / 1000);
  return [heading([p.name, " ", state(p)], buttons(ctx, p)),
    p.sink?.error && notice("warn", "Delivery fails; it is retried.", h("p", {}, p.sink.error)),
    h("section", { class: "panel" }, h("h2", {}, "Lane"), facts(["Pending", lane(p, "pending", p.pending)],
      ["Processing", lane(p, "processing", p.processing)], ["Failed", lane(p, "failed", p.failed)],
      ["Dead", lane(p, "dead", p.dead)], ["Blocked", lane(p, "blocked", p.blocked)],
      p.sink && ["Published by this server", count(p.sink.published)],
      num(p.retain_ms) > 0 && ["Published, and kept", link(href("outbox", { lane: p.name, status: "published" }), kept(p))]),
    commandLine(command("outbox", "report", "--lane", p.name))),
    h("section", { class: "panel" }, h("h2", {}, "Settings"), facts(["To", code(p.url)], ["Types", p.types || "all published types"],
      ["Key", `by ${p.partition_by}`], ["First retry after", ms(p.retry_ms)],
      ["Dead", num(p.attempts_max) > 0 ? `at failure ${count(p.attempts_max)}` : "never"],
      ["Response timeout", ms(p.timeout_ms)], ["In flight at most", count(p.in_flight)],
      ["Published rows are kept", num(p.retain_ms) > 0 ? ms(p.retain_ms) : "no"],
      num(p.file_bytes) > 0 && ["A new file at", `${bytes(p.file_bytes)}, ${plural(p.file_count, "old one")} kept`],
      p.secret && ["Secret", code(p.secret)], p.allow_private && ["Private addresses", "allowed"]),
    commandLine(command("publisher", "show", p.name)))];
}

export default {
  title: (ctx) => ctx.params[0] ?? "Publishers",
  async load(ctx) {
    return ctx.params[0] ? { p: await ctx.get(path`/v1/publishers/${ctx.params[0]}`) } : { items: await ctx.get("/v1/publishers") };
  },
  view({ p, items }, ctx) {
    if (p) return one(p, ctx);
    return [heading("Publishers", h("div", { class: "buttons" }, actButton(ctx, "Add a publisher", addAct, { scope: "admin", tone: "primary" }))),
      h("section", { class: "panel" }, items.length > 0 ? list(items)
        : empty("No publisher yet.", "A publisher sends events to a file, a webhook or NATS, at least once and in order."),
      commandLine(command("publisher", "ls")))];
  },
};
