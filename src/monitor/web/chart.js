// chart.js - a line over the last hour, drawn as SVG, without a library.

import { h, svg } from "./dom.js";
import { clock } from "./words.js";

const HOUR_MS = 3600000;
const LEFT = 46, RIGHT = 8, TOP = 10, BOTTOM = 22;

// 1, 2, 5, 10 … the first step width with which `steps` steps reach `value`.
function niceStep(value, steps) {
  const rough = Math.max(value, 1e-9) / steps;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
}

function line(points, x, y) {
  const path = points.map(([t, v], i) => `${i ? "L" : "M"}${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  return points.length === 1 ? `${path}h.1` : path; // one point alone is a dot
}

function area(points, x, y) {
  if (points.length < 2) return "";
  return `${line(points, x, y)}L${x(points[points.length - 1][0]).toFixed(1)} ${y(0)}` +
    `L${x(points[0][0]).toFixed(1)} ${y(0)}Z`;
}

function axis(x, y, width, height, top, step, format, now) {
  const out = [];
  for (let v = 0; v <= top * 1.001; v += step)
    out.push(svg("line", { class: v === 0 ? "base" : "grid", x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }),
      svg("text", { class: "tick", x: LEFT - 8, y: y(v) + 4, "text-anchor": "end" }, format(v)));
  const quarter = 15 * 60000;
  for (let t = Math.ceil((now - HOUR_MS) / quarter) * quarter; t <= now; t += quarter)
    if (x(t) > LEFT + 14 && x(t) < width - 20)
      out.push(svg("text", { class: "tick", x: x(t), y: height - 4, "text-anchor": "middle" }, clock(t)));
  return out;
}

// Shows the values at the time under the pointer in the legend; `ms` null: the current ones. Nodes are
// looked up per event, because the page updates its nodes in place.
function tell(figure, series, x, format, ms) {
  const cursor = figure.querySelector(".cursor");
  cursor.setAttribute("class", ms === null ? "cursor away" : "cursor");
  cursor.setAttribute("x1", ms === null ? 0 : x(ms));
  cursor.setAttribute("x2", ms === null ? 0 : x(ms));
  figure.querySelector(".at").textContent = ms === null ? "now" : `at ${clock(ms)}`;
  figure.querySelectorAll(".legend b").forEach((node, i) => {
    const points = series[i].points;
    const found = ms === null ? points[points.length - 1] : points.find(([t]) => t >= ms) ?? points[points.length - 1];
    node.textContent = format(found ? found[1] : 0);
  });
}

function nearest(event, series, x, width) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = (event.clientX - box.left) * (width / box.width);
  let best = null;
  for (const [t] of series[0].points)
    if (best === null || Math.abs(x(t) - at) < Math.abs(x(best) - at)) best = t;
  return best;
}

// series: [{name, tone, points: [[ms, value]…]}]; `format` formats a value.
export function chart(title, series, { width, height = 190, now = Date.now(), format, unit }) {
  const most = Math.max(0, ...series.flatMap((s) => s.points.map(([, v]) => v)));
  const step = niceStep(most || 1, 4);
  const top = Math.max(step, Math.ceil((most || step) / step - 0.001) * step);
  const x = (t) => LEFT + (t - (now - HOUR_MS)) / HOUR_MS * (width - LEFT - RIGHT);
  const y = (v) => TOP + (1 - v / top) * (height - TOP - BOTTOM);
  const last = series.map((s) => s.points.length > 0 ? s.points[s.points.length - 1][1] : 0);
  const words = series.map((s, i) => `${s.name} ${format(last[i])} ${unit} now, at most ${format(
    Math.max(0, ...s.points.map(([, v]) => v)))}`).join("; ");
  const on = {
    pointermove: (event) =>
      tell(event.currentTarget.closest("figure"), series, x, format, nearest(event, series, x, width)),
    pointerleave: (event) => tell(event.currentTarget.closest("figure"), series, x, format, null),
  };
  return h("figure", { class: "chart panel", "data-key": title },
    h("figcaption", {}, h("span", { class: "strong" }, title),
      h("span", { class: "legend" }, series.map((s, i) =>
        h("span", {}, h("i", { class: `swatch ${s.tone}` }), `${s.name} `, h("b", {}, format(last[i])), ` ${unit}`)),
      h("span", { class: "quiet at" }, "now"))),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
      "aria-label": `${title}: ${words}`, on },
    axis(x, y, width, height, top, step, format, now),
    series.map((s) => [svg("path", { class: `fill ${s.tone}`, d: area(s.points, x, y) }),
      svg("path", { class: `line ${s.tone}`, d: line(s.points, x, y) })]),
    svg("line", { class: "cursor away", y1: TOP, y2: height - BOTTOM })));
}

// Converts totals to rates per second, sample by sample; a total that fell was reset.
export function rates(samples, value, span = 3) {
  const out = [];
  for (let i = 1; i < samples.length; i++) {
    const from = samples[Math.max(0, i - span)], to = samples[i];
    const dt = (to.ms - from.ms) / 1000;
    const grown = value(to) - value(from);
    if (dt > 0) out.push([to.ms, Math.max(0, grown) / dt]);
  }
  return out;
}
