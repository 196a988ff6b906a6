"""A headless Chromium, spoken to by the DevTools protocol over a pipe: no driver, no package."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

WAIT_S = 30
START_S = 150  # on a machine that has other things to do

# Found as a person does: by what stands on it. `find` is in the page, for all tests.
HELPERS = """
window.seen = (node) => node.checkVisibility({ visibilityProperty: true });
window.top_ = () => document.querySelector("dialog[open]") ?? document.body;
window.find = (words, kinds = "button, a, summary, option, [role=option]") =>
  [...top_().querySelectorAll(kinds)].find((n) => seen(n) && n.textContent.trim() === words) ??
  [...top_().querySelectorAll(kinds)].find((n) => seen(n) && n.textContent.includes(words));
window.field = (label) => {
  const found = [...top_().querySelectorAll("label")].find((n) => seen(n) && n.textContent.trim().startsWith(label));
  return found && (found.control ?? document.getElementById(found.htmlFor));
};
""" + (Path(__file__).parent / "look.js").read_text()

# Roles that assistive technology announces by name.
NAMED = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "slider", "progressbar", "img", "image", "dialog",
         "table", "region", "navigation", "option", "listbox", "tab", "form", "columnheader"}


def program():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="everfold-chromium-")
        its_in, self.out = os.pipe()
        self.inn, its_out = os.pipe()
        # The protocol is on descriptors 3 and 4 of Chromium's.
        line = (f'exec "$0" --headless=new --remote-debugging-pipe --no-sandbox --disable-gpu --no-first-run '
                f'--disable-extensions --disable-background-networking --disable-dev-shm-usage --hide-scrollbars '
                f'--force-device-scale-factor=1 "--user-data-dir=$1" about:blank 3<&{its_in} 4>&{its_out}')
        self.process = subprocess.Popen(["sh", "-c", line, program(), self.dir], pass_fds=(its_in, its_out),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(its_in)
        os.close(its_out)
        self.rest, self.number, self.session = b"", 0, None
        self.requests, self.troubles = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=HELPERS)

    def close(self):
        try:
            self.call("Browser.close")
        except (EOFError, OSError, AssertionError):
            pass
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inn)
        shutil.rmtree(self.dir, ignore_errors=True)

    # --- the protocol -----------------------------------------------------------------------------

    def message(self):
        until = time.monotonic() + (WAIT_S if self.session else START_S)
        while b"\0" not in self.rest:
            if not select.select([self.inn], [], [], max(0, until - time.monotonic()))[0]:
                raise AssertionError("Chromium does not answer")
            data = os.read(self.inn, 1 << 20)
            if not data:
                raise EOFError("Chromium has ended")
            self.rest += data
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.troubles.append(json.dumps(params["exceptionDetails"])[:600])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.troubles.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Page.javascriptDialogOpening":
            self.troubles.append("a dialog of a script: " + params["message"])

    def call(self, method, **params):
        self.number += 1
        wanted = {"id": self.number, "method": method, "params": params}
        if self.session:
            wanted["sessionId"] = self.session
        os.write(self.out, json.dumps(wanted).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == wanted["id"]:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    # --- the page ---------------------------------------------------------------------------------

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {json.dumps(answer['exceptionDetails'])[:600]}")
        return answer["result"].get("value")

    def wait(self, expression, limit_s=WAIT_S):
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            value = self.js(f"(() => {{ try {{ const v = {expression}; return v instanceof Node ? true : v; }} "
                            "catch (e) { return null } })()")
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"it did not happen: {expression}\n{self.text()[:3000]}")

    def wait_words(self, words, limit_s=WAIT_S):
        return self.wait(f"document.body.innerText.includes({json.dumps(words)})", limit_s)

    def text(self):
        return self.js("document.body.innerText")

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait("document.querySelector('main h1, main .notice, dialog[open]')")

    def go(self, page):
        self.js(f"location.hash = {json.dumps('#/' + page)}")
        self.wait("!document.querySelector('main').hasAttribute('aria-busy') && "
                  "document.querySelector('main h1, main .notice')")

    def press(self, words):
        """Click what has these words on it, in the dialog if one is open."""
        self.wait(f"find({json.dumps(words)}) && !find({json.dumps(words)}).disabled")
        self.js(f"find({json.dumps(words)}).click()")

    def fill(self, label, value):
        self.wait(f"field({json.dumps(label)})")
        self.js(f"""(() => {{ const f = field({json.dumps(label)});
            if (f.type === "checkbox") f.checked = {json.dumps(value)}; else f.value = {json.dumps(value)};
            f.dispatchEvent(new Event("input", {{bubbles: true}}));
            f.dispatchEvent(new Event("change", {{bubbles: true}})); }})()""")

    def key(self, name, code=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=code or name,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40}.get(name, 0),
                      **({"text": "\r"} if name == "Enter" and kind == "keyDown" else {}))

    def typed(self, text):
        self.call("Input.insertText", text=text)

    def nameless(self):
        """What a screen reader would announce without a name: as Chromium's accessibility tree has it."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [n["role"]["value"] + " " + json.dumps(n.get("properties", []))[:80] for n in nodes
                if not n["ignored"] and n.get("role", {}).get("value") in NAMED
                and not n.get("name", {}).get("value", "").strip()]

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
