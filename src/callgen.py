#!/usr/bin/env python3
"""Turn the prototypes of the public headers into C: calls through a server, its handlers, and calls on either side.

usage: callgen.py client OUT.c CALLS HEADER…    the calls of <everfold/client.h> that CALLS lists
       callgen.py serve OUT.h SERVES HEADER…    ef__serve_OPERATION for the operations that SERVES lists
       callgen.py either OUT.h HEADER…          cli_CALL for every call that stores and a server have

A row of CALLS is a call, the operation that it sends, and the differences between them:

    CALL OPERATION [type=TYPE] [MEMBER=EXPRESSION…] [number=KEY] [unless=CONDITION:OPERATION]

The request is the argument that is a struct, or an ef__object_request or TYPE: each argument is its member
of the same name, unless the row has it in an expression. The type of `out` says what is read: a list by the shape of
the operation, or the number KEY of the response. If CONDITION holds, an argument or a member of one,
the other operation is sent; such an argument is not a member of the request.

A row of SERVES is an operation, the public function that does it, and the arguments that are not members
of its request:

    OPERATION FUNCTION [ARGUMENT=EXPRESSION…] [number=KEY] [rows=KEY] [answer=FUNCTION]

The response is what `out` receives: a list or an object by the shape of the operation, or the number KEY;
with `rows`, the rows of the outbox and their number; with `answer`, what that function writes after the call.

cli_CALL calls ef_client_CALL with c->client, or else ef_CALL or ef_journal_CALL with the store that it
takes. Arguments are matched by name. Those that a server has from its token or its settings are filled
in (STORE_ONLY), and an argument that only the server needs is not passed on.
"""
import re
import sys

PROTOTYPE = re.compile(r"^ef_status (ef_\w+)\(([^;]*)\);", re.MULTILINE)
READERS = {"ef_batch": "EF__OPERATION_BATCH", "ef_view_list": "ef__operation_view", "ef_run_list": "ef__operation_runs", "ef_row_list": "ef__operation_rows",
           "ef_client_token_list": "ef__operation_tokens"}
STORES = {"ef_journal *journal": "journal", "ef_engine *engine": "engine"}
STORE_ONLY = {"actor": "cli_actor(c)", "budget": "NULL", "most": "EF_PUBLISHED_COUNTED", "out_report": "NULL",
              "timeout_ms": "0"}
LOCAL_NAMES = {"outbox_skip": "ef_projection_skip", "outbox_skip_dead": "ef_projection_skip_dead"}
BY_HAND = ("append",)  # in stores.c: it depends on the mode


def fail(message):
    sys.exit("callgen: " + message)


class Argument:
    def __init__(self, text):
        self.text = text
        found = re.search(r"\(\*(\w+)\)", text) or re.search(r"(\w+)(?:\[\w*\])?$", text)
        self.name = found.group(1)
        self.type = text[:found.start(1)].strip()


def split_arguments(text):
    """At the commas outside parentheses."""
    parts = re.split(r",(?![^(]*\))", " ".join(text.split()))
    return [Argument(part.strip()) for part in parts]


def read_prototypes(paths):
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for match in PROTOTYPE.finditer(file.read()):
                if "..." not in match.group(2):
                    found[match.group(1)] = split_arguments(match.group(2))
    return found


def parameters(arguments):
    return ", ".join(a.text for a in arguments)


# --- calls through a server -----------------------------------------------------------------------


def words_of(expression):
    return set(re.findall(r"\w+", expression))


def request_of(arguments, members, request):
    """The declaration of the request, and the expression that passes it."""
    if not arguments:
        return "", "NULL"
    if len(arguments) == 1 and arguments[0].type.endswith("*") and not members:
        return "", arguments[0].name
    used = words_of(" ".join(members.values()))
    values = {**members, **{a.name: a.name for a in arguments if a.name not in used}}
    wide = {a.name: "(int64_t)" + a.name for a in arguments if a.type == "size_t"}
    texts = (".%s = %s" % (member, wide.get(value, value)) for member, value in values.items())
    return "    %s request = {%s};\n\n" % (request, ", ".join(texts)), "&request"


def client_call(row, prototypes):
    name, operation, *rest = row.split()
    members = dict(part.split("=") for part in rest)
    key, request_type = members.pop("number", None), members.pop("type", "ef__object_request")
    condition, _, other = members.pop("unless", "").partition(":")
    arguments = prototypes.get("ef_client_" + name) or fail("client.h has no ef_client_" + name)
    inputs = [a for a in arguments[1:-1] if not a.name.startswith("out") and a.name != condition]
    outputs = [a for a in arguments[1:-1] if a.name.startswith("out")]
    for value in members.values():
        if not words_of(value) & {a.name for a in inputs}:
            fail("%s has no argument %s" % (name, value))
    declaration, request = request_of(inputs, members, request_type)
    sent = "&ef__op_" + operation
    passed = ["client", "%s ? &ef__op_%s : %s" % (condition, other, sent) if other else sent, request]
    if key:
        function, passed = "ef__operation_number", passed + ['"%s"' % key]
    elif outputs:
        function = READERS.get(outputs[0].type.rstrip(" *"), "EF__OPERATION_ITEMS")
    else:
        function = "ef__operation_act"
    passed += [a.name for a in outputs] + ["err"]
    return "ef_status ef_client_%s(%s)\n{\n%s    return %s(%s);\n}\n" % (
        name, parameters(arguments), declaration, function, ", ".join(passed))


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if line and not line.startswith("#")]


def write_client(out, calls, headers):
    prototypes = read_prototypes(headers)
    functions = (client_call(row, prototypes) for row in read_rows(calls))
    with open(out, "w", encoding="utf-8") as file:
        file.write('#include "client_priv.h"\n\n' + "\n".join(functions))


# --- handlers of the server ------------------------------------------------------------------------


def served_value(argument, given):
    if argument.text in STORES:
        return "ef__request_%s(r)" % STORES[argument.text]
    if argument.name in given or argument.name in ("out", "out_count", "err"):
        return given.get(argument.name) or {"out": "&out", "out_count": "&count"}.get(argument.name, "err")
    if argument.type == "ef_str":
        return "((const ef__object_request *)request)->" + argument.name
    return "request"  # the request struct itself


def served(row, prototypes):
    operation, function, *rest = row.split()
    given = dict(part.split("=") for part in rest)
    key, rows, answer = (given.pop(name, None) for name in ("number", "rows", "answer"))
    arguments = prototypes.get(function) or fail("no header has " + function)
    unknown = set(given) - {a.name for a in arguments}
    if unknown:
        fail("%s has no argument %s" % (function, ", ".join(unknown)))
    call = "%s(%s)" % (function, ", ".join(served_value(a, given) for a in arguments))
    out = next((a.type.rstrip(" *") for a in arguments if a.name == "out"), "")
    lines = []
    if answer:
        lines.append("    return %s(r, %s, err);" % (answer, call))
    elif key:
        lines += ["    int64_t count = 0;", "    ef_status st = %s;" % call, "    if (st == EF_OK)",
                  '        ef__request_write_count(r, "%s", count);' % key, "    return st;"]
    elif rows:
        count = "count" if "&count" in call else "(int64_t)out.count"
        lines += ["    EF__AUTO(%s) out = {0};" % out, *["    int64_t count = 0;"] * (count == "count"),
                  "    ef_status st = %s;" % call,
                  '    return ef__answer_rows(r, st, "%s", %s, &out);' % (rows, count)]
    elif out.endswith("_list"):
        lines.append("    return EF__ANSWER(r, %s, out, %s);" % (out, call))
    else:
        lines += ["    %s out = {0};" % out, "    ef_status st = %s;" % call, "    if (st == EF_OK)",
                  "        ef__request_write(r, &out, 1);", "    return st;"]
    reads = "void *request, " if "request" in words_of(call) else ""
    return "static inline ef_status ef__serve_%s(ef__request *r, %sef_error *err)\n{\n%s\n}\n" % (
        operation, reads, "\n".join(lines))


def write_serve(out, serves, headers):
    prototypes = read_prototypes(headers)
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(served(row, prototypes) for row in read_rows(serves)))


# --- calls on either side -------------------------------------------------------------------------


def either_call(name, remote, local_name, local):
    """None if the call of the store has an argument that has no counterpart."""
    store = STORES.get(local[0].text)
    types = {a.name: a.type for a in remote}
    values = [a.name if types.get(a.name) == a.type else STORE_ONLY.get(a.name) for a in local[1:]]
    if not store or None in values:
        return None
    passed = ", ".join(a.name for a in remote[1:])
    return ("static inline ef_status cli_%s(cli *c, %s)\n{\n"
            "    return c->client ? ef_client_%s(c->client, %s)\n"
            "                     : %s(c->%s, %s);\n}\n" % (
                name, parameters(remote[1:]), name, passed, local_name, store, ", ".join(values)))


def write_either(out, headers):
    prototypes = read_prototypes(headers)
    functions = []
    for client_name, remote in prototypes.items():
        name = client_name[len("ef_client_"):]
        if not client_name.startswith("ef_client_") or name in BY_HAND:
            continue
        for local_name in (LOCAL_NAMES.get(name, "ef_" + name), "ef_journal_" + name):
            if local_name in prototypes:
                functions.append(either_call(name, remote, local_name, prototypes[local_name]))
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(f for f in functions if f))


if __name__ == "__main__":
    if sys.argv[1] == "client":
        write_client(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif sys.argv[1] == "serve":
        write_serve(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        write_either(sys.argv[2], sys.argv[3:])
