"""A headless Chromium, driven by its own DevTools protocol."""

import itertools
import json
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.client import ClientConnection, connect

BINARY = Path("/usr/bin/chromium")

#: Without a process for each window that draws popups of an address bar which nobody sees: 0.7 s.
LEAN = ("--disable-gpu", "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup")

OPTIONS = (
    *LEAN,
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--window-size=900,1000",
)


class Page:
    """One tab. What it complains about is kept."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        found = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def evaluate(self, script: str) -> object:
        """Evaluate JavaScript; promises are awaited."""
        options = {"awaitPromise": True, "returnByValue": True}
        answer = self._call("Runtime.evaluate", expression=script, **options)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: str, within_s: float = 60.0) -> None:
        """Wait until a JavaScript condition holds."""
        poll = f"""new Promise((yes, no) => {{
            const end = Date.now() + {within_s * 1000};
            const look = () => {{
                if ({condition}) return yes(true);
                if (Date.now() > end) return yes(false);
                setTimeout(look, 50);
            }};
            look();
        }})"""
        assert self.evaluate(poll) is True, condition

    def show_as(self, *, width: int, is_dark: bool) -> None:
        """Make the window so many pixels wide, and prefer a scheme of colours."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1}
        self._call("Emulation.setDeviceMetricsOverride", **size, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key)

    def point(self, x: float, y: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def touch(self, x: float, y: float) -> None:
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def save(self, path: Path) -> None:
        path.write_bytes(b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **parameters: object) -> dict:
        message = {"id": next(self._ids), "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=90))
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.complaints.append(parameters["entry"]["text"])


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    command = [str(BINARY), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as chromium:
        try:
            with connect(_address(chromium), max_size=None, max_queue=None) as socket:
                yield Page(socket)
        finally:
            chromium.terminate()
            chromium.communicate(timeout=20)


def _address(chromium: "subprocess.Popen[str]") -> str:
    for line in chromium.stderr:
        if "DevTools listening on " in line:
            return line.strip().rpartition(" ")[2]
    raise AssertionError("Chromium did not start")
