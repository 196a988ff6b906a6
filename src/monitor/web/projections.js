// projections.js - all projections, and deploying a program.

import { ask, path } from "./api.js";
import { h } from "./dom.js";
import { projectionTable } from "./overview.js";
import { actButton, empty, heading } from "./parts.js";
import { command } from "./words.js";

const NAME = /^\s*projection\s+([A-Za-z_][A-Za-z0-9_]*)/m;
const FIRST = `projection customers version 1
  view data.customer
  index total

on order.placed
  orders += 1
  total  += data.amount
`;

// A program is deployed to the projection that it names.
export function deployAct(text) {
  return {
    title: "Deploy a program", verb: "Deploy",
    text: "A new version is built from the first event, beside the active one. Queries read it after you switch.",
    fields: [{ name: "program", label: "Program", kind: "area", value: text ?? FIRST }],
    command: ({ program }) => command("projection", "deploy", `${NAME.exec(program ?? "")?.[1] ?? "program"}.fold`),
    run: async ({ program }) => {
      const name = NAME.exec(program)?.[1];
      if (!name) throw new Error("The program does not begin with: projection NAME version N");
      await ask("PUT", path`/v1/projections/${name}`, { body: `${program}\n`, type: "text/plain" });
      return `${name} is deployed.`;
    },
  };
}

export default {
  title: "Projections",
  load: (ctx) => ctx.get("/v1/projections"),
  view(items, ctx) {
    return [heading("Projections", h("div", { class: "buttons" },
      actButton(ctx, "Deploy a program", () => deployAct(), { tone: "primary" }))),
    h("section", { class: "panel" }, items.length > 0 ? projectionTable(items)
      : empty("No projection yet.", "Write a fold program and deploy it: it catches up from the first event."))];
  },
};
