# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven through the pipe of its DevTools protocol: no library, no port."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60  # seconds


class Browser:
    """One page. What goes wrong in it is in `problems`, each address that it asks for in `requests`."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.TemporaryDirectory(prefix="distdl-browser-", ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.answers, to_write = os.pipe()

        def pipes():  # it reads from 3 and writes to 4
            high = os.dup(to_read), os.dup(to_write)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-extensions", f"--user-data-dir={self.profile.name}",
             f"--window-size={width},{height}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.profile.name})
        os.close(to_read)
        os.close(to_write)
        self.bytes, self.number, self.session = b"", 0, None
        self.problems, self.requests, self.loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        self.profile.cleanup()

    def message(self):
        """The next one from the browser."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.bytes:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"chromium does not answer within {PATIENCE} s")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise AssertionError("chromium has ended")
            self.bytes += more
        text, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(text)

    def take(self, event):
        what, about = event.get("method"), event.get("params", {})
        if what == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif what == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.problems.append(str(about["args"]))
        elif what == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.problems.append(about["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif what == "Page.loadEventFired":
            self.loaded = True

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, (method, message)
                return message["result"]
            self.take(message)

    def open(self, file):
        self.loaded = False
        self.call("Page.navigate", url=f"file://{file}")
        while not self.loaded:
            self.take(self.message())
        self.settle()

    def settle(self):
        """What waits for the next picture of the page is done then."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def value(self, expression):
        """What an expression of JavaScript yields in the page, also later by a promise."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def be_dark(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.settle()

    def be_wide(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()

    def overlaps(self):
        """Texts of charts that lie on one another, leave their chart, or are cut; and how far the page is wider than the window."""
        return self.value("""(() => {
            const found = [], box = (node) => { if (node instanceof SVGElement) return node.getBoundingClientRect(); const range = document.createRange(); range.selectNodeContents(node); return range.getBoundingClientRect(); };
            for (const chart of document.querySelectorAll(".chart, .parallel")) {
              const all = [...chart.querySelectorAll("h3, .unit, label, .legend li, text, .dygraph-axis-label, .dygraph-label")].filter((node) => node.textContent.trim());
              const boxes = all.map(box), frame = chart.getBoundingClientRect();
              boxes.forEach((a, i) => {
                const name = all[i].textContent;
                if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 1) found.push(`"${name}" leaves its chart`);
                boxes.forEach((b, k) => {
                  const isApart = a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
                  if (k > i && !isApart && !all[i].contains(all[k])) found.push(`"${name}" and "${all[k].textContent}" overlap`);
                });
              });
            }
            const wider = document.documentElement.scrollWidth - document.documentElement.clientWidth;
            if (wider > 0) found.push(`the page is ${wider} pixels wider than the window`);
            return found;
          })()""")

    def drag(self, begin, end):
        for kind, (x, y), buttons in (("mouseMoved", begin, 0), ("mousePressed", begin, 1), ("mouseMoved", end, 1), ("mouseReleased", end, 0)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons, clickCount=1)

    def double_click(self, x, y):
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)

    def picture(self, file):
        """The whole page as a PNG."""
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))


__all__ = ["Browser", "CHROMIUM"]
