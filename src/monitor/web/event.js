// event.js - one event: data and meta byte for byte, its causes and the events that it caused.

import { path, post, query } from "./api.js";
import { h } from "./dom.js";
import { members, plain } from "./json.js";
import { trialBox } from "./row.js";
import { badge, code, commandLine, empty, facts, heading, href, json, link, moment, when } from "./parts.js";
import { command, forTenant } from "./words.js";

const LINKS = new Set(["causation", "causation_id", "correlation", "correlation_id"]);
const PROJECTIONS_LOOKED = 8;
const FOLLOWERS_LOOKED = 1000; // later events that are searched for those that it caused

export function eventFacts(e) {
  return facts(["Stream", link(href("stream", e.stream, { tenant: e.tenant, seq: String(e.seq) }), e.stream)],
    ["Seq", String(e.seq)], ["Position", String(e.position)], ["Type", code(e.type)], ["Schema", String(e.schema)],
    ["Id", link(href("event", e.id, { tenant: e.tenant }), code(e.id))], e.tenant && ["Tenant", e.tenant],
    ["Happened", moment(e.time)], ["Recorded", when(e.recorded_at)]);
}

function metaLinks(e) {
  return (members(e.meta) ?? []).filter(([key]) => LINKS.has(key)).map(([key, raw]) => ({ key, id: plain(raw) }));
}

// The later events that name it as their cause. The search is bounded because no index helps it.
async function followers(ctx, e) {
  if (ctx.state.followers) return ctx.state.followers;
  const behind = await ctx.get(`/v1/events${query({ after: e.position, limit: FOLLOWERS_LOOKED })}`, { tenant: e.tenant });
  ctx.state.followers = behind.filter((other) => metaLinks(other).some((l) => l.key.startsWith("causation") && l.id === e.id));
  return ctx.state.followers;
}

function causation(e, causes, caused) {
  const one = (label, other) => h("li", {}, h("span", { class: "quiet" }, `${label} `),
    link(href("event", other.id, { tenant: e.tenant }), `${other.type} · ${other.stream} · ${other.seq}`));
  return h("section", { class: "panel" }, h("h2", {}, "Why and what then"),
    causes.length + caused.length === 0 ? empty("No links.", "An event's meta may name causation_id and correlation_id.")
      : h("ol", { class: "lineage" },
        causes.map((c) => c.event ? one(c.key.startsWith("causation") ? "caused by" : "belongs to", c.event)
          : h("li", {}, h("span", { class: "quiet" }, `${c.key} `), code(c.id))),
        h("li", { class: "this" }, h("b", {}, `${e.type} · ${e.stream} · ${e.seq}`)),
        caused.map((other) => one("caused", other))));
}

// The event as the newest program of a projection sees it: upcasts change the data before its handlers.
async function look(ctx, projection, e) {
  if (!projection || ctx.state.seenBy === projection) return;
  ctx.state.seen = await post(`${path`/v1/projections/${projection}`}:try`, { stream: e.stream, seq: e.seq }, { tenant: e.tenant })
    .catch(() => null); // a projection in C, or one that is being created: nothing to show
  ctx.state.seenBy = projection;
}

// The first of a few projections that has an upcast for it; otherwise the first.
async function upcasting(ctx, names, e) {
  for (const name of names.slice(0, PROJECTIONS_LOOKED)) {
    await look(ctx, name, e);
    if (ctx.state.seen && String(ctx.state.seen.schema) !== String(e.schema)) return name;
  }
  return names[0];
}

function seen(ctx, e) {
  const trial = ctx.state.seen;
  if (!trial) return null;
  const changed = String(trial.schema) !== String(e.schema);
  return h("section", { class: "panel", "data-key": "seen" },
    h("h2", {}, `As version ${trial.version} of ${ctx.state.seenBy} sees it`),
    changed ? [h("p", {}, badge("upcast", "busy"), ` from schema ${e.schema} to ${trial.schema}`), json(trial.seen, "the data after upcasts")]
      : h("p", { class: "quiet" }, "No upcast applies: its handlers see the data as it was appended."));
}

export default {
  title: "Event",
  async load(ctx) {
    const tenant = ctx.query.tenant ?? "";
    const e = ctx.state.event ??= await ctx.get(path`/v1/events/${ctx.params[0]}`, { tenant });
    ctx.state.causes ??= await Promise.all(metaLinks(e).map(async (l) => ({ ...l,
      event: await ctx.get(path`/v1/events/${l.id}`, { tenant }).catch(() => null) })));
    const projections = (await ctx.get("/v1/projections")).filter((p) => p.state !== "retired");
    const names = [...new Set(projections.map((p) => p.name))];
    const chosen = ctx.state.projection ??= await upcasting(ctx, names, e);
    await look(ctx, chosen, e);
    return { e, causes: ctx.state.causes, caused: await followers(ctx, e), projections, names, chosen };
  },
  view({ e, causes, caused, projections, names, chosen }, ctx) {
    return [heading([e.type, h("span", { class: "quiet" }, ` · ${e.stream} · ${e.seq}`)]),
      h("section", { class: "panel" }, eventFacts(e), commandLine(command("event", "show", e.id, ...forTenant(e.tenant)))),
      h("div", { class: "two" }, h("section", { class: "panel" }, h("h2", {}, "Data"), json(e.data, "the data")),
        h("section", { class: "panel" }, h("h2", {}, "Meta"), json(e.meta, "the meta"))),
      causation(e, causes, caused),
      chosen && [seen(ctx, e), trialBox(ctx, chosen, e, projections.filter((p) => p.name === chosen),
        h("label", {}, "Projection ", h("select", { on: { change: (c) => {
          Object.assign(ctx.state, { projection: c.target.value, trial: null, generation: 0 });
          ctx.refresh();
        } } }, names.map((n) => h("option", { value: n, selected: n === chosen }, n)))))]];
  },
};
