// words.js - formats numbers, times and commands as text.

import { Exact } from "./json.js";

// For drawing and comparing only: text is made from the exact value.
export function num(value) {
  return value instanceof Exact ? Number(value.text) : Number(value ?? 0);
}

// 1234567 as 1,234,567, whatever its length.
export function count(value) {
  if (value === null || value === undefined) return "–";
  const text = String(value);
  if (!/^-?\d+$/.test(text)) return text;
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// The number of published rows that a publisher keeps. A server counts up to 100,000.
export function kept(publisher) {
  return num(publisher.kept) < 100000 ? count(publisher.kept) : `${count(publisher.kept)} or more`;
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${String(value) === "1" ? one : many}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const s = Number(value);
  if (s < 0.0005) return "0 s";
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

export function rate(value) {
  if (!isFinite(value)) return "–";
  if (value === 0) return "0";
  if (value < 0.1) return "< 0.1";
  return value < 10 ? value.toFixed(1) : count(Math.round(value));
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = num(value), unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit++; }
  return `${n < 10 && unit > 0 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

export function ago(time, now = Date.now()) {
  if (!time) return "–";
  const s = (now - Date.parse(time)) / 1000;
  if (s < 0) return `in ${seconds(-s)}`;
  return s < 1 ? "just now" : `${seconds(s)} ago`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

// catching_up as "catching up".
export function words(name) { return String(name ?? "").replaceAll("_", " "); }

function quote(word) {
  const text = String(word);
  // Control characters are written by their number.
  if (/[\u0000-\u001f\u007f-\u009f]/.test(text))
    return `$'${[...new TextEncoder().encode(text)].map((b) => b < 32 || b > 126 || b === 39 || b === 92
      ? `\\x${b.toString(16).padStart(2, "0")}` : String.fromCharCode(b)).join("")}'`;
  return /^[A-Za-z0-9_\-./:=,@%+]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// The equivalent command, quoted for a shell: command("outbox", "skip", stream, seq).
export function command(...parts) {
  return ["everfold", ...parts.filter((p) => p !== null && p !== undefined && p !== false)]
    .map(quote).join(" ");
}

// --tenant T, if the tenant is not blank.
export function forTenant(tenant) { return tenant ? ["--tenant", tenant] : []; }

// --reason TEXT, if a reason was given.
export function because(reason) { return reason ? ["--reason", reason] : []; }
