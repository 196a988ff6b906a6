#!/usr/bin/env python3
"""faults.py - the PostgreSQL journal under load while things go wrong.

usage: faults.py LOAD in-flight|kills|alone|stops [TIMES] [EVENTS]

in-flight  64 writers, a tenth of them rolled back, some left open for seconds: no reader skips
kills      back ends are ended by the server, TIMES times, one after the other
alone      the same while nobody appends by SQL and nobody gives ids: appends go by their guesses
stops      the server is stopped at once, as by a crash, and started again, TIMES times

Each ends with exact totals: what was committed is there once, and nothing else (see load.c). A load that is over
before all has gone wrong that was to is followed by another one, on a database of its own, with its own totals.
"""
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))
import postgres_server  # noqa: E402

SKIPPED = 77


def start_load(load, server, number, api, sql, events, hold_ms):
    psql(server, f'CREATE DATABASE load{number}')
    url = server.url.rsplit('/', 1)[0] + f'/load{number}'
    return subprocess.Popen([load, url, str(api), str(sql), str(events), str(hold_ms)])


def psql(server, sql):
    return subprocess.run([os.path.join(server.binaries, 'psql'), '-X', '-A', '-t', '-q', '-c', sql,
                           server.url], check=False, capture_output=True, text=True)


def kill_one(server, chance):
    """End a back end that is at work, or any of ours."""
    found = psql(server, 'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() '
                         "AND backend_type = 'client backend'").stdout.split()
    if found:
        psql(server, f'SELECT pg_terminate_backend({chance.choice(found)})')


def stop_once(server, _):
    server.stop(postgres_server.signal.SIGQUIT)
    server.start()


def disturb(server, process, what, times, pause):
    """Do it `times` times while the load runs: how often it was done."""
    chance = random.Random(7)
    done = 0
    while process.poll() is None and done < times:
        time.sleep(pause * (0.5 + chance.random()))
        if process.poll() is None:
            what(server, chance)
            done += 1
    return done


def main():
    load, mode = sys.argv[1], sys.argv[2]
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    if not postgres_server.programs():
        print('there is no PostgreSQL server to start')
        return SKIPPED
    what, pause = (stop_once, 0.5) if mode == 'stops' else (kill_one, 0.2)
    with postgres_server.Server() as server:
        done = code = rounds = 0
        while code == 0 and (rounds == 0 or (mode != 'in-flight' and done < times)):
            rounds += 1
            if mode == 'in-flight':
                events = int(sys.argv[4]) if len(sys.argv) > 4 else 25
                process = start_load(load, server, rounds, 16, 48, events, 2000)
            else:
                events = int(sys.argv[4]) if len(sys.argv) > 4 else 250 * times
                process = start_load(load, server, rounds, 4, 0 if mode == 'alone' else 4, events, 50)
                time.sleep(0.5)
                met = disturb(server, process, what, times - done, pause)
                done += met
            code = process.wait()
            if mode != 'in-flight' and met == 0:
                print('the load was over before anything went wrong')
                code = code or 1
        print(f'{mode}: disturbed {done} times in {rounds} loads, exit code {code}')
        if code:
            print(server.log()[-3000:])
        return code


if __name__ == '__main__':
    sys.exit(main())
