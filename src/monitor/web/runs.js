// runs.js - jobs with a record: replays, rebuilds, verifications.

import { path, post } from "./api.js";
import { h } from "./dom.js";
import { runProgress } from "./projection.js";
import { actButton, badge, code, commandLine, empty, facts, heading, href, link, notice, table, when } from "./parts.js";
import { because, command, count, words } from "./words.js";

const OPEN = new Set(["queued", "running"]);

function cancelAct(run) {
  return { title: `Cancel the ${words(run.mode)} of ${run.projection || "all projections"}`, verb: "Cancel it", reason: "needed",
    typed: run.projection || run.mode, text: "What it has committed stays.",
    command: ({ reason }) => command("run", "cancel", run.id, ...because(reason)),
    run: async ({ reason }) => { await post(`${path`/v1/runs/${run.id}`}:cancel`, { reason }); return "It is being cancelled."; } };
}

function list(items) {
  return table("Runs", [
    { name: "Run", cell: (r) => words(r.mode) },
    { name: "Projection", cell: (r) => r.projection || "all", kind: "grow" },
    { name: "State", cell: (r) => badge(r.state, r.state === "failed" ? "bad" : undefined) },
    { name: "Done", cell: (r) => r.total === null ? count(r.processed) : `${count(r.processed)} of ${count(r.total)}`, kind: "number" },
    { name: "Asked for by", cell: (r) => r.requester },
    { name: "Reason", cell: (r) => r.reason },
    { name: "Since", cell: (r) => when(r.requested_at) },
  ], items, { key: (r) => r.id, to: (r) => href("runs", r.id) });
}

function verdict(run) {
  const d = run.detail ?? {};
  const names = { applied: "Applied", duplicates: "Duplicates", ignored: "Ignored", failed: "Failed", deferred: "Deferred",
    generation: "Generation", built: "Built", views: "Views compared", differences: "Differences" };
  const pairs = Object.entries(names).filter(([key]) => d[key] !== undefined).map(([key, label]) => [label, count(d[key])]);
  return [pairs.length > 0 && facts(...pairs),
    d.compared && notice(d.differences ? "bad" : "ok", d.differences ? `${count(d.differences)} views differ.` : "Every view is the same."),
    (d.examples ?? []).map((e) => h("p", {}, link(href("view", run.projection, e.view_id, { tenant: e.tenant }), e.view_id)))];
}

function one(run, ctx) {
  return [heading([words(run.mode), h("span", { class: "quiet" }, ` of ${run.projection || "all projections"} `), badge(run.state)],
    OPEN.has(run.state) && h("div", { class: "buttons" }, actButton(ctx, "Cancel", () => cancelAct(run), { tone: "danger" }))),
  h("section", { class: "panel" }, runProgress(ctx, run)),
  h("section", { class: "panel" }, facts(["Id", code(run.id)], run.tenant && ["Tenant", run.tenant], ["Asked for by", run.requester || "–"],
    ["Reason", run.reason || "–"], ["Requested", when(run.requested_at)], ["Started", when(run.started_at)], ["Finished", when(run.finished_at)],
    ["From", String(run.from)], ["To", String(run.to)], ["Last position", String(run.last_position)]),
  run.error && notice(run.state === "failed" ? "bad" : "warn", run.error), verdict(run),
  commandLine(command("run", OPEN.has(run.state) ? "watch" : "show", run.id)))];
}

export default {
  title: "Runs",
  async load(ctx) {
    if (ctx.params[0]) {
      const run = await ctx.get(path`/v1/runs/${ctx.params[0]}`);
      ctx.every = OPEN.has(run.state) ? 1000 : 10000;
      return { run };
    }
    return { items: await ctx.get("/v1/runs?limit=100") };
  },
  view({ run, items }, ctx) {
    if (run) return one(run, ctx);
    const open = items.filter((r) => OPEN.has(r.state));
    return [heading("Runs"), open.length > 0 && h("section", { class: "panel", "aria-label": "Under way" }, open.map((r) => runProgress(ctx, r))),
      h("section", { class: "panel" }, items.length > 0 ? list(items) : empty("No runs yet.", "Rebuilds, replays and verifications leave a record here."),
        commandLine(command("run", "ls")))];
  },
};
