#!/usr/bin/env python3
"""Workers and writers on one data directory, killed and stopped at random under load.

Three workers with short leases and two writers. In one test any of them is killed again and again
and replaced; in the other, workers are stopped past the end of their leases and woken. Then what is
left is folded, the workers are told to stop, and everything has to add up: every acknowledged event
is there, every view is what the oracle folds by itself, a build from nothing has the same digest,
nothing is unaccounted for, and nobody who stopped in order has left a lease.
"""
import os
import random
import shutil
import signal
import sys
import time

from harness import Report, arguments, scratch
from oracle import need
from team import Team

SERVERS, WRITERS = 3, 2


def progress(done, count, what):
    if count >= 100 and done % (count // 10) == 0:
        print("# %d of %d %s" % (done, count, what), flush=True)


def killed_at_random(tools, root, count, seed):
    """Some are killed while they start, for that is where recovery is; most of them at work."""
    team = Team(tools, os.path.join(root, "killed"), random.Random(seed), pause_ms=10)
    servers = [team.server() for _ in range(SERVERS)]
    everybody = servers + [team.writer() for _ in range(WRITERS)]
    at_work = 0
    while team.kills < count:
        k = team.dice.randrange(len(everybody))
        if k < SERVERS and team.dice.random() < 0.8:
            team.serves(everybody[k])
            at_work += 1
        time.sleep(team.dice.uniform(0, 0.2))
        team.kill(everybody[k])
        everybody[k] = team.server() if k < SERVERS else team.writer()
        progress(team.kills, count, "kills")
    team.close(*everybody[SERVERS:])
    team.wait_quiet()
    team.stop(everybody[:SERVERS])
    events, acknowledged = team.check()
    return "seed %d: %d kills, %d of them of workers at work; %d events, %d acknowledged" % (
        seed, team.kills, at_work, events, acknowledged)


def stopped_past_their_leases(tools, root, count, seed):
    """Writers do not rest here: who is stopped should be in the middle of something."""
    team = Team(tools, os.path.join(root, "zombies"), random.Random(seed), pause_ms=1, lease_ms=250)
    servers = [team.serves(team.server()) for _ in range(SERVERS)]
    writers = [team.writer() for _ in range(WRITERS)]
    for n in range(count):
        zombie = team.dice.choice(servers)
        time.sleep(team.dice.uniform(0, 0.1))
        zombie.send_signal(signal.SIGSTOP)
        time.sleep(team.lease_ms / 1000 + team.dice.uniform(0.05, 0.3))
        zombie.send_signal(signal.SIGCONT)
        progress(n + 1, count, "zombies")
    team.close(*writers)
    team.wait_quiet()
    team.stop(servers)
    lost, refused = team.told("lost"), team.told("refused")
    need(lost + refused > 0, "nobody was refused anything in %d stops", count)
    events, acknowledged = team.check()
    return "seed %d: %d stops, %d leases found lost, %d stale writes refused; %d events, " \
        "%d acknowledged" % (seed, count, lost, refused, events, acknowledged)


def run(tools, kills, zombies, seed, report):
    """`kills`, `zombies`: how many; 0 leaves the test out."""
    root = scratch()
    if kills:
        report.test("exact totals after workers and writers were killed at random",
                    killed_at_random, tools, root, kills, seed)
    if zombies:
        report.test("workers that wake up past their leases are refused and nothing is doubled",
                    stopped_past_their_leases, tools, root, zombies, seed)
    shutil.rmtree(root, ignore_errors=True)


def main():
    parser = arguments(__doc__)
    parser.add_argument("everfold", help="the command")
    parser.add_argument("--kills", type=int, help="how many (default 40, with --all 1,000)")
    parser.add_argument("--zombies", type=int, help="how many (default 12, with --all 200)")
    options = parser.parse_args()
    print("# seed %d" % options.seed)
    report, tools = Report(), [os.path.abspath(path) for path in (options.worker, options.everfold)]
    kills = (1000 if options.all else 40) if options.kills is None else options.kills
    zombies = (200 if options.all else 12) if options.zombies is None else options.zombies
    run(tools, kills, zombies, options.seed, report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
