// api.js - requests to the public HTTP API, with the token that the user entered.

import { parse, write } from "./json.js";

const TOKEN = "everfold.token";

// A reverse proxy may serve the page under any path, so requests use paths relative to it.
const HERE = new URL(".", location.href);
function address(target) { return new URL(target.slice(1), HERE); }

// An error response, with the message of the server.
export class Problem extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `the server answers ${status}`);
    this.status = status;
    this.code = problem?.code ?? "";
    this.problem = problem;
  }
}

export function hasToken() { return sessionStorage.getItem(TOKEN) !== null; }
export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

function headersOf({ tenant, body, type } = {}) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (tenant) headers["X-Tenant-Id"] = tenant;
  if (body !== undefined) headers["Content-Type"] = type ?? "application/json";
  return headers;
}

// path`/v1/streams/${name}/events`: the values are escaped.
export function path(parts, ...values) {
  return parts.reduce((all, part, i) => all + encodeURIComponent(values[i - 1]) + part);
}

export function query(values) {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries(values))
    if (value !== undefined && value !== null && value !== "") out.set(key, value);
  const text = out.toString();
  return text ? `?${text}` : "";
}

async function problemOf(response) {
  let problem = null;
  try { problem = parse(await response.text()); } catch { /* a proxy's page: the status will do */ }
  return new Problem(response.status, problem);
}

// The answer, parsed; `next` of the options is called with the header Everfold-Next.
export async function ask(method, target, { body, signal, next, ...options } = {}) {
  const text = body === undefined || typeof body === "string" ? body : write(body);
  const response = await fetch(address(target), {
    method, signal, headers: headersOf({ ...options, body: text }), body: text,
    cache: "no-store", credentials: "omit", redirect: "error",
  });
  if (!response.ok) throw await problemOf(response);
  next?.(response.headers.get("Everfold-Next"));
  const answer = await response.text();
  return (response.headers.get("Content-Type") ?? "").includes("json") ? parse(answer) : answer;
}

export function get(target, options) { return ask("GET", target, options); }
export function post(target, body, options) { return ask("POST", target, { ...options, body: body ?? {} }); }

// Server-sent events, with a token, which an EventSource cannot bring: `each` gets the data of each.
export async function follow(target, each, options = {}) {
  const response = await fetch(address(target), { signal: options.signal, cache: "no-store",
    headers: { ...headersOf(options), Accept: "text/event-stream" } });
  if (!response.ok) throw await problemOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const lines = rest.slice(0, end).split("\n").filter((line) => line.startsWith("data:"));
      if (lines.length > 0) each(parse(lines.map((line) => line.slice(5)).join("\n")));
    }
  }
}
