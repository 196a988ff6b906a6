// audit.js - the audit entries: actions of operators, with actor and reason.

import { query } from "./api.js";
import { h } from "./dom.js";
import { badge, commandLine, empty, heading, href, link, pager, table, when } from "./parts.js";
import { command } from "./words.js";

const PAGE = 100;
const OF_A_ROW = new Set(["requeue", "skip", "replay"]);

function about(a) {
  if (OF_A_ROW.has(a.action) && !a.seq) return `${a.rows} rows${a.stream ? ` of ${a.stream}` : ""}`;
  if (a.stream && OF_A_ROW.has(a.action))
    return link(href("row", a.lane, a.stream, String(a.seq), { tenant: a.tenant }), `${a.stream} · ${a.seq}`);
  if (a.action === "switch" || a.action === "rollback") return `from generation ${a.seq}`;
  return a.stream || "–";
}

export default {
  title: "Audit",
  load: (ctx) => ctx.get(`/v1/audit${query({ limit: PAGE, before: ctx.query.before })}`),
  view(items, ctx) {
    return [heading("Audit"), h("p", { class: "quiet" }, "Actions of operators, newest first. Entries are never deleted."),
      h("section", { class: "panel" }, items.length > 0 ? table("Audit entries", [
        { name: "When", cell: (a) => when(a.at) }, { name: "Action", cell: (a) => badge(a.action, a.action === "skip" ? "warn" : "calm") },
        { name: "Actor", cell: (a) => a.actor }, { name: "Of", cell: (a) => a.lane || "–" }, { name: "What", cell: about },
        { name: "Reason", cell: (a) => a.reason || "–", kind: "grow" },
      ], items, { key: (a) => String(a.id) }) : empty("No audit entries.", "Requeues, skips, switches and similar actions are recorded here."),
      pager("Pages of audit entries", ctx.query.before && link(href("audit"), "To the newest"),
        items.length === PAGE && link(href("audit", { before: String(items[PAGE - 1].id) }), "Older")), commandLine(command("audit", "ls")))];
  },
};
