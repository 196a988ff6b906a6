// look.js - what can be said of a page by looking at it: contrast, and what keys can reach.
// Each returns a list of what is wrong; put into every page by the tests.

window.contrast = (() => {
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  const seenPixels = new Map();
  // The colour that is seen when these are put over each other, the first at the bottom.
  const mixed = (colours) => {
    const key = colours.join();
    if (!seenPixels.has(key)) {
      pen.clearRect(0, 0, 1, 1);
      for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
      seenPixels.set(key, [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3));
    }
    return seenPixels.get(key);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const behind = (node) => {
    const out = [];
    for (let n = node; n; n = n.parentElement) out.unshift(getComputedStyle(n).backgroundColor);
    return ["white", ...out];
  };
  const needed = (style) => {
    const px = parseFloat(style.fontSize);
    return px >= 24 || (px >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  };
  const off = (node) => node.closest(":disabled, [aria-hidden=true], .hidden, .skip");
  return () => {
    const wrong = new Set();
    const look = (node, colour, back, least, what) => {
      const found = ratio(mixed([...back, colour]), mixed(back));
      if (found < least) wrong.add(`${what} ${node.localName}.${node.getAttribute("class") ?? ""}: ${found.toFixed(2)}, not ${least}`);
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text; (text = walker.nextNode());) {
      const node = text.parentElement;
      if (!text.nodeValue.trim() || !seen(node) || off(node)) continue;
      const style = getComputedStyle(node);
      if (node.ownerSVGElement) {
        const rect = node.parentElement.querySelector("rect");
        const back = [...behind(node.ownerSVGElement), ...(rect ? [getComputedStyle(rect).fill] : [])];
        look(node, style.fill, back, needed(style), "text");
      } else look(node, style.color, behind(node), needed(style), "text");
    }
    for (const node of document.querySelectorAll("input:not([type=range], [type=checkbox]), select, textarea")) {
      if (!seen(node) || off(node)) continue;
      look(node, getComputedStyle(node).borderTopColor, behind(node.parentElement), 3, "the edge of");
      if (node.placeholder) look(node, getComputedStyle(node, "::placeholder").color, behind(node), 4.5, "the hint of");
    }
    for (const node of document.querySelectorAll(".chart .line"))
      look(node, getComputedStyle(node).stroke, behind(node.ownerSVGElement), 3, "the line of");
    return [...wrong];
  };
})();

// What can be pressed and cannot be reached by keys.
window.unreachable = () => [...document.querySelectorAll("*")].filter((n) => seen(n) && !n.disabled &&
  (n.matches("button, a, input, select, textarea, summary") || n.everfoldOn?.click)).filter((n) => {
  const before = document.activeElement;
  n.focus({ preventScroll: true });
  const reached = document.activeElement === n && n.tabIndex >= 0;
  before?.focus?.({ preventScroll: true });
  return !reached;
}).map((n) => n.outerHTML.slice(0, 120));
