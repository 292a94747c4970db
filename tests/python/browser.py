"""A headless Chromium, driven through its pipe: for tests of the dashboard."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

from support import PATIENCE_S

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. Everything that the page writes to its console, and all its exceptions, are in .said."""

    def __init__(self, directory, width=1280, height=900, dark=False):
        from_browser, ours_out = os.pipe()
        ours_in, to_browser = os.pipe()
        closed = [ours_in, ours_out]
        # Its descriptors are 3 (commands) and 4 (answers); ours get out of the way first.
        ours_in, ours_out = (fcntl.fcntl(each, fcntl.F_DUPFD, 50) for each in closed)
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--remote-debugging-pipe", f"--user-data-dir={directory}/chromium", f"--window-size={width},{height}",
                   "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{ours_in} 4>&{ours_out}', "bash", *command], pass_fds=[ours_in, ours_out],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for each in (ours_in, ours_out, *closed):
            os.close(each)
        self.commands, self.answers = os.fdopen(to_browser, "wb", 0), from_browser
        self.unread, self.number, self.session, self.said = b"", 0, None, []
        [target] = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def message(self, deadline):
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.answers], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            more = os.read(self.answers, 1 << 20)
            assert more, "Chromium has ended"
            self.unread += more
        text, self.unread = self.unread.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        self.commands.write(json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            message = self.message(deadline)
            if message.get("id") == self.number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                self.said.append(message["params"])

    def open(self, address):
        self.call("Page.navigate", url=address)

    def value(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression, what, patience_s=PATIENCE_S):
        deadline = time.monotonic() + patience_s
        while True:
            value = self.value(expression)
            if value:
                return value
            assert time.monotonic() < deadline, f"waited {patience_s:.0f} s for {what}"
            time.sleep(0.05)

    def picture(self, path, whole=False):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def end(self):
        self.commands.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)
