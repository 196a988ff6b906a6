#!/usr/bin/env python3
"""src/sqlgen.py: what it makes of .sql files, and what it refuses.

usage: sqlgen.py SQLGEN
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SQLGEN = None


class Generator(unittest.TestCase):
    def run_generator(self, sql, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.sql")
            with open(path, "w", encoding="utf-8") as file:
                file.write(sql)
            made = [os.path.join(folder, "x.h"), os.path.join(folder, "x.c")]
            done = subprocess.run([sys.executable, SQLGEN, "p", *made, *options, path],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                return None, None, done.stderr
            return (*(pathlib.Path(f).read_text(encoding="utf-8") for f in made), "")

    def generate(self, sql, backend="--sqlite"):
        h, c, error = self.run_generator(sql, backend, "store.h")
        self.assertEqual("", error)
        return h, c

    def refuse(self, sql, *words, backend="--sqlite"):
        _, _, error = self.run_generator(sql, backend, "store.h")
        self.assertTrue(error.startswith("sqlgen: x.sql: "), error)
        for word in words:
            self.assertIn(word, error)

    # --- what is made ---

    def test_only_functions_that_callers_mention_are_made_with_what_they_call(self):
        sql = ("-- name: a\n-- binds: 1 id int\n-- row: n int\nSELECT n FROM t WHERE id = $1;\n"
               "-- name: b\n-- binds: 1 id int\nDELETE FROM t WHERE id = $1;\n")
        with tempfile.TemporaryDirectory() as folder:
            caller = pathlib.Path(folder, "caller.c")
            caller.write_text("st = p_receive_a(conn, &n, NULL, err);\n", encoding="utf-8")
            h, c, error = self.run_generator(sql, "--postgres", "store.h", str(caller))
        self.assertEqual("", error)
        self.assertIn("ef_status p_receive_a(", h)
        self.assertIn("static bool next_a(", c)
        for unused in ("p_one_a", "p_send_a", "bind_a", "p_send_b", "p_run_b"):
            self.assertNotIn(unused, h + c)

    def test_a_statement_becomes_a_constant_and_its_text(self):
        h, c, _ = self.run_generator("-- name: one\n-- why\nSELECT 1;\n")
        self.assertIn("    P_ONE,\n    P_COUNT\n", h)
        self.assertIn('    "SELECT 1;\\n"', c)
        self.assertNotIn("why", c)
        self.assertNotIn("p_one_one", h)

    def test_arguments_of_different_types_are_passed_by_themselves(self):
        h, c = self.generate("-- name: a\n-- binds: 1 id int, 2 name text\nDELETE FROM t WHERE id = ?1 AND n = ?2;\n")
        self.assertIn("ef_status p_run_a(ef__sq_conn *conn, int64_t id, ef_str name, ef_error *err);", h)
        self.assertIn("sqlite3_bind_int64(*out, 1, (int64_t)id);\n    ef__sq_bind_str(*out, 2, name);", c)

    def test_two_arguments_of_one_type_are_passed_in_a_struct(self):
        h, c = self.generate("-- name: a\n-- binds: 1 lane int (its id),\n--        2 position int\n"
                             "DELETE FROM t WHERE l = ?1 AND p = ?2;\n"
                             "-- name: b\n-- binds: as a\nDELETE FROM u WHERE l = ?1 AND p = ?2;\n")
        self.assertIn("struct p_a {\n    int64_t lane;\n    int64_t position;\n};", h)
        self.assertIn("p_run_b(ef__sq_conn *conn, const struct p_a *params, ef_error *err);", h)
        self.assertIn("sqlite3_bind_int64(*out, 2, (int64_t)params->position);", c)
        self.assertNotIn("struct p_b", h)

    def test_binds_are_read_from_a_structure(self):
        h, c = self.generate("-- name: a\n-- binds: 1 w.id text, 2 w.after.hash bytes, 3 now int\n-- from: w ef_worker\n"
                             "DELETE FROM t WHERE a = ?1 AND b = ?2 AND c = ?3;\n")
        self.assertIn("p_run_a(ef__sq_conn *conn, const ef_worker *w, int64_t now, ef_error *err);", h)
        self.assertIn("sqlite3_bind_blob(*out, 2, w->after.hash, sizeof w->after.hash, SQLITE_STATIC);", c)

    def test_a_bind_that_may_be_null_is_a_pointer(self):
        _, c = self.generate("-- name: a\n-- binds: 1 name text?\nDELETE FROM t WHERE n IS ?1;\n")
        self.assertIn("if (name)\n        ef__sq_bind_str(*out, 1, *name);\n    else\n"
                      "        sqlite3_bind_null(*out, 1);", c)

    def test_a_single_column_is_read_as_a_value(self):
        h, _ = self.generate("-- name: a\n-- row: count int\nSELECT count(*) FROM t;\n")
        self.assertIn("p_one_a(ef__sq_conn *conn, int64_t *out, bool *out_found, ef_error *err);", h)

    def test_texts_are_copied_into_the_arena(self):
        h, c = self.generate("-- name: a\n-- rows: id int, name text?\nSELECT id, name FROM t;\n")
        self.assertIn("struct p_a_row {\n    int64_t id;\n    ef_str name;\n    bool has_name;\n};", h)
        self.assertIn("ef__sq_rows p_each_a(ef__sq_conn *conn, ef__arena *arena, ef_error *err);", h)
        self.assertIn("bool p_next_a(ef__sq_rows *rows, struct p_a_row *out);", h)
        self.assertIn("return ef__sq_rows_check(rows);", c)

    def test_rows_are_read_into_a_c_type_and_statements_share_them(self):
        h, c = self.generate("-- name: a\n-- list ef_x: -, at.id int\nSELECT 1, id FROM t;\n"
                             "-- name: b\n-- list: as a\nSELECT 1, id FROM u;\n")
        self.assertIn("p_list_b(ef__sq_conn *conn, ef__arena *arena, const ef_x **out, size_t *out_count, "
                      "ef_error *err);", h)
        self.assertIn(".at.id = sqlite3_column_int64(rows->stmt, 1),", c)
        self.assertEqual(1, c.count("static bool next_"))

    # --- what is made for PostgreSQL ---

    def test_a_statement_without_rows_can_be_sent_and_run(self):
        h, c = self.generate("-- name: a\n-- binds: 1 id int, 2 now clock\nDELETE FROM t WHERE id = $1 AND at < $2;\n",
                             "--postgres")
        self.assertIn("ef_status p_send_a(ef__pg_conn *conn, int64_t id, ef__pg_clock now, ef_error *err);", h)
        self.assertIn("ef_status p_run_a(ef__pg_on on, int64_t id, ef__pg_clock now, int64_t *out_changed, "
                      "ef_error *err);", h)
        self.assertIn("ef__pg_add_int(out, (int64_t)id);\n    ef__pg_add_clock(out, now);", c)

    def test_arrays_are_bound_and_released(self):
        h, c = self.generate("-- name: a\n-- binds: 1 ids int[], 2 names text[]\nDELETE FROM t USING unnest($1, $2);\n"
                             "-- name: b\n-- binds: 1 names text[]\nDELETE FROM t WHERE n = ANY ($1);\n", "--postgres")
        self.assertIn("struct p_a {\n    ef__pg_array ids;\n    ef__pg_array names;\n};", h)
        self.assertIn("ef_status p_send_a(ef__pg_conn *conn, struct p_a *params, ef_error *err);", h)
        self.assertIn("ef_status p_send_b(ef__pg_conn *conn, ef__pg_array *names, ef_error *err);", h)
        self.assertIn("ef__pg_add_array_of(out, &params->names, EF__PG_TEXT);", c)
        self.assertIn("ef__pg_array_release(&params->names);\n    return st;", c)

    def test_a_row_is_read_at_once_or_received(self):
        h, c = self.generate("-- name: a\n-- binds: 1 id int\n-- row ef_x: id int, name text, hash bytes\n"
                             "SELECT id, n, h FROM t WHERE id = $1;\n", "--postgres")
        self.assertIn("p_one_a(ef__pg_on on, int64_t id, ef__arena *arena, ef_x *out, bool *out_found, ef_error *err);", h)
        self.assertIn("p_receive_a(ef__pg_conn *conn, ef__arena *arena, ef_x *out, bool *out_found, ef_error *err);", h)
        self.assertIn(".name = ef__pg_rows_text(rows, 1),", c)
        self.assertIn("ef__pg_rows_bytes(rows, 2, out->hash, sizeof out->hash);", c)

    def test_rows_are_read_one_by_one_or_into_a_list(self):
        h, c = self.generate("-- name: a\n-- rows: id int?\nSELECT id FROM t;\n"
                             "-- name: b\n-- list ef_x: id int\nSELECT id FROM t;\n"
                             "-- name: c\n-- rows: by hand\nSELECT id FROM t;\n", "--postgres")
        self.assertIn("ef__pg_rows p_each_a(ef__pg_on on, ef_error *err);", h)
        self.assertIn("bool p_next_a(ef__pg_rows *rows, struct p_a_row *out);", h)
        self.assertIn(".has_id = !ef__pg_null(rows->result, rows->at, 0),", c)
        self.assertIn("p_list_b(ef__pg_on on, ef__arena *arena, const ef_x **out, size_t *out_count, ef_error *err);", h)
        self.assertIn("ef__pg_rows p_each_c(ef__pg_on on, ef_error *err);", h)
        self.assertNotIn("p_next_c", h)

    def test_a_select_for_its_effect_has_no_rows(self):
        h, _ = self.generate("-- name: a\n-- row: ignored\nSELECT pg_notify('a', '');\n", "--postgres")
        self.assertIn("p_run_a(ef__pg_on on, int64_t *out_changed, ef_error *err);", h)

    # --- what is refused ---

    def test_a_parameter_that_no_bind_describes_is_refused(self):
        self.refuse("-- name: a\n-- binds: 1 id int, 2 x int\nDELETE FROM t WHERE id = ?1 + ?2 + ?3;\n", "a:", "?3")
        self.refuse("-- name: a\n-- binds: 1 id int\nDELETE FROM t WHERE id = $1 + $2;\n", "a:", "$2", backend="--postgres")

    def test_a_bind_that_is_not_used_is_refused(self):
        self.refuse("-- name: a\n-- binds: 1 id int, 2 x int\nDELETE FROM t WHERE id = ?1;\n", "bind 2 is not used")

    def test_binds_that_skip_a_number_are_refused(self):
        self.refuse("-- name: a\n-- binds: 1 id int, 3 x int\nDELETE FROM t WHERE id = ?1 + ?3;\n", "bind 2 is missing")

    def test_an_unknown_type_is_refused(self):
        self.refuse("-- name: a\n-- binds: 1 id number\nDELETE FROM t WHERE id = ?1;\n", "unknown type number")
        self.refuse("-- name: a\n-- row: id float\nSELECT 1;\n", "unknown type float")

    def test_a_bind_without_a_type_is_refused(self):
        self.refuse("-- name: a\n-- binds: 1 id\nDELETE FROM t WHERE id = ?1;\n", "NUMBER NAME TYPE")

    def test_rows_that_are_not_described_are_refused(self):
        self.refuse("-- name: a\nSELECT 1;\n", "no line describes")
        self.refuse("-- name: a\n-- row: x int\n-- rows: x int\nSELECT 1;\n", "described twice")

    def test_a_reference_to_no_statement_above_is_refused(self):
        self.refuse("-- name: a\n-- binds: as b\nDELETE FROM t;\n", "no statement b above")
        self.refuse("-- name: b\nDELETE FROM t;\n-- name: a\n-- row: as b\nSELECT 1;\n", "b has no row")

    def test_a_structure_that_is_not_declared_is_refused(self):
        self.refuse("-- name: a\n-- binds: 1 w.id text\nDELETE FROM t WHERE a = ?1;\n", "agree on w")

    def test_two_statements_of_one_name_are_refused(self):
        _, _, error = self.run_generator("-- name: a\nBEGIN;\n-- name: a\nBEGIN;\n")
        self.assertIn("two statements are called a", error)


if __name__ == "__main__":
    SQLGEN = sys.argv.pop(1)
    unittest.main()
