// views.js - queries of views in the expression language of programs, with completion.

import { path, query } from "./api.js";
import { h } from "./dom.js";
import { leaves, members, plain } from "./json.js";
import { asked, commandLine, empty, heading, href, json, link, notice, pager, table } from "./parts.js";
import { command, count, forTenant, plural } from "./words.js";

const PAGE = 50, COLUMNS_MAX = 7;
const WORDS = ["and", "or", "not", "in", "true", "false", "null", "if", "then", "else", "view_id", "last_event_sequence",
  "length(", "contains(", "starts_with(", "ends_with(", "lower(", "upper(", "exists("];

// Paths in the views of earlier results, offered as completions.
function pathsOf(items) {
  const found = new Set();
  for (const item of items) for (const [name] of leaves(item.data)) {
    const clean = name.replace(/\[\d+\]/g, "[0]");
    if (clean && !clean.includes("[0]")) found.add(clean);
  }
  return [...found].slice(0, 200);
}

function wordAt(input) {
  const before = input.value.slice(0, input.selectionStart);
  return /[A-Za-z_][A-Za-z0-9_.]*$/.exec(before)?.[0] ?? "";
}

function suggestions(ctx, input) {
  const word = wordAt(input);
  if (word.length === 0) return [];
  return [...ctx.state.paths ?? [], ...WORDS].filter((w) => w.startsWith(word) && w !== word).slice(0, 8);
}

function complete(ctx, input, choice) {
  const word = wordAt(input), at = input.selectionStart;
  input.value = input.value.slice(0, at - word.length) + choice + input.value.slice(at);
  input.setSelectionRange(at - word.length + choice.length, at - word.length + choice.length);
  Object.assign(ctx.state, { offers: [], at: 0, where: input.value });
  ctx.draw();
  input.focus();
}

function onKey(ctx, event, go) {
  const s = ctx.state, offers = s.offers ?? [];
  if (event.key === "Enter" && offers.length === 0) { event.preventDefault(); go({ where: event.target.value }); return; }
  if (offers.length === 0) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    s.at = ((s.at ?? 0) + (event.key === "ArrowDown" ? 1 : offers.length - 1)) % offers.length;
    ctx.draw();
  } else if (event.key === "Tab" || event.key === "Enter") {
    event.preventDefault();
    complete(ctx, event.target, offers[s.at ?? 0]);
  } else if (event.key === "Escape") { s.offers = []; ctx.draw(); }
}

// A combobox by the ARIA guidelines: the input names the list, and the option by its id.
function whereBox(ctx, go) {
  const s = ctx.state, offers = s.offers ?? [];
  return h("div", { class: "combo" }, h("label", { for: "where" }, "Where"),
    h("input", { id: "where", type: "text", value: ctx.query.where ?? "", spellcheck: "false", autocomplete: "off",
      placeholder: "total > 100 and status == \"gold\"", role: "combobox", "aria-expanded": String(offers.length > 0),
      "aria-controls": "offers", "aria-autocomplete": "list", "aria-activedescendant": offers.length > 0 ? `offer-${s.at ?? 0}` : undefined,
      on: { input: (e) => { s.offers = suggestions(ctx, e.target); s.at = 0; ctx.draw(); },
        keydown: (e) => onKey(ctx, e, go), blur: () => setTimeout(() => { s.offers = []; ctx.draw(); }, 150) } }),
    h("ul", { id: "offers", role: "listbox", "aria-label": "Completions", class: offers.length > 0 ? "" : "hidden-list" },
      offers.map((o, i) => h("li", { id: `offer-${i}`, role: "option", "aria-selected": String(i === (s.at ?? 0)),
        on: { mousedown: (e) => { e.preventDefault(); complete(ctx, document.getElementById("where"), o); } } }, o))));
}

function queryBox(ctx, names) {
  const q = ctx.query, name = ctx.params[0];
  const go = (change) => { location.hash = href("views", change.name ?? name, { ...asked(), after: undefined, ...change, name: undefined }); };
  const input = (key, label, hint) => h("label", {}, `${label} `, h("input", { type: "text", value: q[key] ?? "", placeholder: hint,
    size: "14", on: { change: (e) => go({ [key]: e.target.value.trim() }) } }));
  return h("form", { class: "querybox panel", role: "search", on: { submit: (e) => {
    e.preventDefault();
    go({ where: document.getElementById("where").value.trim() });
  } } },
  h("div", { class: "filters" }, h("label", {}, "Projection ", h("select", { on: { change: (e) => {
    location.hash = href("views", e.target.value, { tenant: q.tenant });
  } } }, names.map((n) => h("option", { value: n, selected: n === name }, n)))),
  input("sort", "Sort", "-total,name"), input("tenant", "Tenant", "the blank one"),
  h("button", { type: "button", "aria-pressed": String(q.as === "json"), on: { click: () => go({ as: q.as === "json" ? "" : "json" }) } }, q.as === "json" ? "As a table" : "As JSON")),
  whereBox(ctx, go), h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Ask")));
}

function results(name, answer, q) {
  const to = (v) => href("view", name, v.view_id, { tenant: v.tenant });
  if (q.as === "json") return answer.items.map((v) => h("article", { class: "panel", "data-key": v.view_id },
    h("h3", {}, h("a", { href: to(v) }, v.view_id)), json(v.data, `view ${v.view_id}`)));
  const parsed = answer.items.map((v) => ({ v, cells: new Map(members(v.data) ?? []) }));
  const columns = [...new Set(parsed.flatMap(({ cells }) => [...cells.keys()]))].slice(0, COLUMNS_MAX);
  return table("Views", [{ name: "View", cell: ({ v }) => v.view_id },
    ...columns.map((c) => ({ name: c, cell: ({ cells }) => cells.has(c) ? h("span", { class: "clip one" }, plain(cells.get(c))) : null,
      kind: parsed.every(({ cells }) => !cells.has(c) || /^-?\d/.test(cells.get(c))) ? "number" : "" })),
    { name: "Changed at", cell: ({ v }) => String(v.last_event_sequence), kind: "number" }],
  parsed, { key: ({ v }) => v.view_id, to: ({ v }) => to(v) });
}

export default {
  title: "Views",
  async load(ctx) {
    const projections = (await ctx.get("/v1/projections")).filter((p) => p.routed);
    const names = projections.map((p) => p.name);
    if (!ctx.params[0] && names.length > 0) { location.replace(href("views", names[0])); return { names, answer: null }; }
    if (names.length === 0) return { names, answer: null };
    const { where, sort, tenant, after } = ctx.query;
    const base = path`/v1/views/${ctx.params[0]}`;
    try {
      const [answer, total] = await Promise.all([ctx.get(base + query({ where, sort, after, limit: PAGE, explain: "true" }), { tenant }),
        ctx.get(base + query({ where, count: "true" }), { tenant })]);
      ctx.state.paths = pathsOf(answer.items.length > 0 ? answer.items : []).concat(ctx.state.paths ?? [])
        .filter((p, i, all) => all.indexOf(p) === i).slice(0, 200);
      return { names, answer, total: total.count };
    } catch (error) {
      if (error.status !== 400) throw error;
      return { names, answer: null, mistake: error.message };
    }
  },
  view({ names, answer, total, mistake }, ctx) {
    const name = ctx.params[0], q = ctx.query;
    if (names.length === 0) return [heading("Views"), empty("No projection yet.", "Projections fold events into views.")];
    return [heading("Views"), queryBox(ctx, names),
      mistake && notice("bad", "The query is invalid.", h("pre", { class: "excerpt" }, mistake)),
      answer && [h("details", { class: "quiet", "data-key": "plan" }, h("summary", {}, `${plural(total, "view")}, complete up to position ${answer.as_of}`),
        h("pre", { class: "excerpt" }, answer.plan, `\n${plural(answer.looked, "view")} read`)),
        h("section", { class: q.as === "json" ? "" : "panel" }, answer.items.length > 0 ? results(name, answer, q) : empty("No view matches.", "")),
        pager("Pages of views", q.after && link(href("views", name, { ...q, after: undefined }), "To the first"),
          answer.next && link(href("views", name, { ...q, after: answer.next }), `Next ${PAGE}`)),
        commandLine(command("view", "query", name, ...(q.where ? ["--where", q.where] : []), ...(q.sort ? ["--sort", q.sort] : []),
          ...(q.after ? ["--after", q.after] : []), ...(q.as === "json" ? ["-o", "json"] : []), ...forTenant(q.tenant)))]];
  },
};
