#!/usr/bin/env python3
"""pictures.py URL OUT: the pictures of docs/img, from a server that has been at work for a while.

    everfold serve --demo, an hour later: python3 tests/web/pictures.py http://127.0.0.1:7450 docs/img

The dead row is tried with a program that can digest it: deploy one in place first.
"""
import json
import sys
import time
import urllib.request
from pathlib import Path

from browser import Browser

WIDE, NARROW = (1280, 1010), (390, 844)


def dead_row(url):
    with urllib.request.urlopen(f"{url}/v1/outbox?status=dead&limit=1") as answer:
        rows = json.load(answer)["rows"]
    return f"row/{rows[0]['lane']}/{rows[0]['stream']}/{rows[0]['seq']}" if rows else "outbox"


def aside(b, name):
    """What is shown of a page, but its top."""
    if name == "row" and b.js("!!find('Try it')"):
        b.press("Try it")
        b.wait("document.querySelector('.trial')")
    if name == "view":
        for _ in range(3):
            b.press("◀")
    words = {"view": "Time travel", "program": "Program"}.get(name)
    if words:
        b.js(f"scrollTo(0, find({json.dumps(words)}, 'h2').getBoundingClientRect().top + scrollY - 80)")


def main():
    url, out = sys.argv[1].rstrip("/"), Path(sys.argv[2])
    row, both = dead_row(url), (False, True)
    pages = [("overview", "", WIDE, both), ("overview", "", NARROW, both), ("row", row, WIDE, both), ("row", row, NARROW, both),
             ("projection", "projection/customer_orders", WIDE, both), ("program", "projection/customer_orders", WIDE, both),
             ("view", "view/customer_orders/ada", WIDE, both), ("crew", "crew", WIDE, (True,)), ("outbox", "outbox", NARROW, both)]
    b = Browser()
    try:
        for name, page, (width, height), themes in pages:
            for dark in themes:
                b.size(width, height, dark)
                b.open(f"{url}/#/{page}")
                b.wait("!document.querySelector('main').hasAttribute('aria-busy')")
                aside(b, name)
                time.sleep(1)
                kind = f"{'phone' if width < 600 else 'wide'}-{'dark' if dark else 'light'}"
                b.picture(out / f"monitor-{name}-{kind}.png")
    finally:
        b.close()


main()
