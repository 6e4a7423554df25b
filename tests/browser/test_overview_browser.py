"""From the login to a pass in a real browser: nothing is blocked, nothing leaves the server, all fits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from sessions_app.models import Session
from tests.pages.rows import days_ago, make_incident, make_pass, make_usage

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

NAME, PASSWORD = "ada", "a long enough secret"
LEAST_CONTRAST = 4.5


@pytest.fixture
def owner() -> User:
    return User.objects.create_user(NAME, password=PASSWORD)


@pytest.fixture
def session(owner: User) -> Session:
    """Long names, many passes, a refusal."""
    session = Session.objects.create(
        owner=owner, harness="opencode", sid="ses_" + "7f3kq2v9xw" * 6, format="anthropic",
        last_seen=days_ago(0), model="anthropic/claude-sonnet-4-5", usable_limit=160_000,
        context_limit=200_000, threshold=65.0, usage_percentage=71.5, input_tokens=114_000,
    )  # fmt: skip
    for number in range(60):
        changed = number % 20 == 19
        record = make_pass(
            session, usage_percentage=30 + number / 2, time=days_ago((60 - number) / 500),
            level="soft_plus" if changed else "defer", reasons=["queued_drops"] if changed else [],
            first_changed=3 if changed else None, dropped_tokens=12_000 if changed else 0,
        )  # fmt: skip
    make_usage(session, f"pass:{record.pk}", read=9000, write=1000, pass_record=record)
    make_incident(session)
    return session


def test_from_the_login_to_a_pass(browser: Any, session: Session) -> None:
    browser.log_in(NAME, PASSWORD)
    lane = browser.find(".lane")
    assert session.sid in lane.text
    assert len(browser.all(".lane .bar")) == 61
    assert browser.find(".lane .letters").text.endswith("+R")
    lane.find_element("css selector", "a.id").click()
    browser.arrive(f"/sessions/{session.pk}/")
    assert browser.find("h1").text == str(session)
    newest = session.passes.latest("pk")
    browser.find(f"a[href='/passes/{newest.pk}/']").click()
    browser.arrive(f"/passes/{newest.pk}/")
    assert f"Pass {newest.pk}" in browser.find("h1").text
    assert browser.find("tr.deciding").text.startswith("signal idle")
    assert browser.complaints() == []
    asked = browser.requested()
    assert any(address.endswith("sessions.css") for address in asked)
    assert [address for address in asked if not address.startswith(browser.url)] == []


def test_a_bar_leads_to_its_pass(browser: Any, session: Session) -> None:
    browser.log_in(NAME, PASSWORD)
    newest = session.passes.latest("pk")
    browser.find(f".lane a[href='/passes/{newest.pk}/'] .bar").click()
    browser.arrive(f"/passes/{newest.pk}/")


def test_the_first_run_shows_commands_to_copy(browser: Any, owner: User) -> None:
    browser.log_in(NAME, PASSWORD)
    buttons = browser.all("[data-copy]")
    assert [button.text for button in buttons] == ["Copy"] * 3
    assert f"curl {browser.url}/api/v1/" in browser.find("#first-call").text
    buttons[0].click()
    browser.wait(lambda: buttons[0].text in {"Copied", "Selected"})
    assert browser.complaints() == []


def test_rows_and_filters_are_reached_by_keyboard(browser: Any, session: Session) -> None:
    browser.log_in(NAME, PASSWORD)
    browser.open("/passes/")
    body = browser.find("body")
    body.send_keys("j")
    browser.driver.switch_to.active_element.send_keys("j")
    second = session.passes.order_by("-pk")[1]
    active = browser.driver.switch_to.active_element
    assert active.text == str(second.pk)
    assert (
        browser.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", active) == "solid"
    )
    active.send_keys("k")
    browser.driver.switch_to.active_element.send_keys("/")
    assert browser.driver.switch_to.active_element.get_attribute("name") == "harness"
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.driver.switch_to.active_element.get_attribute("name") == "level"


def test_filters_are_in_the_address_and_back_works(browser: Any, session: Session) -> None:
    browser.log_in(NAME, PASSWORD)
    browser.open("/passes/")
    browser.find("select[name=level] option[value=soft_plus]").click()
    browser.find(".filters button").click()
    browser.arrive("level=soft_plus")
    browser.wait(lambda: len(browser.all("table.rows tbody tr")) == 3)
    browser.driver.back()
    browser.wait(lambda: len(browser.all("table.rows tbody tr")) == 50)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_every_page_fits_and_can_be_read(browser: Any, session: Session, width: int, scheme: str) -> None:
    browser.log_in(NAME, PASSWORD)
    browser.emulate(width, scheme)
    newest = session.passes.latest("pk").pk
    for path in (
        "/",
        "/sessions/",
        "/passes/",
        "/incidents/",
        f"/sessions/{session.pk}/",
        f"/passes/{newest}/",
    ):
        browser.open(path)
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, path
        pairs = browser.driver.execute_script(COLOURS)
        assert len(pairs) > 3
        faint = [(text, contrast(ink, ground)) for text, ink, ground in pairs]
        assert [found for found in faint if found[1] < LEAST_CONTRAST] == [], path
    assert browser.complaints() == []


# Every piece of text with its colour and the colour of what it stands on.
COLOURS = """
const pairs = new Map();
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
  if (!text || !node.checkVisibility() || node.closest("title, option, script")) continue;
  const style = getComputedStyle(node);
  const ink = node.namespaceURI.endsWith("svg") ? style.fill : style.color;
  pairs.set(ink + ground(node), [text.slice(0, 40), ink, ground(node)]);
}
return [...pairs.values()];
"""


def contrast(ink: str, ground: str) -> float:
    """The ratio of two `rgb(…)` colours as WCAG defines it."""

    def luminance(colour: str) -> float:
        channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(ink), luminance(ground)), reverse=True)
    return round((lighter + 0.05) / (darker + 0.05), 2)
