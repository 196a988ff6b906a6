#!/usr/bin/env python3
"""postgres_server.py - a PostgreSQL server for the length of a test.

usage: postgres_server.py PROGRAM [ARGUMENT…]

Makes a cluster of its own below the build directory (BUILD_ROOT, or else the temporary one), starts a
server on 127.0.0.1 at a free port, runs PROGRAM with POSTGRES_URL set (a superuser's, database
"postgres") and ends the server. Its exit code is the program's; 77 (skipped) where there is no server
to start. A first cluster is kept in the build directory and copied, for initdb takes a second.

Servers refuse to run as root: then they run as the user postgres, or nobody.
"""
import contextlib
import ctypes
import fcntl
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

# fsync is off: these tests kill processes, and what a process has written outlives it.
SETTINGS = {
    'listen_addresses': "'127.0.0.1'", 'unix_socket_directories': "''", 'fsync': 'off',
    'full_page_writes': 'off', 'max_connections': '200', 'shared_buffers': '32MB',
    'logging_collector': 'off', 'log_min_messages': 'warning', 'jit': 'off',
    'autovacuum_naptime': '1s', 'max_prepared_transactions': '2',
}


def programs():
    """The folder of the newest server's programs, or None."""
    found = sorted(glob.glob('/usr/lib/postgresql/*/bin/postgres'),
                   key=lambda p: int(p.split('/')[4]))
    if found:
        return os.path.dirname(found[-1])
    path = shutil.which('postgres')
    return os.path.dirname(path) if path else None


def other_user():
    """Arguments of subprocess that leave root behind."""
    if os.geteuid() != 0:
        return {}
    for name in ('postgres', 'nobody'):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {'user': user.pw_uid, 'group': user.pw_gid, 'extra_groups': []}
    return {}


def end_with_parent():
    """A server does not outlive a test that is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def run(command, **how):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   **other_user(), **how)


def usable(folder):
    """Can the server's user get there?"""
    probe = subprocess.run(['test', '-x', folder], check=False, **other_user())
    return probe.returncode == 0


def base_folder():
    build = os.environ.get('BUILD_ROOT')
    if build and usable(build):
        folder = os.path.join(build, 'postgres')
        os.makedirs(folder, exist_ok=True)
        return folder
    return tempfile.gettempdir()


def give_away(path):
    user = other_user()
    if user:
        os.chown(path, user['user'], user['group'])


def template(base, binaries):
    """A cluster to copy, made once. A temporary folder keeps none."""
    made = os.path.join(base, 'template')
    with open(os.path.join(base, 'everfold-template.lock'), 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(made, 'PG_VERSION')):
            return made
        shutil.rmtree(made, ignore_errors=True)
        work = tempfile.mkdtemp(prefix='template-', dir=base)
        give_away(work)
        run([os.path.join(binaries, 'initdb'), '-D', os.path.join(work, 'data'), '-U', 'postgres',
             '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'])
        os.rename(os.path.join(work, 'data'), made)
        os.rmdir(work)
    return made


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Server:
    """A running server. `stop` and `start` leave its data alone. `copied` is the data of a server that
    was stopped; as a standby it only reads, until it is promoted. `primary` is a running server that it
    follows."""

    def __init__(self, copied=None, standby=False, primary=None, **settings):
        self.binaries = programs()
        if not self.binaries:
            raise FileNotFoundError('there is no PostgreSQL server to start')
        base = base_folder()
        self.folder = tempfile.mkdtemp(prefix='everfold-pg-', dir=base)
        give_away(self.folder)
        self.data = os.path.join(self.folder, 'data')
        if primary:
            run([os.path.join(self.binaries, 'pg_basebackup'), '-D', self.data, '-d', primary.url, '-R',
                 '--checkpoint=fast', '--no-sync'])
        else:
            run(['cp', '-R', copied or template(base, self.binaries), self.data])
        if standby:
            run(['touch', os.path.join(self.data, 'standby.signal')])
        self.port = free_port()
        self.settings = {**SETTINGS, **settings}
        self.process = None
        self.start()

    @property
    def url(self):
        return f'postgres://postgres@127.0.0.1:{self.port}/postgres'

    def start(self):
        given = [a for k, v in self.settings.items() for a in ('-c', f'{k}={v.strip(chr(39))}')]
        with open(os.path.join(self.folder, 'log'), 'ab') as log:
            self.process = subprocess.Popen(
                [os.path.join(self.binaries, 'postgres'), '-D', self.data, '-p', str(self.port),
                 *given], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                preexec_fn=end_with_parent, **other_user())
        for _ in range(600):
            if self.ready():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError('the server did not start:\n' + self.log())

    def ready(self):
        return subprocess.run([os.path.join(self.binaries, 'pg_isready'), '-q', '-h', '127.0.0.1', '-p',
                               str(self.port)], check=False).returncode == 0

    def log(self):
        with open(os.path.join(self.folder, 'log'), encoding='utf-8', errors='replace') as f:
            return f.read()[-20000:]

    def stop(self, how=signal.SIGINT):
        """SIGINT: fast; SIGQUIT: at once, as a crash. By its process id, and nobody else's."""
        if self.process:
            if self.process.poll() is None:
                self.process.send_signal(how)
            self.process.wait(timeout=60)
            self.process = None

    def close(self):
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main():
    if not programs():
        print('1..0 # SKIP there is no PostgreSQL server to start')
        return 77
    with Server() as server:
        environment = {**os.environ, 'POSTGRES_URL': server.url}
        for name in [n for n in environment if n.startswith('PG')]:
            del environment[name]
        return subprocess.run(sys.argv[1:], check=False, env=environment).returncode


if __name__ == '__main__':
    sys.exit(main())
