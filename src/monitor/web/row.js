// row.js - one row of a lane: its error, a dry run of its event, and the actions that resolve it.

import { path, post, query } from "./api.js";
import { h, replace } from "./dom.js";
import { integer } from "./json.js";
import { eventFacts } from "./event.js";
import { actButton, badge, changes, code, commandLine, facts, heading, href, json, link, notice, table, when } from "./parts.js";
import { because, command, count, forTenant, num, plural } from "./words.js";

// The result of a dry run with the newest program, requested while the dialog is open.
function preview({ lane, stream, seq, tenant }) {
  const box = h("div", { class: "preview", role: "status" }, h("p", { class: "quiet" }, "Dry run …"));
  post(`${path`/v1/projections/${lane}`}:try`, { stream, seq: integer(seq) }, { tenant })
    .then((trial) => replace(box, trialView(trial, false)))
    .catch((error) => replace(box, notice("warn", "The dry run failed.", h("p", {}, error.message))));
  return box;
}

function requeueAct(key, tried) {
  const { lane, stream, seq, tenant } = key;
  return { title: `Release ${stream} · ${seq}`, verb: "Release", reason: "asked",
    text: "The row becomes due now, with no attempts. The blocked rows of its stream follow in order.",
    extra: () => tried && preview(key),
    command: ({ reason }) => command("outbox", "requeue", stream, seq, "--lane", lane, ...because(reason),
      ...forTenant(tenant)),
    run: async ({ reason }) => {
      await post("/v1/outbox:requeue", { stream, seq: integer(seq), lane, reason }, { tenant });
      return "Released: it is retried now.";
    } };
}

function replayAct({ lane, stream, seq, tenant }) {
  return { title: `Try ${stream} · ${seq} now`, verb: "Try now",
    text: "The event is applied now, instead of at its next retry.",
    command: () => command("outbox", "replay", stream, seq, "--lane", lane, ...forTenant(tenant)),
    run: async () => {
      const done = await post("/v1/outbox:replay", { stream, seq: integer(seq), lane }, { tenant });
      return num(done.left) === 0 ? "Applied." : "It failed again.";
    } };
}

function skipAct({ lane, stream, seq, tenant }) {
  return { title: `Skip ${stream} · ${seq} in ${lane}`, verb: "Skip for good", reason: "needed", typed: stream,
    text: "This projection skips the event, now and in every rebuild of this version. The blocked rows of its stream are processed.",
    command: ({ reason }) => command("outbox", "skip", stream, seq, "--lane", lane, "--reason", reason || "…", ...forTenant(tenant)),
    run: async ({ reason }) => {
      await post("/v1/outbox:skip", { stream, seq: integer(seq), lane, reason }, { tenant });
      return "Skipped.";
    } };
}

const OUTCOMES = {
  applied: ["ok", "It would be applied."], ignored: ["calm", "It would be ignored: no handler matches it."],
  failed: ["bad", "It would fail."], done: ["ok", "This generation has applied it already."],
  waits: ["warn", "An earlier event of its stream must be applied first."],
};

// `whole`: the views before and after are unfolded; otherwise only their differences are.
export function trialView(trial, whole = true) {
  const [tone, sentence] = OUTCOMES[trial.outcome];
  return h("div", { class: "trial", "data-key": `trial${trial.generation}` },
    notice(tone, sentence,
      h("p", { class: "quiet" }, `Tried with version ${trial.version}, generation ${trial.generation}. Nothing was changed.`),
      trial.message && h("p", {}, trial.message),
      trial.outcome === "waits" && h("p", {}, `The next seq is ${trial.next_seq}.`)),
    trial.views.map((v) => h("details", { open: true, "data-key": v.view_id },
      h("summary", {}, "view ", code(v.view_id), v.before === null ? " (new)" : v.after === null ? " (deleted)" : ""),
      changes(v.before, v.after),
      h("details", { open: whole }, h("summary", { class: "quiet" }, "Before and after"),
        h("div", { class: "two" }, h("div", {}, h("h3", {}, "Before"), json(v.before, "the view before")),
          h("div", {}, h("h3", {}, "After"), json(v.after, "the view after")))))));
}

function tryCommand(projection, { stream, seq, tenant }) {
  return command("replay", "--projection", projection, "--stream", stream, "--after-seq", (BigInt(String(seq)) - 1n).toString(),
    "--until-seq", seq, "--validate", ...forTenant(tenant));
}

// A choice of generations and the button that starts a dry run, after the elements of `before`.
export function trialBox(ctx, projection, event, generations, before) {
  const { stream, seq, tenant } = event;
  const run = async () => {
    try {
      ctx.state.trial = await post(`${path`/v1/projections/${projection}`}:try`,
        { stream, seq: integer(seq), ...(ctx.state.generation ? { generation: ctx.state.generation } : {}) }, { tenant });
      ctx.state.trialProblem = null;
    } catch (error) {
      ctx.state.trial = null;
      ctx.state.trialProblem = error.message;
    }
    ctx.draw();
  };
  return h("section", { class: "panel", "data-key": "trial" }, h("h2", {}, "Dry run"),
    h("p", { class: "quiet" }, "Fold the event into the current views and show what would change. Nothing is written."),
    h("div", { class: "buttons" }, before,
      h("label", {}, "With ", h("select", { on: { change: (e) => { ctx.state.generation = Number(e.target.value); } } },
        h("option", { value: "0" }, "the newest version"),
        generations.filter((g) => g.state !== "retired").map((g) =>
          h("option", { value: String(g.generation) }, `v${g.version}, generation ${g.generation}${g.routed ? " (queried)" : ""}`)))),
      h("button", { type: "button", class: "primary", title: tryCommand(projection, event), on: { click: run } }, "Try it")),
    commandLine(tryCommand(projection, event)),
    ctx.state.trialProblem && notice("bad", ctx.state.trialProblem),
    ctx.state.trial && trialView(ctx.state.trial));
}

function attempts(items) {
  return h("section", { class: "panel" }, h("h2", {}, "Attempts"), table("Attempts", [
    { name: "Generation", cell: (f) => `v${f.version} · g${f.generation}` },
    { name: "Result", cell: (f) => badge(f.open ? "open" : "resolved") },
    { name: "Tried", cell: (f) => plural(f.attempts, "time"), kind: "number" },
    { name: "First", cell: (f) => when(f.recorded_at) },
    { name: "Error", cell: (f) => [code(f.code), " ", f.message], kind: "grow" },
  ], items, { key: (f) => `${f.generation}` }));
}

const newest = (items) => items.reduce((a, b) => (a && num(a.generation) > num(b.generation) ? a : b), null);

// The line that failed, while the program is still the one in which it failed.
function errorBox(row, projection, failed) {
  const last = newest(failed.filter((f) => f.open)) ?? failed[0];
  const line = last ? num(last.line) : 0;
  const since = projection && last && num(projection.version) > num(last.version);
  const next = projection && last && !since && newest(projection.generations.filter((g) =>
    g.state !== "retired" && num(g.version) > num(last.version)));
  const source = projection && line > 0 && num(projection.version) === num(last.version) && projection.program.split("\n")[line - 1];
  return notice(row.status === "dead" ? "bad" : "warn", row.last_error || "It is blocked by an earlier event of its stream.",
    source && h("pre", { class: "excerpt" }, h("span", { class: "quiet" }, `${line}  `), source),
    since && h("p", {}, `It failed in version ${last.version}. Version ${projection.version} is active now: try it below, then release.`),
    next && h("p", {}, `Version ${next.version} is deployed: try the event with it below. This row is removed when you switch to a version that has applied it.`));
}

async function findRow(ctx, lane, stream, seq, tenant) {
  // Rows are listed by position, so the row of an event is found by the event's position.
  const events = await ctx.get(path`/v1/streams/${stream}/events` + query({ from_seq: seq, limit: 1 }), { tenant });
  const event = events[0] && String(events[0].seq) === String(seq) ? events[0] : null;
  if (!event) throw new Error(`There is no seq ${seq} in stream ${stream}.`);
  const found = await ctx.get(`/v1/outbox${query({ lane, from: event.position, limit: 1 })}`, { tenant });
  const row = found.rows.find((r) => r.stream === stream && String(r.seq) === String(seq));
  return { event, row };
}

export default {
  title: (ctx) => `${ctx.params[1]} · ${ctx.params[2]}`,
  every: 2000,
  async load(ctx) {
    const [lane, stream, seq] = ctx.params, tenant = ctx.query.tenant ?? "";
    const base = path`/v1/projections/${lane}`;
    const [{ event, row }, projection, failed] = await Promise.all([findRow(ctx, lane, stream, seq, tenant),
      lane === "*" ? null : ctx.get(base).catch(() => null), // a publisher's lane has none
      lane === "*" ? [] : ctx.get(`${base}/failures?resolved&limit=1000`, { tenant }).catch(() => [])]);
    return { lane, stream, seq, tenant, event, row, projection,
      failed: failed.filter((f) => f.stream === stream && String(f.seq) === String(seq) && f.tenant === tenant) };
  },
  view({ lane, stream, seq, tenant, event, row, projection, failed }, ctx) {
    const key = { lane, stream, seq, tenant };
    return [heading([stream, h("span", { class: "quiet" }, ` · ${seq} in ${lane}`), " ", row ? badge(row.status) : badge("gone", "ok")],
      row && h("div", { class: "buttons" },
        row.status === "dead" && actButton(ctx, "Release", () => requeueAct(key, projection !== null), { tone: "primary" }),
        row.status === "failed" && actButton(ctx, "Try now", () => replayAct(key), { tone: "primary" }),
        lane !== "*" && actButton(ctx, "Skip", () => skipAct(key), { tone: "danger" }))),
    row ? [errorBox(row, projection, failed), h("section", { class: "panel" }, facts(["Lane", lane === "*" ? "* (all projections)" : link(href("projection", lane), lane)],
      tenant && ["Tenant", tenant], ["Partition", row.partition], ["Attempts", count(row.attempt_count)], ["Next try", when(row.next_attempt_at)],
      ["Enqueued", when(row.enqueued_at)], ["Updated", when(row.updated_at)]),
    commandLine(command("outbox", "report", "--lane", lane, "--stream", stream, ...forTenant(tenant))))]
      : notice("ok", "It is not in the outbox.", h("p", {}, "No action is needed: the event was applied, delivered or skipped, or only a replaced version lacks it. ",
        link("#/audit", "Audit log"))),
    projection && trialBox(ctx, lane, { stream, seq, tenant }, projection.generations),
    failed.length > 0 && attempts(failed),
    h("section", { class: "panel" }, h("h2", {}, "Event"), eventFacts(event),
      h("h3", {}, "Data"), json(event.data, "the data"), h("h3", {}, "Meta"), json(event.meta, "the meta"))];
  },
};
