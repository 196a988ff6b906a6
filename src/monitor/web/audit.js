// audit.js - what operators did.

import { query } from "./api.js";
import { h } from "./dom.js";
import { badge, commandLine, empty, heading, href, link, pager, table, when } from "./parts.js";
import { command } from "./words.js";

const PAGE = 100;
const OF_A_ROW = new Set(["requeue", "skip", "replay"]);

function about(a) {
  if (OF_A_ROW.has(a.act) && !a.seq) return `${a.rows} rows${a.stream ? ` of ${a.stream}` : ""}`;
  if (a.stream && OF_A_ROW.has(a.act))
    return link(href("row", a.lane, a.stream, String(a.seq), { tenant: a.tenant }), `${a.stream} · ${a.seq}`);
  if (a.act === "switch" || a.act === "rollback") return `from generation ${a.seq}`;
  return a.stream || "–";
}

export default {
  title: "Audit",
  load: (ctx) => ctx.get(`/v1/audit${query({ limit: PAGE, before: ctx.query.before })}`),
  view(items, ctx) {
    return [heading("Audit"), h("p", { class: "quiet" }, "What operators did, the newest first; it is kept for good."),
      h("section", { class: "panel" }, items.length > 0 ? table("Acts", [
        { name: "When", cell: (a) => when(a.at) }, { name: "Act", cell: (a) => badge(a.act, a.act === "skip" ? "warn" : "calm") },
        { name: "Who", cell: (a) => a.who }, { name: "Of", cell: (a) => a.lane || "–" }, { name: "What", cell: about },
        { name: "Reason", cell: (a) => a.reason || "–", kind: "grow" },
      ], items, { key: (a) => String(a.id) }) : empty("Nothing yet.", "Requeues, skips, switches and the like are noted here."),
      pager("Pages of acts", ctx.query.before && link(href("audit"), "To the newest"),
        items.length === PAGE && link(href("audit", { before: String(items[PAGE - 1].id) }), "Older")), commandLine(command("act", "ls")))];
  },
};
