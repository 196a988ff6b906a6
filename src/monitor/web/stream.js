// stream.js - the timeline of one stream, the newest first, paged backwards.

import { path, query } from "./api.js";
import { h } from "./dom.js";
import { badge, commandLine, heading, href, json, link, pager, when } from "./parts.js";
import { command, count, forTenant, num } from "./words.js";

const PAGE = 50;

export default {
  title: (ctx) => ctx.params[0],
  async load(ctx) {
    const [name] = ctx.params, { tenant = "", seq } = ctx.query;
    const head = await ctx.get(path`/v1/streams/${name}`, { tenant });
    const last = num(head.seq), upto = Math.min(last, seq ? Math.max(num(seq) + Math.floor(PAGE / 2), PAGE) : last);
    const from = Math.max(1, upto - PAGE + 1);
    const events = last === 0 ? [] : await ctx.get(path`/v1/streams/${name}/events` + query({ from_seq: from, limit: upto - from + 1 }), { tenant });
    return { name, tenant, head, events: events.reverse(), from, upto, last, chosen: seq };
  },
  view({ name, tenant, head, events, from, upto, last, chosen }, ctx) {
    const page = (n) => href("stream", name, { tenant, seq: String(n) });
    return [heading([name, " ", badge(`${count(head.seq)} events`, "calm")]),
      commandLine(command("event", "ls", name, "--from-seq", String(from), ...forTenant(tenant))),
      h("section", { class: "panel" }, h("ol", { class: "timeline", reversed: true }, events.map((e) =>
        h("li", { "data-key": String(e.seq), class: String(e.seq) === chosen ? "chosen" : "" },
          h("span", { class: "seq" }, String(e.seq)),
          h("div", {}, h("p", {}, link(href("event", e.id, { tenant }), e.type), h("span", { class: "quiet" }, " ", when(e.recorded_at), ` · position ${e.position}`)),
            h("details", { open: String(e.seq) === chosen }, h("summary", {}, h("code", { class: "clip one" }, String(e.data).slice(0, 200))),
              json(e.data, "the data")))))),
      pager("Pages of events",
        upto < last && link(page(Math.min(last, upto + PAGE)), "Newer"), from > 1 && link(page(Math.max(1, from - Math.floor(PAGE / 2) - 1)), "Older")))];
  },
};
