// projection.js - one projection: its state, generations, program and failures.

import { get, path, post, query } from "./api.js";
import { h } from "./dom.js";
import { dag } from "./dag.js";
import { deployAct } from "./projections.js";
import { actButton, badge, changes, code, empty, facts, heading, href, link, notice, pager, progress, table, when } from "./parts.js";
import { because, command, count, num, plural, seconds, words } from "./words.js";

const FAILURES_SHOWN = 8;
const OPEN_RUN = new Set(["queued", "running"]);

// --- actions --------------------------------------------------------------------------------------

function simple(name, verb, title, text, cli = verb, body = {}) {
  return { title, text, verb: title.split(" ")[0], reason: "asked",
    command: ({ reason }) => command("projection", cli, name, ...because(reason)),
    run: async ({ reason }) => {
      await post(`${path`/v1/projections/${name}`}:${verb}`, { ...body, reason });
      return `${title}: done.`;
    } };
}

function rebuildAct(name) {
  return { title: `Rebuild ${name}`, verb: "Rebuild", reason: "asked",
    text: "All events are folded into a new generation beside this one. Queries keep reading this one meanwhile.",
    fields: [{ name: "stay", label: "Build and compare only; do not switch", kind: "check" }],
    command: ({ stay, reason }) => command("projection", "rebuild", name, stay && "--no-switch", ...because(reason)),
    run: async ({ reason, stay }) => {
      await post(`${path`/v1/projections/${name}`}:rebuild`, { reason, no_switch: stay });
      return `${name} is being rebuilt.`;
    } };
}

function inPlaceAct(name) {
  return { title: `Rebuild ${name} in place`, verb: "Empty and rebuild", reason: "needed", typed: name,
    text: "Its views are deleted first, and queries see them fill again. No event is lost.",
    command: ({ reason }) => command("projection", "rebuild", name, "--in-place", ...because(reason)),
    run: async ({ reason }) => {
      await post(`${path`/v1/projections/${name}`}:rebuild`, { reason, in_place: true });
      return `${name} is being rebuilt in place.`;
    } };
}

function switchAct(name, g) {
  return { title: `Switch ${name} to generation ${g.generation}`, verb: "Switch", reason: "asked",
    text: `Queries switch to version ${g.version}, generation ${g.generation}, atomically.`,
    command: ({ reason }) => command("projection", "switch", name, "--generation", g.generation, ...because(reason)),
    run: async ({ reason }) => {
      await post(`${path`/v1/projections/${name}`}:switch`, { reason, generation: num(g.generation) });
      return `Queries of ${name} read generation ${g.generation}.`;
    } };
}

function rollbackAct(name) {
  return { title: `Roll ${name} back`, verb: "Roll back", reason: "needed", typed: name,
    text: "The previous generation becomes active again.",
    command: ({ reason }) => command("projection", "rollback", name, ...because(reason)),
    run: async ({ reason }) => {
      await post(`${path`/v1/projections/${name}`}:rollback`, { reason });
      return `${name} is rolled back.`;
    } };
}

function retireAct(name, g) {
  return { title: `Retire generation ${g.generation} of ${name}`, verb: "Retire", reason: "needed", typed: name,
    text: `Its ${plural(g.views, "view")} are removed. It can be built again from the events.`,
    command: ({ reason }) => command("projection", "retire", name, "--generation", g.generation, ...because(reason)),
    run: async ({ reason }) => {
      await post(`${path`/v1/projections/${name}`}:retire`, { reason, generation: num(g.generation) });
      return `Generation ${g.generation} is retired.`;
    } };
}

function buttons(ctx, p) {
  const paused = p.state === "paused" || p.state === "failed";
  return h("div", { class: "buttons" },
    actButton(ctx, "Rebuild", () => rebuildAct(p.name)),
    actButton(ctx, "Verify", () => simple(p.name, "verify", `Verify ${p.name}`,
      "All events are folded again in memory, and the result is compared view by view.")),
    paused ? actButton(ctx, "Resume", () => simple(p.name, "resume", `Resume ${p.name}`, "It continues from its position."))
      : actButton(ctx, "Pause", () => simple(p.name, "pause", `Pause ${p.name}`, "Queries still read its views; no further events are applied.")),
    p.generations.length > 1 && actButton(ctx, "Roll back", () => rollbackAct(p.name)),
    actButton(ctx, "New version", () => deployAct(p.program.replace(/(projection\s+\S+\s+version\s+)(\d+)/,
      (_, head, n) => head + (Number(n) + 1)))),
    actButton(ctx, "Rebuild in place", () => inPlaceAct(p.name), { tone: "danger quiet-button" }));
}

// --- live progress --------------------------------------------------------------------------------

// How fast it goes, from what this page has seen of it.
function eta(ctx, id, done, total) {
  const seen = (ctx.state.seen ??= new Map());
  const list = seen.get(id) ?? seen.set(id, []).get(id);
  if (list.length === 0 || list[list.length - 1][1] !== done) list.push([Date.now(), done]);
  while (list.length > 20) list.shift();
  const [t0, n0] = list[0], [t1, n1] = list[list.length - 1];
  if (n1 <= n0 || t1 <= t0 || !total) return "";
  const speed = (n1 - n0) / ((t1 - t0) / 1000);
  return `${count(Math.round(speed))} events/s, about ${seconds((total - done) / speed)} left`;
}

export function runProgress(ctx, run) {
  const done = num(run.processed), total = run.total === null ? 0 : num(run.total);
  return h("div", { class: "running", "data-key": run.id },
    h("p", {}, badge(run.state), " ", link(href("runs", run.id), words(run.mode)), " ",
      total > 0 ? `${count(run.processed)} of ${count(run.total)} events` : `${count(run.processed)} events`,
      h("span", { class: "quiet" }, ` ${eta(ctx, run.id, done, total)}`)),
    progress(done, total, `${words(run.mode)} of ${run.projection}`), run.error && h("p", { class: "quiet" }, run.error));
}

function catchUp(ctx, g, head) {
  const done = num(g.position);
  return h("div", { class: "running", "data-key": `g${g.generation}` },
    h("p", {}, badge(g.state), ` generation ${g.generation}: ${count(g.position)} of ${count(head)} events `,
      h("span", { class: "quiet" }, eta(ctx, `g${g.generation}`, done, num(head)))),
    progress(done, num(head), `generation ${g.generation}`));
}

// --- parts ----------------------------------------------------------------------------------------

function generations(ctx, p) {
  return h("section", { class: "panel" }, h("h2", {}, "Generations"),
    table("Generations", [
      { name: "Generation", cell: (g) => ["g", String(g.generation), g.routed && [" ", badge("queried", "ok")]] },
      { name: "Version", cell: (g) => `v${g.version}`, kind: "number" },
      { name: "State", cell: (g) => badge(g.state) },
      { name: "Position", cell: (g) => count(g.position), kind: "number" },
      { name: "Lag", cell: (g) => count(g.lag_events), kind: "number" },
      { name: "Views", cell: (g) => count(g.views), kind: "number" },
      { name: "Failures", cell: (g) => count(g.failures), kind: "number" },
      { name: "Digest", cell: (g) => code(g.digest.slice(0, 12), g.digest) },
      { name: "", cell: (g) => g.routed ? null : h("div", { class: "buttons small" },
        actButton(ctx, "Switch", () => switchAct(p.name, g)),
        h("button", { type: "button", title: command("projection", "diff", p.name, "--generations", `${p.generation},${g.generation}`),
          on: { click: () => { ctx.state.compare = g.generation; ctx.state.diff = null; ctx.refresh(); } } }, "Compare"),
        actButton(ctx, "Retire", () => retireAct(p.name, g), { tone: "danger quiet-button" })) },
    ], p.generations, { key: (g) => String(g.generation) }), comparison(ctx, p));
}

function comparison(ctx, p) {
  const diff = ctx.state.diff;
  if (!diff) return null;
  const equal = diff.differences.length === 0;
  return h("div", { class: "compare", "data-key": "compare" },
    h("h3", {}, `Generation ${p.generation} beside ${ctx.state.compare}`),
    h("p", {}, equal ? [badge("equal", "ok"), ` ${plural(diff.views, "view")} compared, none differs.`]
      : `Of ${plural(diff.views, "view")}: ${count(diff.different)} differ, ${count(diff.left_only)} only in ${p.generation}, ${count(diff.right_only)} only in ${ctx.state.compare}.`),
    diff.differences.map((d) => h("details", { "data-key": `${d.tenant}/${d.view_id}` },
      h("summary", {}, code(d.view_id), d.tenant && h("span", { class: "quiet" }, ` tenant ${d.tenant}`)),
      changes(d.left, d.right))));
}

function failures(items) {
  if (items.length === 0) return null;
  return h("section", { class: "panel" }, h("h2", {}, "Failures"), table("Failures", [
    { name: "Event", cell: (f) => `${f.stream} · ${f.seq}` },
    { name: "Error", cell: (f) => f.message, kind: "grow" },
    { name: "Attempts", cell: (f) => count(f.attempts), kind: "number" },
    { name: "Since", cell: (f) => when(f.recorded_at) },
  ], items.slice(0, FAILURES_SHOWN), { key: (f) => `${f.generation}/${f.tenant}/${f.stream}/${f.seq}`,
    to: (f) => href("row", f.projection, f.stream, String(f.seq), { tenant: f.tenant }) }),
  items.length > FAILURES_SHOWN && pager("All failures", link(href("outbox", { lane: items[0].projection }), "All of them, in the outbox")));
}

function program(p, explained, failed) {
  const bad = new Set(failed.filter((f) => num(f.version) === num(p.version)).map((f) => num(f.line)));
  return h("section", { class: "panel" }, h("h2", {}, "Program"),
    h("ol", { class: "program", tabindex: "0", role: "region", "aria-label": "Program text" },
      p.program.replace(/\n$/, "").split("\n").map((line, i) =>
        h("li", { class: bad.has(i + 1) ? "bad" : "" }, h("code", {}, line || "\u00a0")))),
    explained && h("details", { class: "drawn", open: true }, h("summary", {}, "As a graph"), dag(explained)));
}

async function loadDiff(ctx, p) {
  const right = ctx.state.compare;
  if (!right || ctx.state.diff) return;
  ctx.state.diff = await ctx.get(path`/v1/projections/${p.name}/diff` + query({ left_generation: p.generation, right_generation: right, limit: 20 }));
}

export default {
  title: (ctx) => ctx.params[0],
  async load(ctx) {
    const name = ctx.params[0], base = path`/v1/projections/${name}`;
    const [p, failed, runs] = await Promise.all([ctx.get(base), ctx.get(`${base}/failures?limit=50`), ctx.get("/v1/runs?open")]);
    const mine = runs.filter((r) => r.projection === name || r.projection === "");
    const key = `${p.version}/${p.generation}`;
    if (ctx.state.explainedKey !== key) {
      ctx.state.explained = await get(`${base}/explain`).catch(() => null);
      ctx.state.explainedKey = key;
    }
    await loadDiff(ctx, p);
    const busy = mine.some((r) => OPEN_RUN.has(r.state)) || p.generations.some((g) => g.state === "catching_up");
    ctx.every = busy ? 1000 : undefined;
    return { p, failed, runs: mine, explained: ctx.state.explained, head: ctx.status?.journal.position ?? p.position };
  },
  view({ p, failed, runs, explained, head }, ctx) {
    const behind = p.generations.filter((g) => g.state === "catching_up");
    return [heading([p.name, " ", badge(p.state)], buttons(ctx, p)),
      num(p.unaccounted) !== 0 && num(p.lag_events) === 0 && notice("bad", `${count(p.unaccounted)} events are neither done nor waiting.`,
        h("p", {}, "See: ", code(command("doctor")))),
      (runs.length > 0 || behind.length > 0) && h("section", { class: "panel", "aria-label": "Under way" },
        runs.map((r) => runProgress(ctx, r)), behind.map((g) => catchUp(ctx, g, head))),
      h("section", { class: "panel" }, facts(["Order", `by ${p.order}`], ["Version", `v${p.version}, generation ${p.generation}`],
        ["Position", count(p.position)], ["Lag", `${plural(p.lag_events, "event")}, ${seconds(p.lag_seconds)}`],
        ["Views", link(href("views", p.name), count(p.views))], ["Unaccounted", count(p.unaccounted)],
        ["Failures", num(p.failures) > 0 ? link(href("outbox", { lane: p.name }), count(p.failures)) : "0"],
        ["Quarantined", plural(p.quarantined, "stream")], ["Digest", code(p.digest)])),
      generations(ctx, p), failures(failed),
      p.program ? program(p, explained, failed) : empty("Written in C.", "There is no program to show.")];
  },
};

