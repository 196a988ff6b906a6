// gaps.js - events of a stream that a projection has not applied and that no outbox row will deliver.

import { post } from "./api.js";
import { h } from "./dom.js";
import { actButton, badge, commandLine, empty, heading, href, link, table } from "./parts.js";
import { because, command, num, plural } from "./words.js";

function repairAct(ctx) {
  return { title: "Repair gaps", verb: "Repair", reason: "asked",
    text: "The missing events are applied from the journal, in order. Events that a projection has applied are not applied again.",
    command: ({ reason }) => command("gaps", "repair", ...because(reason)),
    run: async ({ reason }) => {
      const done = await post("/v1/gaps:repair", { reason });
      ctx.state.asked = 0;
      return `${plural(done.gaps.reduce((n, g) => n + num(g.replayed), 0), "event")} applied.`;
    } };
}

export default {
  title: "Gaps",
  every: 15000, // compares every stream with every projection, which is expensive
  load: (ctx) => ctx.get("/v1/gaps"),
  view({ gaps }, ctx) {
    return [heading("Gaps", gaps.length > 0 && ctx.who.tenant === null && h("div", { class: "buttons" }, actButton(ctx, "Repair", () => repairAct(ctx), { tone: "primary" }))),
      h("p", { class: "quiet" }, "Watermarks of projections against the heads of streams."),
      h("section", { class: "panel" }, gaps.length > 0 ? table("Gaps", [
        { name: "Stream", cell: (g) => g.stream, kind: "grow" },
        { name: "Projection", cell: (g) => link(href("projection", g.projection), g.projection) },
        { name: "Applied up to", cell: (g) => String(g.applied_seq), kind: "number" },
        { name: "Next", cell: (g) => String(g.expected_next_seq), kind: "number" },
        { name: "Journal has", cell: (g) => String(g.journal_seq), kind: "number" },
        { name: "Note", cell: (g) => num(g.journal_seq) < num(g.applied_seq) ? badge("the journal lost events", "bad") : null },
      ], gaps, { key: (g) => `${g.projection}/${g.tenant}/${g.stream}`, to: (g) => href("stream", g.stream, { tenant: g.tenant }) })
        : empty("No gaps.", "Every projection has applied every event up to its position."), commandLine(command("gaps", "detect")))];
  },
};
