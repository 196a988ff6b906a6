"""A TypeScript client made from /openapi.json compiles with --strict and works; a linter finds no error.

The packages come from the npm registry by name, in the versions of typescript/package-lock.json, and are kept in the
build directory.
"""
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import CUSTOMERS, Case, make_token

HERE = Path(__file__).resolve().parent / "typescript"
TIME_LIMIT_S = 300


def run(folder, *words):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT_S, stdin=subprocess.DEVNULL,
                          env={**os.environ, "NO_COLOR": "1", "REDOCLY_TELEMETRY": "off"})
    return done.returncode, done.stdout + done.stderr


@unittest.skipUnless(shutil.which("npm"), "npm is not installed")
class TypeScript(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        root = Path(os.environ.get("BUILD_ROOT") or tempfile.gettempdir())
        lock = (HERE / "package-lock.json").read_bytes()
        cls.folder = root / ("typescript-" + hashlib.sha256(lock).hexdigest()[:16])
        cls.install()
        for name in ("client.ts", "globals.d.ts", "tsconfig.json", "lint.cjs"):
            shutil.copy(HERE / name, cls.folder)
        cls.server.ask("PUT", "/v1/projections/customers", CUSTOMERS)
        cls.token = make_token(cls.server.data, "--scope", "admin")["token"]
        document = cls.server.ask("GET", "/openapi.json", token=cls.token)
        (cls.folder / "openapi.json").write_bytes(document.body)

    @classmethod
    def install(cls):
        if (cls.folder / "installed").exists():
            return
        cls.folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, cls.folder)
        code, said = run(cls.folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
        if code != 0:
            raise AssertionError(f"npm ci: {said[-4000:]}")
        (cls.folder / "installed").touch()

    def command(self, *words):
        code, said = run(self.folder, *words)
        self.assertEqual(0, code, said[-6000:])
        return said

    def test_a_generated_client_compiles_and_works(self):
        self.command("node_modules/.bin/openapi-typescript", "openapi.json", "-o", "schema.d.ts")
        self.command("node_modules/.bin/tsc", "-p", ".")
        self.assertEqual("ok", self.command("node", "out/client.js", self.server.url, self.token).strip())

    def test_a_linter_finds_no_error(self):
        self.command("node", "lint.cjs", "openapi.json")
