#!/usr/bin/env python3
"""src/callgen.py: the calls that it makes of prototypes, and what it refuses.

usage: callgen.py CALLGEN
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CALLGEN = None
HEADER = """
ef_status ef_run_ls(ef_journal *journal, bool open_only, size_t limit, ef_run_list *out,
                    ef_error *err);
ef_status ef_client_run_ls(ef_client *client, bool open_only, size_t limit, ef_run_list *out,
                           ef_error *err);
ef_status ef_view_at(ef_engine *engine, ef_str id, const ef_budget *budget, ef_error *err);
ef_status ef_client_view_at(ef_client *client, ef_str id, ef_error *err);
ef_status ef_projection_pause(ef_engine *engine, ef_str name, ef_str actor, ef_error *err);
ef_status ef_client_projection_pause(ef_client *client, ef_str name, ef_str reason, ef_error *err);
ef_status ef_projection_rm(ef_engine *engine, ef_str name, int64_t age, ef_error *err);
ef_status ef_client_projection_rm(ef_client *client, ef_str name, int64_t *out_count, ef_error *err);
"""


class Generator(unittest.TestCase):
    def run_generator(self, mode, calls=None):
        with tempfile.TemporaryDirectory() as folder:
            out, header, rows = (os.path.join(folder, name) for name in ("out", "x.h", "calls"))
            pathlib.Path(header).write_text(HEADER, encoding="utf-8")
            pathlib.Path(rows).write_text(calls or "", encoding="utf-8")
            done = subprocess.run([sys.executable, CALLGEN, mode, out, *([rows] if calls else []), header],
                                  capture_output=True, text=True, check=False)
            return done.stderr if done.returncode else pathlib.Path(out).read_text(encoding="utf-8")

    def test_arguments_are_members_of_the_request(self):
        made = self.run_generator("client", "run_ls list_runs flag=open_only\n")
        self.assertIn("ef__object_request request = {.flag = open_only, .limit = (int64_t)limit};", made)
        self.assertIn("return ef__operation_runs(client, &ef__op_list_runs, &request, out, err);", made)

    def test_an_argument_may_choose_the_operation(self):
        made = self.run_generator("client", "run_ls list_runs unless=open_only:list_open_runs\n")
        self.assertIn("ef__object_request request = {.limit = (int64_t)limit};", made)
        self.assertIn("(client, open_only ? &ef__op_list_open_runs : &ef__op_list_runs, &request, out, err);", made)

    def test_a_number_of_the_response_is_read_by_its_key(self):
        made = self.run_generator("client", "projection_rm remove_projection number=removed\n")
        self.assertIn('&ef__op_remove_projection, &request, "removed", out_count, err);', made)

    def test_a_member_may_be_an_expression_and_the_request_another_struct(self):
        made = self.run_generator("client", "run_ls list_runs type=ef__runs name=open_only?ALL:NONE\n")
        self.assertIn("ef__runs request = {.name = open_only?ALL:NONE, .limit = (int64_t)limit};", made)

    def test_a_handler_passes_its_request_on(self):
        made = self.run_generator("serve", "list_runs ef_run_ls open_only=true limit=10\n")
        self.assertIn("ef_status ef__serve_list_runs(ef__request *r, ef_error *err)", made)
        self.assertIn("EF__ANSWER(r, ef_run_list, out, ef_run_ls(ef__request_journal(r), true, 10, &out, err));", made)

    def test_a_handler_may_answer_by_a_function(self):
        made = self.run_generator("serve", "pause ef_projection_pause answer=show\n")
        self.assertIn("ef_status ef__serve_pause(ef__request *r, void *request, ef_error *err)", made)
        self.assertIn("return show(r, ef_projection_pause(ef__request_engine(r), "
                      "((const ef__object_request *)request)->name, "
                      "((const ef__object_request *)request)->actor, err), err);", made)

    def test_a_handler_of_an_unknown_function_is_refused(self):
        self.assertEqual("callgen: no header has ef_nothing\n", self.run_generator("serve", "runs ef_nothing\n"))

    def test_a_call_without_a_prototype_is_refused(self):
        self.assertEqual("callgen: client.h has no ef_client_nothing\n",
                         self.run_generator("client", "nothing list_runs\n"))

    def test_an_unknown_argument_is_refused(self):
        self.assertEqual("callgen: run_ls has no argument id\n",
                         self.run_generator("client", "run_ls list_runs name=id\n"))

    def test_a_call_goes_to_the_server_or_the_store(self):
        made = self.run_generator("either")
        self.assertIn("c->client ? ef_client_run_ls(c->client, open_only, limit, out, err)\n"
                      "                     : ef_run_ls(c->journal, open_only, limit, out, err);", made)

    def test_what_only_the_store_takes_is_filled_in(self):
        made = self.run_generator("either")
        self.assertIn(": ef_view_at(c->engine, id, NULL, err);", made)
        self.assertIn(": ef_projection_pause(c->engine, name, cli_actor(c), err);", made)

    def test_a_call_with_other_arguments_is_left_out(self):
        self.assertNotIn("projection_rm", self.run_generator("either"))


if __name__ == "__main__":
    CALLGEN = sys.argv.pop(1)
    unittest.main()
