// dom.js - creates nodes and updates a page in place.
//
// Text only becomes text nodes: nothing in an event is interpreted as markup. Invisible characters and
// those that change the direction of others are shown by their number.

// Controls, separators, soft hyphen, zero width, marks of direction, tags, lone surrogates.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;
const SVG = "http://www.w3.org/2000/svg";

export function text(value) {
  const all = String(value);
  const out = document.createDocumentFragment();
  let at = 0;
  for (const found of all.matchAll(ODD)) {
    out.append(all.slice(at, found.index));
    const span = document.createElement("span");
    span.className = "odd";
    const number = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    span.textContent = `U+${number}`;
    span.title = "an invisible character";
    out.append(span);
    at = found.index + found[0].length;
  }
  out.append(all.slice(at));
  return out;
}

function run(event) {
  const handlers = event.currentTarget.everfoldOn;
  if (handlers?.[event.type]) handlers[event.type](event);
}

function listen(node, handlers) {
  node.everfoldOn = handlers;
  node.everfoldHears ??= new Set();
  for (const type of Object.keys(handlers))
    if (!node.everfoldHears.has(type)) {
      node.everfoldHears.add(type);
      node.addEventListener(type, run);
    }
}

function fill(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : text(child));
  }
  return node;
}

function dress(node, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") listen(node, value);
    else if (name === "style") { node.everfoldStyle = value; Object.assign(node.style, value); }
    else if (name === "value") { node.value = value; node.everfoldValue = value; }
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}

// h("p", {class: "quiet", on: {click}}, "text", node, [more])
export function h(tag, props, ...children) {
  return fill(dress(document.createElement(tag), props), children);
}

export function svg(tag, props, ...children) {
  return fill(dress(document.createElementNS(SVG, tag), props), children);
}

// --- updating in place ----------------------------------------------------------------------------

const KEPT = new Set(["open"]); // an element that the user opened stays open

function morphAttributes(from, to) {
  for (const { name } of [...from.attributes])
    if (!to.hasAttribute(name) && name !== "style" && !(KEPT.has(name) && from.localName === "details"))
      from.removeAttribute(name);
  for (const { name, value } of [...to.attributes])
    if (name !== "style" && from.getAttribute(name) !== value &&
        !(KEPT.has(name) && from.localName === "details")) from.setAttribute(name, value);
  for (const name of Object.keys(from.everfoldStyle ?? {}))
    if (!(name in (to.everfoldStyle ?? {}))) from.style[name] = "";
  from.everfoldStyle = to.everfoldStyle;
  Object.assign(from.style, to.everfoldStyle ?? {});
  if (to.everfoldOn || from.everfoldOn) listen(from, to.everfoldOn ?? {});
  // The text that the user types is kept: a value is set only when the page changed it.
  if (to.everfoldValue !== undefined && to.everfoldValue !== from.everfoldValue) {
    from.value = to.everfoldValue;
    from.everfoldValue = to.everfoldValue;
  }
}

function same(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
    (a.nodeType !== 1 || (a.getAttribute("data-key") === b.getAttribute("data-key") && a.id === b.id));
}

// Makes `from` equal to `to` and reuses its nodes: focus, scroll position, selection and half-typed
// text are kept.
export function morph(from, to) {
  if (from.nodeType !== 1) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  morphAttributes(from, to);
  if (from.hasAttribute("data-own")) return;
  const keyed = new Map();
  for (const child of from.children) {
    const key = child.getAttribute("data-key");
    if (key) keyed.set(key, child);
  }
  let at = from.firstChild;
  for (const child of [...to.childNodes]) {
    const known = child.nodeType === 1 && keyed.get(child.getAttribute("data-key"));
    if (known && known !== at && same(known, child)) {
      from.insertBefore(known, at);
      morph(known, child);
    } else if (at && same(at, child)) {
      const next = at.nextSibling;
      morph(at, child);
      at = next;
    } else {
      from.insertBefore(child, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, children);
}
