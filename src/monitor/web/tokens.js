// tokens.js - the API tokens and their scopes. A secret is shown once, on creation.

import { path, post } from "./api.js";
import { h } from "./dom.js";
import { actButton, badge, code, commandLine, copyButton, empty, heading, notice, table, when } from "./parts.js";
import { because, command } from "./words.js";

const SCOPES = [["append", "Append events"], ["read", "Read everything"], ["operate", "Operate: deploy, requeue, rebuild …"],
  ["work", "Work"], ["admin", "Administer: all of them, and tokens"]];

// 30m, 12h, 90d as seconds.
function duration(text) {
  const found = /^(\d{1,6})(s|m|h|d)$/.exec(text);
  if (!found) throw new Error(`Expires after: ${text} is not a duration such as 12h or 90d`);
  return Number(found[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[found[2]];
}

function createAct(ctx) {
  const chosen = (v) => SCOPES.map(([s]) => s).filter((s) => v[s]).join(",");
  return { title: "Make a token", verb: "Make it",
    fields: [...SCOPES.map(([name, label]) => ({ name, label, kind: "check", value: name === "read" })),
      { name: "tenant", label: "For one tenant only (optional)", value: "" },
      { name: "expires", label: "Expires after", value: "90d", hint: "30m, 12h, 90d; empty: never" },
      { name: "note", label: "Note", value: "" }],
    command: (v) => command("token", "create", "--scope", chosen(v) || "read", ...(v.tenant ? ["--tenant", v.tenant] : []),
      ...(v.expires ? ["--expires", v.expires] : []), ...(v.note ? ["--note", v.note] : [])),
    run: async (v) => {
      const made = await post("/v1/tokens", { scopes: chosen(v), tenant: v.tenant || undefined, expires_seconds: v.expires ? duration(v.expires) : undefined, note: v.note || undefined });
      ctx.state.made = made;
      return "The token is made: copy it now.";
    } };
}

function revokeAct(t) {
  return { title: `Revoke ${t.id}`, verb: "Revoke", reason: "needed", typed: t.id, text: "The server refuses it within a second. This cannot be undone.",
    command: ({ reason }) => command("token", "revoke", t.id, ...because(reason)),
    run: async ({ reason }) => { await post(`${path`/v1/tokens/${t.id}`}:revoke`, { reason }); return "Revoked."; } };
}

export default {
  title: "Tokens",
  load: (ctx) => ctx.get("/v1/tokens"),
  view(items, ctx) {
    const made = ctx.state.made;
    return [heading("Tokens", h("div", { class: "buttons" }, actButton(ctx, "Make a token", () => createAct(ctx), { scope: "admin", tone: "primary" }))),
      made && notice("ok", "Copy it now: it is not shown again.", h("div", { class: "command" }, code(made.token), copyButton(made.token, "the token"))),
      h("section", { class: "panel" }, items.length > 0 ? table("Tokens", [
        { name: "Token", cell: (t) => code(t.id) }, { name: "State", cell: (t) => badge(t.state) },
        { name: "May", cell: (t) => t.scopes.join(", "), kind: "grow" }, { name: "Tenant", cell: (t) => t.tenant ?? "all" },
        { name: "Note", cell: (t) => t.note }, { name: "Made", cell: (t) => when(t.created_at) }, { name: "Expires", cell: (t) => when(t.expires_at) },
        { name: "", cell: (t) => t.state === "live" && actButton(ctx, "Revoke", () => revokeAct(t), { scope: "admin", tone: "danger quiet-button" }) },
      ], items, { key: (t) => t.id }) : empty("No tokens.", "Without tokens, the server accepts requests from this machine only. The first token changes that."),
      commandLine(command("token", "ls")))];
  },
};
