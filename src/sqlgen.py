#!/usr/bin/env python3
"""Turn the .sql files of a back end into C: the texts of its statements, and a function for each.

usage: sqlgen.py PREFIX OUT.h OUT.c [--sqlite HEADER | --postgres HEADER] FILE.sql… [MIGRATION.sql…] [CALLER.c…]

A line `-- name: WORD` starts a statement. It becomes the constant PREFIX_WORD, and its text an entry
of the array PREFIX_sql. Files in a folder called migrations become, in the order of their names,
the entries of PREFIX_migrations. Comments stay in the .sql file.

With --sqlite or --postgres, the comments below the name also describe values, and functions are
generated from them (the preamble of OUT.h lists them). HEADER declares the C types that are
mentioned, and includes OUT.h after them; OUT.c includes HEADER. Of the functions, only those that a
CALLER mentions are written, with what they call; all of them if there is no CALLER.

    -- binds: 1 lane int, 2 error text (why the row failed), 3 tenant text?
    -- binds: 1 now int, 2 run.id text, 3 run.lease.token int
    -- from: run ef_run                … and the C type, passed by pointer, that has some of them
    -- binds: as NAME                  the parameters of a statement above
    -- binds: by hand, …               bound by the caller: no function
    -- row: id int, name text          columns of a statement that returns a row or none
    -- rows ef_lease: key.name text    … of any number; read into an existing C type
    -- list ef_lease: …                … read into an array
    -- rows: as NAME                   the row of a statement above
    -- row: -, count int               the first column is not read
    -- row: ignored                    a SELECT for its effect: as a statement without rows

A description continues on lines that begin with `--` and three spaces. A remark is in parentheses.
Types: int (64 bits), bool, text, blob, bytes (a fixed array of a C type). `?` after a type: may be null;
the member of a row is NAME with has_NAME, a bind is a pointer. Only PostgreSQL: int[], text[], blob[],
and clock (the time of a test, or null for that of the server). Arguments of one type could be swapped by
mistake: a function that would have two takes all of them in a `struct PREFIX_WORD`.
"""
import io
import os
import re
import sys

C_TYPES = {"int": "int64_t", "bool": "bool", "text": "ef_str", "blob": "ef_str", "bytes": None,
           "clock": "ef__pg_clock", "int[]": "ef__pg_array", "text[]": "ef__pg_array", "blob[]": "ef__pg_array"}
SCALARS = ("int64_t", "bool", "ef_str")
DIRECTIVE = re.compile(r"--\s*(binds|from|row|rows|list)(?:\s+(\w+))?:\s*(.*)$")


def fail(message):
    sys.exit("sqlgen: " + message)


# --- reading --------------------------------------------------------------------------------------


class Value:
    """A bind or a column: its name (a path into the C type of a row), its type."""

    def __init__(self, where, name, kind):
        self.name, self.nullable = name, kind.endswith("?")
        self.kind = kind.rstrip("?")
        if self.kind not in C_TYPES:
            fail("%s: %s has the unknown type %s" % (where, name, kind))


class Statement:
    def __init__(self, path, name):
        self.path, self.name, self.lines = path, name, []
        self.binds, self.by_hand = [], False
        self.sources = {}  # the C type of each structure that binds are read from
        self.kind, self.is_ignored = None, False  # row, rows or list; rows that nobody reads
        self.columns, self.row_type = None, None
        self.same_binds = self.same_row = None  # the statement whose C types these are

    @property
    def where(self):
        return "%s: %s" % (os.path.basename(self.path), self.name)

    @property
    def sql(self):
        return without_comments("".join(self.lines))

    def arguments(self, c_type):
        """(C type, name) of what a function is given: binds, or the structures that have them."""
        found = []
        for bind in self.binds:
            owner = bind.name.split(".")[0]
            source = self.sources.get(owner)
            argument = ("const %s *" % source, owner) if source else (c_type(bind), bind.name)
            if argument not in found:
                found.append(argument)
        return found

    @property
    def arrays(self):
        return [bind for bind in self.binds if bind.kind.endswith("[]")]

    @property
    def copies(self):
        return any(c.kind in ("text", "blob") for c in self.columns or [])


def c_string(text):
    lines = [line.replace("\\", "\\\\").replace('"', '\\"') for line in text.strip().splitlines()]
    return "\n".join('    "%s\\n"' % line for line in lines)


def without_comments(text):
    return "\n".join(line.rstrip() for line in text.splitlines() if not re.match(r"\s*(--|$)", line))


def statements(path):
    found = []
    for line in open(path, encoding="utf-8"):
        name = re.match(r"-- name: (\w+)\s*$", line)
        if name:
            found.append(Statement(path, name.group(1)))
        elif found:
            found[-1].lines.append(line)
    return found


def descriptions(statement):
    """(word, C type, text) of every description, with the lines that continue it."""
    found = []
    for line in statement.lines:
        start = DIRECTIVE.match(line)
        if start:
            found.append(list(start.groups()))
        elif found and re.match(r"--   ", line) and continues:
            found[-1][2] += " " + line[2:].strip()
        continues = start or (found and re.match(r"--   ", line))
    return [(*start, re.sub(r"\([^)]*\)", "", text).strip()) for *start, text in found]


def items(statement, text, form):
    """The words of every item of a description."""
    for item in text.split(","):
        words = item.split()
        if len(words) != len(form.split()) and words != ["-"]:
            fail("%s: an item is %s, not '%s'" % (statement.where, form, item.strip()))
        yield words


def find_above(statement, name, above):
    if name not in above:
        fail("%s: there is no statement %s above it" % (statement.where, name))
    return above[name]


def parse_binds(statement, text, above):
    if text.startswith("by hand"):
        statement.by_hand = True
    elif text.startswith("as "):
        other = find_above(statement, text[3:], above)
        statement.same_binds = other.same_binds or other
        statement.binds, statement.sources = other.binds, other.sources
    else:
        for i, (number, name, kind) in enumerate(items(statement, text, "NUMBER NAME TYPE"), 1):
            if number != str(i):
                fail("%s: bind %d is missing before %s" % (statement.where, i, name))
            statement.binds.append(Value(statement.where, name, kind))


def parse_row(statement, c_type, text, above):
    if text.startswith("as "):
        other = find_above(statement, text[3:], above)
        if other.columns is None:
            fail("%s: %s has no row" % (statement.where, text[3:]))
        statement.same_row, statement.columns = other.same_row or other, other.columns
    elif text == "ignored":
        statement.kind, statement.is_ignored = None, True
    elif text != "by hand":
        statement.row_type, statement.columns = c_type, []
        for index, words in enumerate(items(statement, text, "NAME TYPE")):
            if words == ["-"]:
                continue
            column = Value(statement.where, *words)
            column.index = index
            if not c_type and column.kind == "bytes":
                fail("%s: column %s needs a C type to have type bytes" % (statement.where, words[0]))
            statement.columns.append(column)


def check_binds(statement, mark):
    used = {int(n) for n in re.findall(mark + r"(\d+)", re.sub(r"'[^']*'", "", statement.sql))}
    for number in sorted(used - set(range(1, len(statement.binds) + 1))):
        fail("%s: no bind describes %s%d" % (statement.where, mark[-1], number))
    for number in sorted(set(range(1, len(statement.binds) + 1)) - used):
        fail("%s: bind %d is not used" % (statement.where, number))
    owners = {bind.name.split(".")[0] for bind in statement.binds if "." in bind.name}
    for name in sorted(owners ^ set(statement.sources)):
        fail("%s: no line `-- from:` and binds agree on %s" % (statement.where, name))


def describe(named, mark):
    above = {}
    for statement in named:
        for word, c_type, text in descriptions(statement):
            if word == "binds":
                parse_binds(statement, text, above)
            elif word == "from":
                statement.sources = {name: kind for name, kind in items(statement, text, "NAME TYPE")}
            elif statement.kind:
                fail("%s: its row is described twice" % statement.where)
            else:
                statement.kind = word
                parse_row(statement, c_type, text, above)
        if not statement.by_hand:
            check_binds(statement, mark)
            if statement.sql.startswith("SELECT") and not (statement.kind or statement.is_ignored):
                fail("%s: returns rows that no line describes" % statement.where)
        above[statement.name] = statement


# --- writing --------------------------------------------------------------------------------------


class Writer:
    """The functions of a back end: what all have in common."""

    def __init__(self, prefix):
        self.prefix, self.structs, self.functions = prefix, [], {}

    def takes_struct(self, s):
        """Two arguments of one type could be swapped by mistake: a struct names them."""
        types = [c_type for c_type, _ in s.arguments(self.c_type)]
        return len(set(types)) < len(types)

    def params_of(self, s):
        """The declaration of the arguments that are bound, with a comma after it."""
        if self.takes_struct(s):
            return "const struct %s_%s *params, " % (self.prefix, (s.same_binds or s).name)
        return "".join("%s%s, " % argument for argument in s.arguments(self.c_type))

    def c_type(self, value):
        return ("const %s *" if value.nullable else "%s ") % C_TYPES[value.kind]

    def passed(self, s):
        names = ["params"] if self.takes_struct(s) else [name for _, name in s.arguments(self.c_type)]
        return "".join("%s, " % name for name in names)

    def value_of(self, s, bind):
        return ("params->" if self.takes_struct(s) else "") + bind.name.replace(".", "->", 1)

    def row_type(self, s):
        owner = s.same_row or s
        if owner.row_type or not owner.columns:
            return owner.row_type
        if len(owner.columns) == 1 and not owner.columns[0].nullable:
            return C_TYPES[owner.columns[0].kind]
        return "struct %s_%s_row" % (self.prefix, owner.name)

    def write_structs(self, s):
        if self.takes_struct(s) and not s.same_binds:
            members = "".join("    %s%s;\n" % argument for argument in s.arguments(self.c_type))
            self.structs.append("struct %s_%s {\n%s};\n" % (self.prefix, s.name, members))
        if s.columns and not s.same_row and self.row_type(s).startswith("struct "):
            members = "".join("    %s %s;\n" % (C_TYPES[c.kind], c.name)
                              + ("    bool has_%s;\n" % c.name if c.nullable else "") for c in s.columns)
            self.structs.append("%s {\n%s};\n" % (self.row_type(s), members))

    def function(self, head, body, public=True):
        self.functions[re.search(r"(\w+)\(", head).group(1)] = (head, body, public)

    def used(self, callers):
        """The functions that the callers mention and what those call, in the order of writing."""
        found, texts = set(), [open(f, encoding="utf-8").read() for f in callers]
        if not callers:
            return list(self.functions.values())
        while texts:
            fresh = set(re.findall(r"\w+", texts.pop())) & set(self.functions) - found
            found |= fresh
            texts += [self.functions[name][1] for name in fresh]
        return [function for name, function in self.functions.items() if name in found]

    def constant(self, s):
        return ("%s_%s" % (self.prefix, s.name)).upper()

    def write_next(self, s, public):
        """The function that reads a row; statements with the same row share it."""
        if s.same_row:
            return "%snext_%s" % (self.prefix + "_" if s.same_row.kind == "rows" else "", s.same_row.name)
        name = "%snext_%s" % (self.prefix + "_" if public else "", s.name)
        body = "    if (!%s_next(rows))\n        return false;\n" % self.ROWS
        if self.row_type(s) in SCALARS:
            body += "    *out = %s;\n" % self.read(s.columns[0])
        elif s.columns:
            body += "    *out = (%s){\n" % self.row_type(s)
            body += "".join("        .%s = %s,\n" % (c.name, self.read(c)) for c in s.columns if c.kind != "bytes")
            body += "".join("        .has_%s = %s,\n" % (c.name, self.NOT_NULL % c.index)
                            for c in s.columns if c.nullable)
            body += "    };\n"
            body += "".join("    %s, %d, out->%s, sizeof out->%s);\n"
                            % (self.BYTES, c.index, c.name, c.name) for c in s.columns if c.kind == "bytes")
        body += "    return %s;\n" % (self.ROWS + "_check(rows)" if s.copies else "true")
        out = ", %s *out" % self.row_type(s) if s.columns else ""
        self.function("bool %s(%s *rows%s)" % (name, self.ROWS, out), body, public)
        return name

    def read(self, column):
        return self.READ[column.kind] % column.index


class Sqlite(Writer):
    """The functions of a back end on src/sqlite/conn.h."""

    MARK, ROWS, BYTES = r"\?", "ef__sq_rows", "ef__sq_column_bytes(rows->stmt"
    NOT_NULL = "sqlite3_column_type(rows->stmt, %d) != SQLITE_NULL"
    PREAMBLE = """
 * run_NAME    runs a statement without rows
 * one_NAME    reads the row of a statement; *out is unchanged when there is none, and out_found may
 *             be NULL
 * list_NAME   reads all rows into an array in the arena
 * each_NAME   starts reading rows; each is read by next_NAME, and ef__sq_rows_end must follow:
 *                 ef__sq_rows rows = each_NAME(conn, …, arena, err);
 *                 while (next_NAME(&rows, &row))
 *                     rows.status = …;  a failure ends the loop
 *                 return ef__sq_rows_end(&rows);
 * All reset the statement, also on failure. Texts of rows are copied into the arena; those of
 * each_NAME with the arena NULL are borrowed until the next row. Texts that are bound are borrowed
 * for the call, and by each_NAME until its end. ef__sq_run runs a statement without binds and rows."""
    BIND = {"int": "sqlite3_bind_int64", "bool": "sqlite3_bind_int", "text": "ef__sq_bind_str",
            "blob": "ef__sq_bind_blob"}
    READ = {"int": "sqlite3_column_int64(rows->stmt, %d)", "bool": "sqlite3_column_int(rows->stmt, %d) != 0",
            "text": "ef__sq_rows_text(rows, %d)", "blob": "ef__sq_rows_blob(rows, %d)"}

    def write(self, s):
        self.write_structs(s)
        if s.by_hand or not (s.binds or s.kind):
            return
        start = self.write_bind(s)
        if s.kind:
            self.write_rows(s, start)
        else:
            self.function("ef_status %s_run_%s(ef__sq_conn *conn, %sef_error *err)"
                          % (self.prefix, s.name, self.params_of(s)),
                          "    sqlite3_stmt *stmt;\n    ef_status st = %s;\n\n"
                          "    return st == EF_OK ? ef__sq_done(conn, stmt, err) : st;\n" % (start % "&stmt"))

    def write_bind(self, s):
        if not s.binds:
            return "ef__sq_stmt(conn, %s, %%s, err)" % self.constant(s)
        body = "    ef_status st = ef__sq_stmt(conn, %s, out, err);\n\n" % self.constant(s)
        body += "    if (st != EF_OK)\n        return st;\n"
        for i, bind in enumerate(s.binds, 1):
            value = self.value_of(s, bind)
            if bind.kind == "bytes":
                call = "    sqlite3_bind_blob(*out, %d, %s, sizeof %s, SQLITE_STATIC);\n" % (i, value, value)
            else:
                value = "*" + value if bind.nullable else "(int64_t)" + value if bind.kind == "int" else value
                call = "    %s(*out, %d, %s);\n" % (self.BIND[bind.kind], i, value)
            if bind.nullable:
                call = "    if (%s)\n    %s    else\n        sqlite3_bind_null(*out, %d);\n" % (value[1:], call, i)
            body += call
        self.function("ef_status bind_%s(ef__sq_conn *conn, %ssqlite3_stmt **out, ef_error *err)"
                      % (s.name, self.params_of(s)), body + "    return EF_OK;\n", public=False)
        return "bind_%s(conn, %s%%s, err)" % (s.name, self.passed(s))

    def write_rows(self, s, start):
        has_arena, each = s.copies or s.kind == "list", s.kind == "rows"
        arena = "ef__arena *arena, " if has_arena else ""
        head = "ef__sq_rows %seach_%s(ef__sq_conn *conn, %s%sef_error *err)" % (
            self.prefix + "_" if each else "", s.name, self.params_of(s), arena)
        self.function(head, "    ef__sq_rows rows = {.conn = conn%s, .err = err};\n\n    rows.status = %s;\n"
                      "    return rows;\n" % (", .arena = arena" if has_arena else "", start % "&rows.stmt"), each)
        if s.columns is None:
            return
        begin = "each_%s(conn, %s%serr)" % (s.name, self.passed(s), "arena, " if has_arena else "")
        step = self.write_next(s, each)
        row, arguments = self.row_type(s), self.params_of(s) + arena
        if s.kind == "row":
            self.function("ef_status %s_one_%s(ef__sq_conn *conn, %s%sbool *out_found, ef_error *err)"
                          % (self.prefix, s.name, arguments, row + " *out, " if s.columns else ""),
                          "    ef__sq_rows rows = %s;\n    bool found = %s(&rows%s);\n\n    if (out_found)\n"
                          "        *out_found = found;\n    return ef__sq_rows_end(&rows);\n" % (begin, step, ", out" if s.columns else ""))
        elif s.kind == "list":
            self.function("ef_status %s_list_%s(ef__sq_conn *conn, %sconst %s **out, size_t *out_count, ef_error *err)"
                          % (self.prefix, s.name, arguments, row),
                          "    ef__sq_rows rows = %s;\n    %s row;\n\n    *out = NULL;\n    *out_count = 0;\n"
                          "    while (%s(&rows, &row))\n        *out = ef__sq_rows_add(&rows, *out, out_count,"
                          " &row, sizeof row);\n    return ef__sq_rows_end(&rows);\n" % (begin, row, step))


class Postgres(Writer):
    """The functions of a back end on src/postgres/rows.h."""

    MARK, ROWS, BYTES, NOT_NULL = r"\$", "ef__pg_rows", "ef__pg_rows_bytes(rows", "!ef__pg_null(rows->result, rows->at, %d)"
    PREAMBLE = """
 * send_NAME     sends a statement, whose result has to be received
 * run_NAME      runs a statement without rows; out_changed may be NULL
 * one_NAME      reads the row of a statement; *out is unchanged when there is none, and out_found may
 *               be NULL
 * receive_NAME  the same for one that was sent
 * list_NAME     reads all rows into an array in the arena
 * each_NAME     reads the rows, which next_NAME returns one by one; see ef__pg_rows
 * Arrays are filled by the caller, and released by all of these. Texts of rows are copied into the
 * arena; those of each_NAME with the arena NULL are borrowed until ef__pg_rows_end."""
    READ = {"int": "ef__pg_int(rows->result, rows->at, %d)", "bool": "ef__pg_bool(rows->result, rows->at, %d)",
            "text": "ef__pg_rows_text(rows, %d)", "blob": "ef__pg_rows_text(rows, %d)"}
    ELEMENTS = {"int[]": "INT", "text[]": "TEXT", "blob[]": "BYTES"}

    def params_of(self, s):
        text = super().params_of(s)
        if not s.arrays:
            return text
        return text.replace("const ", "", 1) if self.takes_struct(s) else text.replace("_array ", "_array *")

    def write(self, s):
        self.write_structs(s)
        if s.by_hand:
            return
        self.write_bind(s)
        if s.binds:
            self.function("ef_status %s_send_%s(ef__pg_conn *conn, %sef_error *err)" % self.named(s, self.params_of(s)),
                          self.bound(s, "ef_status st", "ef__pg_send(conn, %s, %s, err)"))
        if not s.kind:
            self.function("ef_status %s_run_%s(ef__pg_on on, %sint64_t *out_changed, ef_error *err)"
                          % self.named(s, self.params_of(s)),
                          self.bound(s, "ef_status st", "ef__pg_run(on, %s, %s, out_changed, err)"))
        else:
            self.write_rows(s)

    def named(self, s, *more):
        return (self.prefix, s.name, *more)

    def write_bind(self, s):
        if not s.binds:
            return
        body = ""
        for bind in s.binds:
            value, kind = self.value_of(s, bind), bind.kind
            if kind.endswith("[]"):
                pointer = "&" + value if self.takes_struct(s) else value
                body += "    ef__pg_add_array_of(out, %s, EF__PG_%s);\n" % (pointer, self.ELEMENTS[kind])
            elif kind == "bytes":
                body += "    ef__pg_add_bytes(out, (ef_str){(const char *)%s, sizeof %s});\n" % (value, value)
            else:
                value = "(int64_t)" + value if kind == "int" else value
                body += "    ef__pg_add_%s(out, %s);\n" % ({"text": "str", "blob": "bytes"}.get(kind, kind), value)
        self.function("void bind_%s(%sef__pg_params *out)" % (s.name, self.params_of(s)), body, public=False)

    def bound(self, s, result, call):
        """The body of a function that binds, calls, and releases the arrays."""
        name = result.split()[-1]
        if not s.binds:
            return "    return %s;\n" % (call % (self.constant(s), "NULL"))
        body = "    ef__pg_params bound = {0};\n    %s;\n\n" % result
        body += "    bind_%s(%s&bound);\n" % (s.name, self.passed(s))
        body += "    %s = %s;\n" % (name, call % (self.constant(s), "&bound"))
        for array in s.arrays:
            value = self.value_of(s, array)
            body += "    ef__pg_array_release(%s%s);\n" % ("&" if self.takes_struct(s) else "", value)
        return body + "    return %s;\n" % name

    def write_rows(self, s):
        arena = "ef__arena *arena, " if s.copies else ""
        each = "%s_each_%s" % (self.prefix, s.name) if s.kind == "rows" else "each_%s" % s.name
        self.function("ef__pg_rows %s(ef__pg_on on, %s%sef_error *err)" % (each, self.params_of(s), arena),
                      self.bound(s, "ef__pg_rows rows", "ef__pg_rows_of(on, %%s, %%s, %s, err)" % ("arena" if arena else "NULL")),
                      s.kind == "rows")
        if s.columns is None:
            return
        step = self.write_next(s, s.kind == "rows")
        begin = "%s(on, %s%serr)" % (each, self.passed(s), "arena, " if arena else "")
        row, out = self.row_type(s), ", out" if s.columns else ""
        takes = arena + (row + " *out, " if s.columns else "") + "bool *out_found, ef_error *err"
        if s.kind == "row":
            self.function("ef_status read_%s(ef__pg_rows rows%s, bool *out_found)"
                          % (s.name, ", %s *out" % row if s.columns else ""),
                          "    bool found = %s(&rows%s);\n\n    if (out_found)\n        *out_found = found;\n"
                          "    return ef__pg_rows_end(&rows);\n" % (step, out), public=False)
            self.function("ef_status %s_one_%s(ef__pg_on on, %s%s)" % self.named(s, self.params_of(s), takes),
                          "    return read_%s(%s%s, out_found);\n" % (s.name, begin, out))
            self.function("ef_status %s_receive_%s(ef__pg_conn *conn, %s)" % self.named(s, takes),
                          "    return read_%s(ef__pg_rows_receive(conn, %s, err)%s, out_found);\n"
                          % (s.name, "arena" if arena else "NULL", out))
        elif s.kind == "list":
            takes = "ef__arena *arena, const %s **out, size_t *out_count" % row
            self.function("ef_status read_%s(ef__pg_rows rows, %s)" % (s.name, takes),
                          "    %s *items;\n\n    rows.arena = arena;\n    items = ef__pg_rows_items(&rows, sizeof *items);\n"
                          "    *out = items;\n    *out_count = 0;\n    while (%s(&rows, &items[*out_count]))\n        ++*out_count;\n"
                          "    return ef__pg_rows_end(&rows);\n" % (row, step), public=False)
            self.function("ef_status %s_list_%s(ef__pg_on on, %s%s, ef_error *err)" % self.named(s, self.params_of(s), takes),
                          "    return read_%s(%s, arena, out, out_count);\n" % (s.name, begin))
            self.function("ef_status %s_receive_%s(ef__pg_conn *conn, %s, ef_error *err)" % self.named(s, takes),
                          "    return read_%s(ef__pg_rows_receive(conn, arena, err), arena, out, out_count);\n" % s.name)


WRITERS = {"--sqlite": Sqlite, "--postgres": Postgres}


class Output(io.StringIO):
    """A file that keeps its time when its text is the same, so that nothing is compiled again."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def close(self):
        if not os.path.exists(self.path) or open(self.path, encoding="utf-8").read() != self.getvalue():
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(self.getvalue())
        super().close()


def write_texts(prefix, named, migrations, h, c):
    h.write("enum {\n")
    for s in named:
        h.write("    %s_%s,\n" % (prefix.upper(), s.name.upper()))
    h.write("    %s_COUNT\n};\n\n" % prefix.upper())
    h.write("extern const char *const %s_sql[];\nextern const char *const %s_names[];\n"
            "extern const char *const %s_migrations[];\nextern const int %s_migration_count;\n"
            % (prefix, prefix, prefix, prefix))
    c.write("const char *const %s_sql[] = {\n" % prefix)
    for s in named:
        c.write("    /* %s */\n%s,\n" % (s.name, c_string(s.sql)))
    c.write("};\n\nconst char *const %s_names[] = {\n" % prefix)
    for s in named:
        c.write('    "%s",\n' % s.name)
    c.write("};\n\nconst char *const %s_migrations[] = {\n" % prefix)
    for f in migrations:
        c.write("    /* %s */\n%s,\n" % (os.path.basename(f),
                                         c_string(without_comments(open(f, encoding="utf-8").read()))))
    c.write("};\nconst int %s_migration_count = %d;\n" % (prefix, len(migrations)))


def main():
    prefix, out_h, out_c, files = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    header, writer = os.path.basename(out_h), None
    if files[0] in WRITERS:
        header, writer, files = files[1], WRITERS[files[0]](prefix), files[2:]
    callers, files = [f for f in files if f.endswith(".c")], [f for f in files if not f.endswith(".c")]
    migrations = sorted(f for f in files if os.path.basename(os.path.dirname(f)) == "migrations")
    named = [s for f in files if f not in migrations for s in statements(f)]
    names = [s.name for s in named]
    for twice in (n for n in names if names.count(n) > 1):
        fail("two statements are called %s" % twice)
    if writer:
        describe(named, writer.MARK)
        for s in named:
            writer.write(s)
    with Output(out_h) as h, Output(out_c) as c:
        h.write("/*\n * Made by sqlgen.py from the .sql files; do not edit.%s\n */\n#pragma once\n\n"
                % ("\n *" + writer.PREAMBLE if writer else ""))
        c.write('/* Made by sqlgen.py from the .sql files; do not edit. */\n#include "%s"\n\n' % header)
        write_texts(prefix, named, migrations, h, c)
        if writer:
            functions = writer.used(callers)
            h.write("\n" + "\n".join(writer.structs + [head + ";\n" for head, _, public in functions if public]))
            c.write("\n" + "".join("%s%s\n{\n%s}\n\n" % ("" if public else "static ", head, body)
                                   for head, body, public in functions))


main()
