"""Reads an ELF program and names every protection against memory errors that it lacks.

usage: hardening.py PROGRAM | --self-test
"""
import os
import platform
import re
import subprocess
import sys
import tempfile

ENDBR64 = b"\xf3\x0f\x1e\xfa"
ENDBR64_LEAST = 100   # one at the beginning of every function that may be called through a pointer


def readelf(program, *options):
    return subprocess.run(["readelf", "-W", *options, program], check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def segment_flags(headers, name):
    found = re.search(rf"^\s*{name}\s+(?:0x\S+\s+){{5}}(.{{3}})", headers, re.MULTILINE)
    return found.group(1) if found else None


def missing(program):
    """The protections that the program lacks."""
    header, headers = readelf(program, "-h"), readelf(program, "-l")
    dynamic, symbols = readelf(program, "-d"), readelf(program, "--dyn-syms")
    lacks = []
    if not re.search(r"Type:\s+DYN", header) or not re.search(r"FLAGS_1.*PIE", dynamic):
        lacks.append("position-independent executable (-pie)")
    if segment_flags(headers, "GNU_RELRO") is None:
        lacks.append("read-only relocations (-z relro)")
    if not re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic):
        lacks.append("relocations that are resolved at the start (-z now)")
    if "E" in (segment_flags(headers, "GNU_STACK") or "E"):
        lacks.append("a stack that is not executable (-z noexecstack)")
    if "__stack_chk_fail" not in symbols:
        lacks.append("stack protector (-fstack-protector-strong)")
    if not re.search(r"__\w+_chk\b", symbols):
        lacks.append("checked library calls (-D_FORTIFY_SOURCE=2)")
    if platform.machine() == "x86_64":
        with open(program, "rb") as f:
            if f.read().count(ENDBR64) < ENDBR64_LEAST:
                lacks.append("landing pads of indirect calls (-fcf-protection)")
    return lacks


def self_test():
    """A program without any of it lacks all of it."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "bare")
        subprocess.run(["cc", "-x", "c", "-O1", "-no-pie", "-fno-pie", "-fno-stack-protector", "-fcf-protection=none",
                        "-U_FORTIFY_SOURCE", "-Wl,-z,norelro", "-Wl,-z,lazy", "-Wl,-z,execstack", "-o", program, "-"],
                       input=b"int main(void) { return 0; }", check=True)
        found = missing(program)
    expected = 7 if platform.machine() == "x86_64" else 6
    if len(found) != expected:
        sys.exit(f"hardening: a bare program lacks {expected} protections, and these were found missing: {found}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        lacks = missing(sys.argv[1])
        if lacks:
            sys.exit("hardening: " + sys.argv[1] + " lacks: " + "; ".join(lacks))
