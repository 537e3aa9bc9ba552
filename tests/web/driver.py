"""A person at a browser: the tab of `tests.reporting.browser` with keys, a mouse and files."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

ASKED = ("button", "link", "textbox", "combobox", "checkbox", "DisclosureTriangle", "Date", "DateTime", "menuitem")
KEYS = {"Tab": 9, "Enter": 13, "Space": 32, "ArrowDown": 40, "Escape": 27}
WAIT = 20.0  # seconds until a test gives up


@dataclass(frozen=True)
class Said:
    """What a screen reader is told of one thing: Chromium's accessibility tree has it."""

    role: str
    name: str
    description: str
    states: dict

    @property
    def is_asked(self):
        """Whether one does something with it."""
        return self.role in ASKED or bool(self.states.get("focusable") and self.states.get("editable"))


class Person:
    """Somebody who looks at a tab."""

    def __init__(self, page, address):
        self.page, self.address = page, address
        self.look()

    def look(self, width=1440, height=900, dark=False, scale=1):
        """A window of this size."""
        options = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
        self.page.send("Emulation.setDeviceMetricsOverride", **options)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.page.send(
            "Emulation.setEmulatedMedia", features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}]
        )

    def go(self, path):
        """Open an address."""
        url = path if path.startswith("http") else self.address + path
        self.leaving(lambda: self.page.send("Page.navigate", url=url))

    def leaving(self, act):
        """Do what leads to another page, and wait until that is there."""
        self.page.evaluate("window.here = true")
        act()
        self.until("window.here !== true && document.readyState === 'complete'")

    def until(self, condition):
        """Wait for something to be so."""
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            try:
                if self.page.evaluate(f"Boolean({condition})"):
                    return
            except RuntimeError:  # the page is being replaced
                pass
            time.sleep(0.02)
        raise AssertionError(f"not within {WAIT} s: {condition}; the page says: {self.text()[:600]}")

    def text(self, selector="body"):
        """What can be read there."""
        return self.page.evaluate(f"document.querySelector({json.dumps(selector)}).innerText").replace("\xa0", " ")

    def has(self, selector):
        """Whether there is such a thing."""
        return self.page.evaluate(f"document.querySelector({json.dumps(selector)}) !== null")

    def click(self, selector):
        """Press on the middle of something with the mouse."""
        box = self.page.evaluate(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2] }})(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
            self.page.send("Input.dispatchMouseEvent", type=kind, **where)

    def press(self, key):
        """A key."""
        code = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"Enter": "\r", "Space": " "}.get(key)
        self.page.send("Input.dispatchKeyEvent", type="keyDown", **code, **({"text": text} if text else {}))
        self.page.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def write(self, text):
        """Type where the cursor is."""
        self.page.send("Input.insertText", text=text)

    def fill(self, key, text):
        """Type into an entry, or choose there."""
        found = f"document.getElementById({json.dumps(key)})"
        if self.page.evaluate(f"{found}.tagName") == "INPUT" and self.page.evaluate(f"{found}.type") != "date":
            self.page.evaluate(f"{found}.focus(), {found}.select()")
            self.write(text)
        else:
            self.page.evaluate(f"{found}.value = {json.dumps(text)}")

    def heard(self):
        """All that a screen reader would read, from the top to the bottom."""
        nodes = {node["nodeId"]: node for node in self.page.send("Accessibility.getFullAXTree")["nodes"]}

        def told(node):
            if not node["ignored"]:
                states = {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
                parts = [node.get(part, {}).get("value", "") for part in ("role", "name", "description")]
                yield Said(*parts, states)
            for child in node.get("childIds", []):
                if child in nodes:
                    yield from told(nodes[child])

        return list(told(next(node for node in nodes.values() if "parentId" not in node)))

    def focused(self):
        """What the keyboard is at, as a screen reader names it."""
        found = self.page.send("Runtime.evaluate", expression="document.activeElement")["result"]
        [node] = self.page.send("Accessibility.getPartialAXTree", objectId=found["objectId"], fetchRelatives=False)[
            "nodes"
        ]
        return node["role"]["value"], node.get("name", {}).get("value", "")

    def at(self, what):
        """Wait until the keyboard is at something: its id, or its words."""
        self.until(f"(e => e.id || e.textContent.trim())(document.activeElement) === {json.dumps(what)}")

    def choose_file(self, selector, path):
        """Choose a file in an entry for files."""
        root = self.page.send("DOM.getDocument")["root"]["nodeId"]
        node = self.page.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.page.send("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def drop_file(self, selector, path):
        """Drop a file onto something."""
        box = self.page.evaluate(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.page.send("Input.dispatchDragEvent", type=kind, x=box[0], y=box[1], data=data)

    def downloads_to(self, folder):
        """Where downloads go."""
        self.page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def downloaded(self, path):
        """A file that has been downloaded."""
        end = time.monotonic() + WAIT
        while not (Path(path).exists() and Path(path).stat().st_size):
            assert time.monotonic() < end, f"{path} has not come"
            time.sleep(0.05)
        return Path(path)
