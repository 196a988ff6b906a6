// dag.js - the graph of a program: what its statements read, and their dependencies.
//
// A block (a handler, an upcast, a migration) is a graph in layers from left to right: what is read
// of the event and of the view, what is computed from it, and the statements in their order.

import { h, svg } from "./dom.js";

const CHAR = 7.1, HIGH = 26, GAP_Y = 8, GAP_X = 44, LANE = 8, PAD = 8, LONGEST = 34, NODES_MAX = 150;

function short(text) { return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text; }

function layersOf(block) {
  const nodes = new Map();
  for (const n of block.nodes) nodes.set(n.id, { ...n, kind: n.uses.includes("view") ? "view"
    : n.uses.includes("event") ? "event" : "constant", layer: 0, into: [] });
  for (const s of block.statements) nodes.set(s.id, { ...s, kind: "statement", layer: 0, into: [] });
  for (const e of block.edges) nodes.get(e.to)?.into.push(e.from);
  // Edges point from a dependency to its user, so as many passes as the graph is deep fix the layers.
  for (let changed = true, round = 0; changed && round < 40; round++) {
    changed = false;
    for (const n of nodes.values())
      for (const from of n.into) {
        const source = nodes.get(from);
        if (n.kind !== "statement" && source && n.layer <= source.layer) { n.layer = source.layer + 1; changed = true; }
      }
  }
  const deepest = Math.max(-1, ...[...nodes.values()].filter((n) => n.kind !== "statement").map((n) => n.layer));
  for (const n of nodes.values()) if (n.kind === "statement") n.layer = deepest + 1;
  // A node that is only read is placed just before its first user.
  for (const n of nodes.values())
    if (n.into.length === 0 && n.kind !== "statement")
      n.layer = Math.max(0, Math.min(...block.edges.filter((e) => e.from === n.id).map((e) => nodes.get(e.to).layer), deepest + 1) - 1);
  return nodes;
}

// An edge over several layers gets a slot of its own in each of them, so that no node covers it.
function lanes(nodes, edges) {
  for (const e of edges) {
    const from = nodes.get(e.from), to = nodes.get(e.to);
    e.way = [from];
    for (let layer = from.layer + 1; from.kind !== "statement" && layer < to.layer; layer++) {
      const id = `~${from.id}/${layer}`;
      if (!nodes.has(id)) nodes.set(id, { id, kind: from.kind, via: true, text: "", layer });
      e.way.push(nodes.get(id));
    }
    e.way.push(to);
  }
}

function tall(n) { return n.via ? LANE : HIGH; }

// Nodes with the same users are placed together: ordered by the mean slot of their users.
function place(nodes, edges) {
  const layers = [], out = new Map();
  for (const n of nodes.values()) (layers[n.layer] ??= []).push(n);
  for (const { way } of edges)
    way.slice(1).forEach((to, i) => (out.get(way[i]) ?? out.set(way[i], new Set()).get(way[i])).add(to));
  const filled = Array.from(layers, (layer) => layer ?? []);
  for (let i = filled.length - 1; i >= 0; i--) {
    for (const n of filled[i]) {
      const to = [...(out.get(n) ?? [])].filter((t) => t.layer > i);
      n.rank = to.length > 0 ? to.reduce((sum, t) => sum + t.y, 0) / to.length : 1e6;
    }
    if (i < filled.length - 1) filled[i].sort((a, b) => a.rank - b.rank);
    let y = PAD;
    for (const n of filled[i]) { n.y = y; y += tall(n) + GAP_Y; }
  }
  let x = PAD, high = 0;
  for (const layer of filled) {
    const width = Math.max(40, ...layer.map((n) => short(n.text).length * CHAR + 20 + inset(n)));
    for (const n of layer) { n.x = x; n.width = width; high = Math.max(high, n.y + tall(n)); }
    x += width + GAP_X;
  }
  return { width: x - GAP_X + PAD, height: high + PAD };
}

// A nested statement is indented.
function inset(n) { return (n.depth ?? 0) * 14; }

function edge({ way, why }) {
  const from = way[0], to = way[way.length - 1], y = (n) => n.y + tall(n) / 2;
  if (from.kind === "statement") {
    const x = to.x + to.width, bend = x + 18;
    return svg("path", { class: "edge order", d: `M${x} ${y(from)}C${bend} ${y(from)} ${bend} ${y(to)} ${x} ${y(to)}` },
      svg("title", {}, `after, because of ${why ?? "the order"}`));
  }
  let d = `M${from.x + from.width} ${y(from)}`;
  way.slice(1).forEach((n, i) => {
    const x1 = way[i].x + way[i].width, x2 = n.x + inset(n), mid = (x1 + x2) / 2;
    d += `C${mid} ${y(way[i])} ${mid} ${y(n)} ${x2} ${y(n)}${n.via ? `H${n.x + n.width}` : ""}`;
  });
  return svg("path", { class: `edge ${from.kind}`, d });
}

function box(n) {
  return svg("g", { class: `node ${n.kind}` },
    svg("rect", { x: n.x + inset(n), y: n.y, width: n.width - inset(n), height: HIGH, rx: n.kind === "statement" ? 4 : 13 }),
    svg("text", { x: n.x + inset(n) + 10, y: n.y + HIGH / 2 + 4 }, short(n.text)),
    svg("title", {}, n.line ? `line ${n.line}: ${n.text}` : n.text));
}

function drawBlock(block) {
  const nodes = layersOf(block);
  if (nodes.size === 0 || nodes.size > NODES_MAX)
    return h("p", { class: "quiet" }, nodes.size === 0 ? "nothing to draw" : `${nodes.size} parts: too many to draw`);
  const edges = block.edges.filter((e) => nodes.has(e.from) && nodes.has(e.to)).map((e) => ({ ...e }));
  lanes(nodes, edges);
  const { width, height } = place(nodes, edges);
  const words = block.statements.map((s) => s.text).join("; ");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${block.title}, drawn` },
    svg("svg", { class: "dag", viewBox: `0 0 ${width + 24} ${height}`, width: width + 24, height, role: "img",
      "aria-label": `${block.title}: ${words}` },
    edges.map(edge), [...nodes.values()].filter((n) => !n.via).map(box)));
}

export function dag(explained) {
  return [h("p", { class: "keys" }, [["event", "of the event"], ["view", "of the view"], ["constant", "constant"],
    ["statement", "statement"]].map(([kind, label]) => h("span", {}, h("i", { class: `key ${kind}` }), label))),
  explained.blocks.map((block, i) => h("details", { class: "block", open: i < 3, "data-key": `${block.line}` },
    h("summary", {}, h("code", {}, block.title), h("span", { class: "quiet" }, ` line ${block.line}`)), drawBlock(block)))];
}
