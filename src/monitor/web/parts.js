// parts.js - the shared elements of pages.

import { h, replace } from "./dom.js";
import { tokens, compare } from "./json.js";
import { count, words, ago } from "./words.js";

// --- status: text and colour ----------------------------------------------------------------------

const TONES = {
  live: "ok", working: "ok", completed: "ok", well: "ok", applied: "ok", owned: "ok", resolved: "ok", published: "ok",
  catching_up: "busy", running: "busy", processing: "busy", queued: "busy", starting: "busy",
  idle: "calm", pending: "calm", ignored: "calm", free: "calm", retired: "calm", cancelled: "calm", expired: "calm",
  paused: "warn", failed: "warn", retrying: "warn", blocked: "warn", late: "warn", behind: "warn",
  stopping: "warn", open: "warn",
  dead: "bad", stale: "bad", trouble: "bad", revoked: "bad",
};

export function badge(state, tone = TONES[state] ?? "calm", label = words(state)) {
  return h("span", { class: `badge ${tone}` }, label);
}

export function when(time) {
  if (!time) return h("span", { class: "quiet" }, "–");
  return h("time", { datetime: time, title: time }, ago(time));
}

// The exact time, for lists of facts.
export function moment(time) {
  return h("time", { datetime: time, class: "moment" }, String(time).replace("T", " ").replace(/Z$/, " UTC"));
}

export function code(value, title) { return h("code", { title }, value); }

export function link(href, ...children) { return h("a", { href }, ...children); }

export function href(page, ...rest) {
  const query = rest.length > 0 && typeof rest[rest.length - 1] === "object" ? rest.pop() : {};
  const given = Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${[page, ...rest].map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

// The query of the current address: a filter may change before the response to another one is drawn.
export function asked() { return Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? "")); }

export function heading(title, ...beside) {
  return h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, title), ...beside);
}

export function empty(title, more) {
  return h("div", { class: "empty" }, h("p", { class: "strong" }, title), more && h("p", { class: "quiet" }, more));
}

// A number that matters, and what it is.
export function card(label, value, more, { tone = "", to } = {}) {
  return h(to ? "a" : "div", { class: `card ${tone}`, href: to, "data-key": label },
    h("span", { class: "label" }, label), h("span", { class: "value" }, value),
    h("span", { class: "more" }, more ?? "\u00a0"));
}

export function facts(...pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, ...value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, ...value))));
}

// columns: [{name, cell(item), kind: "number"|"grow"}]; a row may lead somewhere.
export function table(caption, columns, items, { key, to, mark } = {}) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((c) =>
        h("th", { scope: "col", class: c.kind }, c.name || h("span", { class: "hidden" }, "Acts"))))),
      h("tbody", {}, items.map((item, i) =>
        h("tr", { "data-key": key ? key(item) : String(i), class: mark?.(item) },
          columns.map((c, at) => {
            const cell = c.cell(item);
            const inner = at === 0 && to ? link(to(item), cell) : Array.isArray(cell) ? h("span", {}, cell) : cell;
            return h("td", { class: c.kind, "data-name": c.name }, inner === "" ? null : inner);
          }))))));
}

export function tabs(label, items, current) {
  return h("nav", { class: "tabs", "aria-label": label }, items.map(({ name, to, label: text, number, tone }) =>
    h("a", { href: to, "aria-current": name === current ? "page" : undefined, "data-key": name },
      text, number !== undefined && h("span", { class: `pill ${num0(number) ? tone ?? "" : ""}` }, count(number)))));
}

// Links to the other pages of a list, if there are any.
export function pager(label, ...links) {
  return links.some(Boolean) && h("nav", { class: "pager", "aria-label": label }, ...links);
}

function num0(value) { return String(value) !== "0"; }

export function progress(done, total, label) {
  const share = total > 0 ? Math.min(1, done / total) : 0;
  return h("div", { class: "progress", role: "progressbar", "aria-label": label,
    "aria-valuenow": String(Math.round(share * 100)), "aria-valuemin": "0", "aria-valuemax": "100" },
  h("div", { style: { width: `${(share * 100).toFixed(1)}%` } }));
}

// --- JSON -----------------------------------------------------------------------------------------

const SHOWN_MAX = 20000; // tokens: longer JSON is cut, with a note

function jsonNodes(raw) {
  const out = [];
  let depth = 0, wasOpen = false, pieces = 0;
  const line = () => out.push(`\n${"  ".repeat(Math.min(depth, 40))}`);
  for (const [kind, piece] of tokens(raw)) {
    if (++pieces > SHOWN_MAX) { out.push(h("span", { class: "quiet" }, "\n… cut: copy to see all")); break; }
    if (kind === "close") { depth--; if (!wasOpen) line(); out.push(piece); wasOpen = false; continue; }
    if (wasOpen) line();
    wasOpen = kind === "open";
    if (kind === "open") { out.push(piece); depth++; }
    else if (kind === "comma") { out.push(piece); line(); }
    else if (kind === "colon") out.push(": ");
    else out.push(h("span", { class: `json-${kind}` }, piece));
  }
  return out;
}

export function json(raw, label = "JSON") {
  if (raw === null || raw === undefined) return h("p", { class: "quiet" }, "nothing");
  return h("div", { class: "codebox" }, copyButton(String(raw), label),
    h("pre", { class: "json", tabindex: "0", "aria-label": label }, jsonNodes(raw)));
}

// The difference between two states of a view.
export function changes(before, after) {
  const found = compare(before, after);
  if (found.length === 0) return h("p", { class: "quiet" }, "Nothing in it changed.");
  return h("ul", { class: "changes" }, found.slice(0, 200).map(({ path, before: old, after: now }) =>
    h("li", { class: old === undefined ? "added" : now === undefined ? "gone" : "changed" },
      h("code", {}, path || "(all of it)"),
      old !== undefined && h("del", {}, old), now !== undefined && h("ins", {}, now))),
  found.length > 200 && h("li", { class: "quiet" }, `and ${found.length - 200} more`));
}

// --- copying, announcing --------------------------------------------------------------------------

export function copyButton(value, label) {
  return h("button", { class: "copy", type: "button", "aria-label": `Copy ${label}`, on: { click: async () => {
    await navigator.clipboard?.writeText(value);
    say("Copied.");
  } } }, "Copy");
}

// The command line that does the same.
export function commandLine(line) {
  return h("div", { class: "command" }, h("span", { class: "hidden" }, "The same on the command line: "),
    h("code", {}, line.split(" ").map((word, i) => [i > 0 && " ", h("span", {}, word)])), copyButton(line, "the command"));
}

export function say(sentence, tone = "ok") {
  document.getElementById("announcement").textContent = sentence;
  const toast = h("div", { class: `toast ${tone}` }, sentence);
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), 6000);
}

export function notice(tone, title, ...more) {
  return h("div", { class: `notice ${tone}`, role: tone === "bad" ? "alert" : undefined },
    h("p", { class: "strong" }, title), ...more);
}

// --- actions --------------------------------------------------------------------------------------

function field(label, input, hint) {
  const id = `f${Math.random().toString(36).slice(2)}`;
  input.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label), input, hint && h("p", { class: "quiet" }, hint));
}

// The dialog that confirms an action:
//   title, text, command(values) -> line, verb, run(values) -> sentence
//   reason: "needed" | "asked" | undefined;  typed: the name to type before an action that cannot be undone
//   fields: [{name, label, kind: "text"|"area"|"check"|"select", value, options, hint}]
//   extra() -> a node shown below the fields
export function act(options) {
  const inputs = {};
  const dialog = h("dialog", { class: "act", "aria-labelledby": "act-title" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const shown = h("div", {});
  const go = h("button", { type: "submit", class: options.typed ? "danger" : "primary" }, options.verb);
  const values = () => Object.fromEntries(Object.entries(inputs).map(([name, input]) =>
    [name, input.type === "checkbox" ? input.checked : input.value.trim()]));
  const check = () => {
    const now = values();
    replace(shown, commandLine(options.command(now)));
    go.disabled = (options.typed && now.typed !== options.typed) ||
      (options.reason === "needed" && now.reason === "");
  };
  const rows = (options.fields ?? []).map((f) => {
    const input = f.kind === "area" ? h("textarea", { rows: "14", spellcheck: "false" })
      : f.kind === "select" ? h("select", {}, f.options.map((o) => h("option", { value: o[0] }, o[1])))
        : h("input", { type: f.kind === "check" ? "checkbox" : "text", autocomplete: "off" });
    if (f.kind === "check") input.checked = f.value ?? false;
    else if (f.value !== undefined) input.value = f.value;
    inputs[f.name] = input;
    return field(f.label, input, f.hint);
  });
  if (options.reason) {
    inputs.reason = h("input", { type: "text", autocomplete: "off", maxlength: "500" });
    rows.push(field(options.reason === "needed" ? "Reason (kept for good)" : "Reason (optional)", inputs.reason));
  }
  if (options.typed) {
    inputs.typed = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    rows.push(field(["Type ", h("b", {}, options.typed), " to be sure"], inputs.typed));
  }
  const form = h("form", { method: "dialog", on: { input: check, submit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    trouble.textContent = "";
    try {
      const sentence = await options.run(values());
      dialog.close();
      if (sentence) say(sentence);
    } catch (error) {
      replace(trouble, error.message);
      for (const m of error.problem?.mistakes ?? [])
        trouble.append(h("span", { class: "mistake" }, `line ${m.line}: ${m.message}`));
      go.disabled = false;
    }
  } } }, h("h2", { id: "act-title" }, options.title), options.text && h("p", {}, options.text), rows,
  options.extra?.(), shown, trouble,
  h("div", { class: "buttons" }, h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"), go));
  dialog.append(form);
  dialog.addEventListener("close", () => { dialog.remove(); options.after?.(); });
  document.body.append(dialog);
  check();
  dialog.showModal();
  return dialog;
}

// A button for an action, with its command as the hint; disabled without the scope.
export function actButton(ctx, label, options, { scope = "operate", tone = "" } = {}) {
  if (!ctx.can(scope)) return null;
  const make = typeof options === "function" ? options : () => options;
  const line = make().command({});
  return h("button", { type: "button", class: tone, title: line, "data-command": line, "data-key": `act-${label}`,
    on: { click: () => act({ ...make(), after: () => ctx.refresh() }) } }, label);
}
