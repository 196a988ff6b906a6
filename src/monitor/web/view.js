// view.js - one view and its history: a slider over the events that changed it.

import { path, query } from "./api.js";
import { h } from "./dom.js";
import { changes, code, commandLine, facts, heading, href, json, link, notice, when } from "./parts.js";
import { command, count, forTenant } from "./words.js";

const STEPS = 200;

function slider(ctx, steps, at) {
  const step = steps[at];
  const move = (to) => {
    const next = Math.max(0, Math.min(steps.length - 1, to));
    ctx.state.position = next === steps.length - 1 ? null : String(steps[next].position);
    ctx.draw();
  };
  return h("div", { class: "travel" },
    h("div", { class: "buttons" },
      h("button", { type: "button", "aria-label": "Earlier", disabled: at === 0, on: { click: () => move(at - 1) } }, "◀"),
      h("input", { type: "range", min: "0", max: String(steps.length - 1), value: String(at), "aria-label": "Event",
        "aria-valuetext": `${step.type}, seq ${step.seq}, ${at + 1} of ${steps.length}`, on: { input: (e) => move(Number(e.target.value)) } }),
      h("button", { type: "button", "aria-label": "Later", disabled: at === steps.length - 1, on: { click: () => move(at + 1) } }, "▶")),
    h("p", { "aria-live": "polite" }, h("b", {}, `${at + 1} of ${steps.length} `), link(href("event", step.id, { tenant: step.tenant }), step.type),
      h("span", { class: "quiet" }, ` ${step.stream} · ${step.seq}, position ${step.position} `, when(step.recorded_at))));
}

// The step that is shown: the newest, or the chosen one, whose index grows as newer ones arrive.
function placeOf(steps, position) {
  const found = steps.findIndex((s) => String(s.position) === position);
  return found >= 0 ? found : position ? 0 : steps.length - 1;
}

function past(ctx, { name, id, tenant, history }) {
  const steps = history.steps;
  const at = placeOf(steps, ctx.state.position), step = steps[at];
  return h("section", { class: "panel" }, h("h2", {}, "Time travel"),
    history.more && h("p", { class: "quiet" }, `The last ${count(steps.length)} changes; before them there are more.`),
    slider(ctx, steps, at),
    h("div", { class: "two" }, h("div", {}, h("h3", {}, "What changed"), changes(at > 0 ? steps[at - 1].after : history.before, step.after)),
      h("div", {}, h("h3", {}, `As of position ${step.position}`), step.after === null ? h("p", {}, "The view was deleted.") : json(step.after, "the view then"))),
    commandLine(command("view", "at", name, id, "--position", String(step.position), ...forTenant(tenant))));
}

export default {
  title: (ctx) => `${ctx.params[1]} · ${ctx.params[0]}`,
  async load(ctx) {
    const [name, id] = ctx.params, tenant = ctx.query.tenant ?? "";
    const base = path`/v1/views/${name}/${id}`;
    const view = await ctx.get(base, { tenant }).catch((error) => { if (error.status === 404) return null; throw error; });
    // The history is folded from the events, so it is requested only after the view has changed.
    const mark = view ? String(view.last_event_sequence) : "none";
    if (ctx.state.mark !== mark) {
      try {
        ctx.state.history = await ctx.get(`${base}/history${query({ limit: STEPS })}`, { tenant });
      } catch (error) { if (error.status !== 404 || !view) throw error; ctx.state.history = null; }
      ctx.state.mark = mark;
    }
    return { name, id, tenant, view, history: ctx.state.history };
  },
  view(data, ctx) {
    const { name, id, tenant, view, history } = data;
    return [heading([id, h("span", { class: "quiet" }, " of "), link(href("projection", name), name)]),
      view ? h("section", { class: "panel" }, facts(["Version", `v${view.version}`], tenant && ["Tenant", tenant],
        ["Changed at position", String(view.last_event_sequence)], ["Complete up to position", String(view.as_of)]), json(view.data, "the view"),
      commandLine(command("view", "get", name, id, ...forTenant(tenant))))
        : notice("calm", "The view was deleted.", h("p", {}, "Its history is below.")),
      history ? past(ctx, data) : notice("calm", "No history.", h("p", {}, "The view was seeded: no event created it. ", code(command("view", "explain", name, id))))];
  },
};
