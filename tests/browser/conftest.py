"""A headless Chromium, where one is installed; without it the tests of this folder skip, visibly."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # containers run as root
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--window-size=1440,900",
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: drives a real browser (Debian: chromium, chromium-driver)")


class Browser:
    """What a test does with a page, and afterwards what the page asked for and complained of."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        self.url = url

    def open(self, path: str) -> None:
        self.driver.get(self.url + path)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def log_in(self, name: str, password: str) -> None:
        self.open("/")
        self.find("input[name=username]").send_keys(name)
        self.find("input[name=password]").send_keys(password)
        self.find("button[type=submit]").click()
        self.find(".leave")

    def wait(self, holds: Callable[[], bool]) -> None:
        """Until something is so; TimeoutException after five seconds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 5).until(lambda driver: holds())

    def arrive(self, part: str) -> None:
        """Until the address has this in it."""
        self.wait(lambda: part in self.driver.current_url)

    def emulate(self, width: int, scheme: str) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def complaints(self) -> list[str]:
        """What the console said since it was last asked, policy violations included."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self) -> list[str]:
        """Every address the page asked for since it was last asked."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A running browser. Skips where Chromium, its driver or selenium is missing."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with its driver is installed (Debian: apt-get install chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for switch in SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.implicitly_wait(5)
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Any, live_server: Any) -> Browser:
    """A browser nobody is logged in with."""
    chromium.delete_all_cookies()
    fresh = Browser(chromium, live_server.url)
    fresh.complaints()
    fresh.requested()
    return fresh
