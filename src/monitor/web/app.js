// app.js - the frame: the current page, the session of the token, and when the page is loaded again.
//
// A page is {title, load(ctx) -> data, view(data, ctx) -> node, every}. It is loaded when it is
// opened and again every few seconds while the tab is visible; a new drawing updates the existing nodes.
// An address is #/page/name?filter, so that a link reproduces the state of a page.

import { get, hasToken, setToken, Problem } from "./api.js";
import { h, morph, replace } from "./dom.js";
import { badge, notice, say } from "./parts.js";
import overview from "./overview.js";
import projections from "./projections.js";
import projection from "./projection.js";
import outbox from "./outbox.js";
import row from "./row.js";
import crew from "./workers.js";
import events from "./events.js";
import stream from "./stream.js";
import event from "./event.js";
import views from "./views.js";
import view from "./view.js";
import publishers from "./publishers.js";
import runs from "./runs.js";
import gaps from "./gaps.js";
import tokens from "./tokens.js";
import audit from "./audit.js";

const PAGES = { "": overview, projections, projection, outbox, row, crew, events, stream, event, views, view,
  publishers, runs, gaps, tokens, audit };
const MENU = [["", "Overview"], ["projections", "Projections"], ["outbox", "Outbox"], ["crew", "Workers"],
  ["events", "Streams"], ["views", "Views"], ["publishers", "Publishers"], ["runs", "Runs"], ["gaps", "Gaps"], ["tokens", "Tokens"],
  ["audit", "Audit"]];
const FOR_ALL = new Set(["publishers", "crew"]); // not for a token of one tenant
const BELONGS = { projection: "projections", row: "outbox", stream: "events", event: "events", view: "views" };
const EVERY_MS = 5000, WAIT_MAX_MS = 30000;

const main = document.getElementById("main");
let here = null;       // the current page
let who = null;        // the response of /v1/whoami: the scopes and tenant of the token
let status = null;     // the last overview, for the header
let failures = 0;      // in a row
let timer = 0;

// --- session --------------------------------------------------------------------------------------

function askForToken(why) {
  if (document.querySelector("dialog.token")) return;
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false",
    placeholder: "evf_…" });
  const dialog = h("dialog", { class: "act token", "aria-labelledby": "token-title" },
    h("form", { method: "dialog", on: { submit: (e) => {
      e.preventDefault();
      setToken(input.value.trim());
      dialog.close();
      dialog.remove();
      who = null;
      refresh();
    } } }, h("h2", { id: "token-title" }, "API token"),
    h("p", {}, why), h("p", { class: "quiet" }, "It is kept in this tab only. Make one on the server with:"),
    h("div", { class: "command" }, h("code", {}, "everfold token create --scope read,operate --expires 30d")),
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Look"))));
  document.body.append(dialog);
  dialog.showModal();
}

function forget() {
  setToken(null);
  who = status = null;
  refresh();
}

// --- the frame ------------------------------------------------------------------------------------

function theme(next) {
  const root = document.documentElement;
  if (next) { root.dataset.theme = next; localStorage.setItem("everfold.theme", next); }
  else { delete root.dataset.theme; localStorage.removeItem("everfold.theme"); }
}

function themeButton() {
  const now = document.documentElement.dataset.theme ?? "auto";
  const next = { auto: "light", light: "dark", dark: undefined }[now];
  return h("button", { type: "button", class: "plain", "aria-label": `Colours: ${now}. Change`,
    on: { click: () => { theme(next); drawTop(); } } }, { auto: "◐", light: "☀", dark: "☾" }[now]);
}

function sayHealth(before, after) {
  if (before && before.message !== after.message) document.getElementById("announcement").textContent = after.message;
}

function drawTop() {
  const health = status?.health;
  const tone = { well: "ok", behind: "warn", trouble: "bad" }[health?.state] ?? "calm";
  morph(document.getElementById("top"), h("header", { class: "top", id: "top" },
    h("a", { class: "brand", href: "#/" }, h("span", { class: "mark", "aria-hidden": "true" },
      h("i"), h("i"), h("i")), "everfold"),
    h("p", { class: `health ${tone}` }, h("i", { "aria-hidden": "true" }),
      failures > 0 ? "The server does not answer." : health?.message ?? ""),
    h("div", { class: "tools" },
      who && !who.scopes.includes("operate") && badge("read only", "calm"),
      who?.tenant && badge(`tenant ${who.tenant}`, "calm"),
      hasToken() && h("button", { type: "button", class: "plain", on: { click: forget } }, "Forget token"),
      themeButton())));
}

// Scrolls the selected item of a strip into view, once, when the strip is wider than its box.
function reveal(strip) {
  const chosen = strip?.querySelector("[aria-current]");
  if (!chosen || strip.scrollWidth <= strip.clientWidth || strip.everfoldShown === chosen.hash) return;
  strip.everfoldShown = chosen.hash;
  const [box, its] = [strip.getBoundingClientRect(), chosen.getBoundingClientRect()];
  strip.scrollLeft += its.left - box.left - (box.width - its.width) / 2;
}

function drawMenu(current) {
  const active = BELONGS[current] ?? current;
  const dead = status && String(status.outbox.dead) !== "0" ? status.outbox.dead : null;
  morph(document.getElementById("nav"), h("nav", { class: "side", id: "nav", "aria-label": "Pages" },
    h("ul", {}, MENU.filter(([name]) => name === "tokens" ? who?.scopes.includes("admin") : !FOR_ALL.has(name) || who?.tenant === null).map(([name, label]) =>
      h("li", { "data-key": label }, h("a", { href: `#/${name}`, "aria-current": name === active ? "page" : undefined }, label,
        name === "outbox" && dead !== null && h("span", { class: "pill bad", title: "dead" }, String(dead))))))));
  reveal(document.getElementById("nav"));
}

// --- the page -------------------------------------------------------------------------------------

function parseAddress() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...params] = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { name, params, query: Object.fromEntries(new URLSearchParams(search ?? "")) };
}

function makeContext(address) {
  return { ...address, state: {}, cancel: new AbortController(), drawn: false,
    can: (scope) => who?.scopes.includes(scope) ?? false,
    get who() { return who; },
    get status() { return status; },
    get width() { return main.clientWidth; },
    get: (target, options) => get(target, { signal: here.cancel.signal, ...options }),
    refresh, draw, say };
}

function draw() {
  if (!here?.data) return;
  const node = h("main", { id: "main", tabindex: "-1" }, here.page.view(here.data, here));
  const first = !here.drawn;
  morph(main, node);
  main.removeAttribute("aria-busy");
  main.querySelectorAll(".tabs").forEach(reveal);
  here.drawn = true;
  if (first && here.moved) main.querySelector("h1")?.focus({ preventScroll: true });
}

function drawProblem(error) {
  const lost = !(error instanceof Problem);
  const title = lost ? "The server does not answer." : error.status === 403 ? "This token is not allowed to do that."
    : error.status === 404 ? "Not found." : "The request failed.";
  replace(main, notice("bad", title, h("p", {}, lost ? "The page retries." : error.message)));
  main.removeAttribute("aria-busy");
  here.drawn = false;
}

async function loadFrame(signal) {
  who ??= await get("/v1/whoami", { signal });
  if (who.tenant === null) {
    const next = await get("/v1/overview", { signal });
    sayHealth(status?.health, next.health);
    status = next;
  }
}

async function refresh() {
  clearTimeout(timer);
  const shown = here;
  if (!shown || document.hidden) return;
  try {
    await loadFrame(shown.cancel.signal);
    const data = await shown.page.load(shown);
    if (shown !== here) return;
    shown.data = data;
    failures = 0;
    draw();
  } catch (error) {
    if (shown !== here || error.name === "AbortError") return;
    if (error.status === 401) askForToken(error.message);
    failures = error instanceof Problem ? 0 : failures + 1;
    if (!shown.drawn || error instanceof Problem) drawProblem(error);
  }
  drawTop();
  drawMenu(shown.name);
  const wait = Math.min(WAIT_MAX_MS, (shown.every ?? shown.page.every ?? EVERY_MS) * 2 ** Math.min(failures, 5));
  clearTimeout(timer);
  timer = setTimeout(refresh, wait);
}

function open() {
  const address = parseAddress();
  const page = PAGES[address.name];
  const moved = here !== null;
  // A filter of the same page: the old content stays until the response arrives.
  const stays = here && here.name === address.name && here.params.join("/") === address.params.join("/");
  here?.cancel.abort();
  const state = stays ? here.state : {};
  if (here && !stays) here.page.leave?.(here);
  here = Object.assign(makeContext(address), { page, moved: moved && !stays, state, drawn: stays && here.drawn });
  if (!page) {
    here = Object.assign(here, { page: { title: "Not found", load: () => ({}),
      view: () => notice("bad", "There is no such page.", h("p", {}, h("a", { href: "#/" }, "To the overview"))) } });
  }
  document.title = `${typeof here.page.title === "function" ? here.page.title(here) : here.page.title} · Everfold`;
  if (!stays) {
    main.setAttribute("aria-busy", "true");
    window.scrollTo(0, 0);
  }
  drawMenu(here.name);
  refresh();
}

theme(localStorage.getItem("everfold.theme") ?? undefined);
addEventListener("hashchange", open);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
addEventListener("resize", () => draw());
drawTop();
open();
