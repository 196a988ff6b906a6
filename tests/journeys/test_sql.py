"""An application that speaks SQL only: it loads a stream, decides and appends, in its own transactions and from several
sessions, while no worker runs. Then a server reads the same journal."""
import collections
import json
import os
import subprocess
import urllib.parse

import kit
from kit import Journey, on_stores

SESSIONS = 4
ACCOUNTS = 100
ROUNDS = 100         # per session
EVENTS_PER_ROUND = kit.EVENTS // SESSIONS // ROUNDS

# One session: in each round it loads an account, decides on what it has read, and appends; after a conflict it loads
# again. Every event records the seq that it was decided on, so that the test can see what was read.
LOOP = """
DO $$
DECLARE
    account text;
    last bigint;
    balance bigint;
    conflicts bigint := 0;
BEGIN
    FOR round IN 1..{rounds} LOOP
        account := 'account-' || (round * 7) % {accounts};
        LOOP
            BEGIN
                SELECT coalesce(max(seq), 0), coalesce(sum((data ->> 'amount')::bigint), 0) INTO last, balance
                  FROM everfold.read_stream('', account);
                PERFORM everfold.append('', account, last, (
                    SELECT json_agg(json_build_object('type', 'account.moved', 'data', json_build_object(
                               'amount', {session} + n, 'read_seq', last, 'read_balance', balance)))
                      FROM generate_series(1, {events}) AS n));
                EXIT;
            EXCEPTION WHEN SQLSTATE 'EF001' THEN
                conflicts := conflicts + 1;
            END;
        END LOOP;
        COMMIT;
    END LOOP;
    RAISE NOTICE 'conflicts %', conflicts;
END $$;
"""

PROGRAM = """projection balances version 1
  view stream

on account.moved
  moves += 1
  balance += data.amount
"""


@on_stores("postgres")
class Sql(Journey):
    def setUp(self):
        super().setUp()
        self.ef("init")
        self.url = self.stores["EVERFOLD_JOURNAL"]

    def run_sessions(self):
        sessions = []
        for session in range(SESSIONS):
            words = [os.path.join(kit.postgres().binaries, "psql"), "-qX", "-v", "ON_ERROR_STOP=1", self.url, "-c",
                     LOOP.format(session=session, rounds=ROUNDS, accounts=ACCOUNTS, events=EVENTS_PER_ROUND)]
            sessions.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        said = [s.communicate(timeout=kit.TIME_LIMIT_S)[1] for s in sessions]
        self.assertEqual([0] * SESSIONS, [s.returncode for s in sessions], said)

    def read_accounts(self):
        """account -> its events in the order in which SQL returns them."""
        rows = kit.sql(self.url, f"""
            SELECT json_build_array(account, seq, position, data)
              FROM generate_series(0, {ACCOUNTS - 1}) AS n, format('account-%s', n) AS account,
                   LATERAL everfold.read_stream('', account) WITH ORDINALITY AS e
             ORDER BY n, ordinality;""")
        accounts = collections.defaultdict(list)
        for line in rows.splitlines():
            account, *event = json.loads(line)
            accounts[account].append(event)
        return accounts

    def check_decisions(self, events):
        """Every decision was made on the state just before its events. Returns the balance."""
        balance = read_seq = 0
        for number, (seq, position, data) in enumerate(events, start=1):
            self.assertEqual((number, None), (seq, position))
            if data["read_seq"] == number - 1:  # the first event of a decision
                self.assertEqual(balance, data["read_balance"])
                read_seq = number - 1
            self.assertEqual(read_seq, data["read_seq"])
            balance += data["amount"]
        return balance

    def append_for_token(self, account, amounts, tenant=""):
        """Appends in a transaction of its own; returns the token of the last row, as an application would keep it."""
        events = [{"type": "account.moved", "id": f"{account} {n}", "data": {"amount": amount}}
                  for n, amount in enumerate(amounts)]
        rows = kit.sql(self.url, f"""
            BEGIN;
            SELECT token FROM everfold.append('{tenant}', '{account}', NULL, '{json.dumps(events)}');
            COMMIT;""").split()
        self.assertEqual(len(amounts), len(rows))
        return rows[-1]

    def test_a_read_with_the_token_of_an_append_shows_it(self):
        self.deploy(PROGRAM)
        self.serve()
        # Names that base64 writes with all of its characters, with padding and over several lines.
        for account in ("plain", "a+b/c?>~ÿ", "größe-" + "x" * 200):
            token = self.append_for_token(account, [5, 7])
            path = "/v1/views/balances/" + urllib.parse.quote(account, safe="")
            answer = self.http("GET", f"{path}?at_least={token}&wait=30s")
            self.assertEqual(200, answer.status, str(answer))
            self.assertEqual({"moves": 2, "balance": 12}, answer.json()["data"])
        token = self.append_for_token("acme-1", [1], tenant="acme")
        got = self.ef("view", "get", "balances", "acme-1", "--tenant", "acme", "--at-least", token,
                      "--timeout", "60s", "-o", "json").json()
        self.assertEqual({"moves": 1, "balance": 1}, got["data"])
        # A repeated append has the token of the first one, now with the position.
        again = self.append_for_token("plain", [5, 7])
        self.assertRegex(again, r"^s\.\.cGxhaW4\.2\.[1-9][0-9]*\.s$")
        got = self.ef("view", "get", "balances", "plain", "--at-least", again, "-o", "json").json()
        self.assertEqual({"moves": 2, "balance": 12}, got["data"])

    def test_load_decide_append_needs_no_worker_and_a_server_folds_it(self):
        self.run_sessions()
        accounts = self.read_accounts()
        expected = {account: (len(events), self.check_decisions(events)) for account, events in accounts.items()}
        self.assertEqual(kit.EVENTS, sum(moves for moves, _ in expected.values()))
        self.deploy(PROGRAM)
        self.serve()
        kit.wait_until(lambda: self.http("GET", "/v1/views/balances/account-7?current&wait=30s").status == 200,
                       "a current view")
        self.assertEqual(expected, {account: (data["moves"], data["balance"])
                                    for account, data in self.views("balances").items()})
