// json.js - JSON as it was written: no number goes through a double that cannot hold it.
//
// Answers of the server become plain objects. What belongs to events and views (data, meta …) stays
// text, byte for byte, and is shown from that text: the order of keys, double keys and numbers of
// any length are as they were appended.

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

  // The end of a string that begins here: behind its closing quote.
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

  // Passed over without being built, however deep it is.
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

// What is at the top of an object: [[key, raw text]…], or null when it is no object.
export function members(raw) {
  const reader = new Reader(String(raw));
  const out = [];
  reader.space();
  if (reader.text[reader.at] !== "{") return null;
  reader.members((key) => out.push([key, reader.skip().text]));
  return out;
}

// A piece of raw JSON as a person reads it in a cell: a string without its quotes.
export function plain(raw) {
  if (raw === undefined || raw === null) return "";
  const text = String(raw);
  return text.startsWith('"') ? JSON.parse(text) : text;
}

// What differs between two views: [{path, before, after}], undefined where there is none.
export function compare(before, after) {
  const old = new Map(leaves(before)), now = new Map(leaves(after));
  const out = [];
  for (const [path, value] of now)
    if (old.get(path) !== value) out.push({ path, before: old.get(path), after: value });
  for (const [path, value] of old)
    if (!now.has(path)) out.push({ path, before: value, after: undefined });
  return out;
}
