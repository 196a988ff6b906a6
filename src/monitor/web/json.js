// json.js - JSON without loss: no number is converted to a double that cannot represent it.
//
// Responses of the server become plain objects. Fields of events and views (data, meta …) stay text,
// byte for byte, and are shown from that text: the order of keys, duplicate keys and numbers of any
// length are as they were appended.

const RAW = new Set(["data", "meta", "left", "right", "before", "after", "seen"]);

// A number that a double would change.
export class Exact {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

// A piece of JSON that is kept as text.
export class Raw {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

// "12" as a number of a request, whatever its length.
export function integer(text) {
  if (!/^-?\d{1,19}$/.test(String(text))) throw new Error(`${text} is not a whole number`);
  return new Exact(String(text));
}

// As JSON.stringify, with numbers that are exact.
export function write(value) {
  if (value instanceof Exact || value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (value !== null && typeof value === "object")
    return `{${Object.entries(value).filter(([, v]) => v !== undefined)
      .map(([k, v]) => `${JSON.stringify(k)}:${write(v)}`).join(",")}}`;
  return JSON.stringify(value);
}

class Reader {
  constructor(text) { this.text = text; this.at = 0; }

  fail(what) { throw new SyntaxError(`${what} at ${this.at}`); }

  space() {
    while (this.at < this.text.length && " \t\n\r".includes(this.text[this.at])) this.at++;
  }

  take(c) {
    this.space();
    if (this.text[this.at] !== c) this.fail(`${c} expected`);
    this.at++;
  }

  // The end of a string that begins here: after its closing quote.
  stringEnd(start) {
    let at = start + 1;
    for (;;) {
      at = this.text.indexOf('"', at);
      if (at < 0) this.fail("a string does not end");
      let slashes = 0;
      while (this.text[at - 1 - slashes] === "\\") slashes++;
      at++;
      if (slashes % 2 === 0) return at;
    }
  }

  string() {
    this.space();
    if (this.text[this.at] !== '"') this.fail("a string expected");
    const end = this.stringEnd(this.at);
    const text = this.text.slice(this.at, end);
    this.at = end;
    return text.includes("\\") ? JSON.parse(text) : text.slice(1, -1);
  }

  number() {
    const found = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;
    found.lastIndex = this.at;
    const text = found.exec(this.text)?.[0];
    if (text === undefined) this.fail("a value expected");
    this.at += text.length;
    const value = Number(text);
    return String(value) === text || !/^-?\d+$/.test(text) ? value : new Exact(text);
  }

  // Skipped without being built, at any depth.
  skip() {
    this.space();
    const start = this.at;
    let depth = 0;
    do {
      const c = this.text[this.at];
      if (c === undefined) this.fail("a value does not end");
      if (c === '"') { this.at = this.stringEnd(this.at); }
      else if (c === "{" || c === "[") { depth++; this.at++; }
      else if (c === "}" || c === "]") { depth--; this.at++; }
      else if (/[\s,:]/.test(c)) { this.at++; }
      else {
        const word = /[^\s,:"{}[\]]+/y;
        word.lastIndex = this.at;
        this.at += word.exec(this.text)[0].length;
      }
    } while (depth > 0);
    return new Raw(this.text.slice(start, this.at));
  }

  members(keep) {
    this.at++;
    this.space();
    if (this.text[this.at] === "}") { this.at++; return; }
    for (;;) {
      const key = this.string();
      this.take(":");
      keep(key);
      this.space();
      if (this.text[this.at++] === "}") return;
      if (this.text[this.at - 1] !== ",") this.fail(", expected");
    }
  }

  items(keep) {
    this.at++;
    this.space();
    if (this.text[this.at] === "]") { this.at++; return; }
    for (;;) {
      keep();
      this.space();
      if (this.text[this.at++] === "]") return;
      if (this.text[this.at - 1] !== ",") this.fail(", expected");
    }
  }

  word() {
    for (const [word, value] of [["true", true], ["false", false], ["null", null]])
      if (this.text.startsWith(word, this.at)) { this.at += word.length; return value; }
    return this.number();
  }

  // Plain objects; what is in RAW stays text.
  value() {
    this.space();
    const c = this.text[this.at];
    if (c === '"') return this.string();
    if (c === "{") {
      const object = Object.create(null);
      this.members((key) => { object[key] = RAW.has(key) ? this.rawOrNull() : this.value(); });
      return object;
    }
    if (c === "[") {
      const list = [];
      this.items(() => list.push(this.value()));
      return list;
    }
    return this.word();
  }

  rawOrNull() {
    const raw = this.skip();
    return raw.text === "null" ? null : raw;
  }

  // Leaves by path, in order: ["items[0].qty", "2"]; the values are as written.
  leaves(path, out, depth) {
    this.space();
    const c = this.text[this.at];
    if (depth > 64 || out.length >= 5000 || (c !== "{" && c !== "[")) {
      out.push([path, this.skip().text]);
      return;
    }
    const before = out.length;
    let index = 0;
    if (c === "{") this.members((key) => this.leaves(path ? `${path}.${key}` : key, out, depth + 1));
    else this.items(() => this.leaves(`${path}[${index++}]`, out, depth + 1));
    if (out.length === before) out.push([path, c === "{" ? "{}" : "[]"]);
  }
}

export function parse(text) {
  const reader = new Reader(text);
  const value = reader.value();
  reader.space();
  if (reader.at !== text.length) reader.fail("more than one value");
  return value;
}

// The pieces of JSON in their order, for showing: kind is key, string, number, word, open, close,
// comma or colon.
export function* tokens(raw) {
  const reader = new Reader(String(raw));
  const text = reader.text;
  const stack = [];
  let isKey = false;
  for (;;) {
    reader.space();
    const c = text[reader.at];
    if (c === undefined) return;
    const start = reader.at;
    if (c === '"') {
      reader.at = reader.stringEnd(start);
      yield [isKey ? "key" : "string", text.slice(start, reader.at)];
      isKey = false;
    } else if (c === "{" || c === "[") {
      stack.push(c);
      isKey = c === "{";
      reader.at++;
      yield ["open", c];
    } else if (c === "}" || c === "]") {
      stack.pop();
      isKey = false;
      reader.at++;
      yield ["close", c];
    } else if (c === "," || c === ":") {
      isKey = c === "," && stack[stack.length - 1] === "{";
      reader.at++;
      yield [c === "," ? "comma" : "colon", c];
    } else {
      const word = reader.skip().text;
      yield [/^[-\d]/.test(word) ? "number" : "word", word];
    }
  }
}

export function leaves(raw) {
  const out = [];
  if (raw) new Reader(String(raw)).leaves("", out, 0);
  return out;
}

// The members of an object: [[key, raw text]…], or null when it is no object.
export function members(raw) {
  const reader = new Reader(String(raw));
  const out = [];
  reader.space();
  if (reader.text[reader.at] !== "{") return null;
  reader.members((key) => out.push([key, reader.skip().text]));
  return out;
}

// Raw JSON as the text of a cell: a string without its quotes.
export function plain(raw) {
  if (raw === undefined || raw === null) return "";
  const text = String(raw);
  return text.startsWith('"') ? JSON.parse(text) : text;
}

// --- differences ----------------------------------------------------------------------------------

const LISTS_MAX = 300; // items of a list that are aligned; items of longer lists are compared by index

// The members of an object or the items of a list, as written; null for anything else.
function piecesOf(raw) {
  const reader = new Reader(raw);
  const out = [];
  reader.space();
  if (raw[reader.at] === "{") reader.members((key) => out.push([key, reader.skip().text]));
  else if (raw[reader.at] === "[") reader.items(() => out.push(reader.skip().text));
  else return null;
  return { list: raw[reader.at - 1] === "]", out };
}

// Pairs of items that are the same in both, in order: the longest such row of them.
function sameItems(old, now) {
  const longest = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      longest[i][j] = old[i] === now[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const pairs = [];
  for (let i = 0, j = 0; i < old.length && j < now.length;)
    if (old[i] === now[j]) pairs.push([i++, j++]);
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  return pairs;
}

// Between unchanged items, an added item is named by its new index, a removed one by its old index.
function compareLists(path, old, now, depth, out) {
  const short = old.length <= LISTS_MAX && now.length <= LISTS_MAX;
  let i = 0, j = 0;
  for (const [ni, nj] of [...(short ? sameItems(old, now) : []), [old.length, now.length]]) {
    for (; i < ni && j < nj; i++, j++) compareAt(`${path}[${j}]`, old[i], now[j], depth + 1, out);
    for (; i < ni; i++) out.push({ path: `${path}[${i}]`, before: old[i], after: undefined });
    for (; j < nj; j++) out.push({ path: `${path}[${j}]`, before: undefined, after: now[j] });
    [i, j] = [ni + 1, nj + 1];
  }
}

function compareAt(path, before, after, depth, out) {
  if (before === after || out.length >= 5000) return;
  const old = depth < 64 && piecesOf(before ?? "{}"), now = depth < 64 && piecesOf(after ?? "{}");
  if (!old || !now || old.list !== now.list || (old.out.length === 0) !== (now.out.length === 0) && path !== "") {
    out.push({ path, before, after });
  } else if (old.list) compareLists(path, old.out, now.out, depth, out);
  else {
    const was = new Map(old.out), is = new Map(now.out), at = (key) => path ? `${path}.${key}` : key;
    for (const [key, value] of is) {
      if (was.has(key)) compareAt(at(key), was.get(key), value, depth + 1, out);
      else out.push({ path: at(key), before: undefined, after: value });
    }
    for (const [key, value] of was) if (!is.has(key)) out.push({ path: at(key), before: value, after: undefined });
  }
}

// The differences between two views: [{path, before, after}], undefined on the side that lacks the path.
export function compare(before, after) {
  const out = [];
  const raw = (view) => view === null || view === undefined ? undefined : String(view);
  compareAt("", raw(before), raw(after), 0, out);
  return out;
}
