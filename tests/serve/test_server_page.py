"""The page in a real browser: what people do with it, by mouse, keyboard and telephone, in light and dark."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys

import pytest

from uol.serve import samples

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make install")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser installs it"),
]
WAIT = 90_000  # milliseconds: the machine may be busy


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--use-fake-device-for-media-stream"]  # a camera that films a ball
        launched = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def served(served_type, two_panels):
    running = served_type("--model", two_panels, "--queue", "32").wait_until_ready()
    yield running
    running.end()


@pytest.fixture
def open_page(browser, served):
    """Open the page in a fresh context; afterwards nothing was refused by its policy and nothing left the machine."""
    opened, problems = [], []

    def start(path="", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if elsewhere(request.url) else None)
        page.goto(served.url + path)
        page.locator("body[data-ready]").wait_for()
        opened.append(context)
        return page

    def elsewhere(url):
        return not url.startswith((served.url, "blob:", "data:"))

    yield start
    for context in opened:
        assert context.cookies() == []
        context.close()
    assert problems == []


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for name in samples.NAMES[:3]:
        (folder / name).write_bytes(samples.sample(name))
    (folder / "words.png").write_bytes(b"no image")
    (folder / "=1+1.png").write_bytes(samples.sample(samples.NAMES[3]))
    return folder


def expect_scored(page, count):
    playwright.expect(page.locator(".card[data-state=scored]")).to_have_count(count, timeout=WAIT)


def upload(page, photos, *names):
    page.locator("#files").set_input_files([photos / name for name in names])


def printed(folder, *arguments):
    path = os.pathsep.join(filter(None, [os.path.abspath("src"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", "from uol.cli import main\nmain()", *map(str, arguments)],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip


def serious(page):
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def test_photographs_are_scored_and_one_that_is_none_has_an_error(open_page, photos):
    page = open_page()
    upload(page, photos, *samples.NAMES[:3], "words.png")
    expect_scored(page, 3)
    failed = page.locator(".card[data-state=failed]")
    assert "not a readable image" in failed.locator(".error").inner_text()
    first = page.locator(".card").first
    assert first.locator(".f-face").count() == 1
    (row,) = json.loads(printed(photos, "score", samples.NAMES[0], "--json"))
    assert first.locator(".value").inner_text() == f"{row['value']:.2f}"
    assert first.locator(".range").inner_text() == f"{row['low']:.2f} to {row['high']:.2f}"
    assert f"± {row['dispersion']:.2f}" in first.locator(".numbers").inner_text()
    assert page.locator("#live").inner_text() == "4 of 4 done, 1 without a score"
    assert serious(page) == []


def test_drawn_faces_with_one_click_and_every_face(open_page):
    page = open_page()
    page.get_by_role("button", name="Try drawn faces").click()
    expect_scored(page, 9)
    page.get_by_label("Score every face, not only the main one").check()
    expect_scored(page, 9)
    together = page.locator(".card", has_text="together")
    playwright.expect(together.locator(".row")).to_have_count(2)
    playwright.expect(together.locator(".f-number")).to_have_count(2)


def test_two_photographs_are_compared(open_page, photos):
    page = open_page()
    upload(page, photos, *samples.NAMES[:2])
    expect_scored(page, 2)
    for name in samples.NAMES[:2]:
        page.get_by_role("button", name=f"Compare {name}").click()
    label = page.locator(".outcomes").get_attribute("aria-label")
    outcomes = json.loads(printed(photos, "compare", *samples.NAMES[:2], "--json"))
    assert f"{samples.NAMES[0]} is rated higher: {round(100 * outcomes['greater'])} %" in label
    assert f"alike: {round(100 * outcomes['similar'])} %" in label
    assert serious(page) == []


def test_a_ranking_and_its_table_are_those_of_the_command_line(open_page, photos):
    page = open_page()
    names = [*samples.NAMES[:3], "=1+1.png", "words.png"]
    upload(page, photos, *names)
    expect_scored(page, 4)
    assert table(page) == printed(photos, "score", *names, "--csv").splitlines()
    page.get_by_role("button", name="Rank").click()
    expected = printed(photos, "rank", *names, "--csv")
    assert table(page) == expected.splitlines()
    rows = list(csv.DictReader(io.StringIO(expected)))
    shown = page.locator(".card[data-state=scored] .rank").all_inner_texts()
    ranks = [f"{'=' if row['tied'] == 'True' else ''}{row['rank']}" for row in rows if row["rank"]]
    assert [text.split()[-1] for text in shown] == ranks
    assert any("'=1+1.png" in line for line in expected.splitlines())


def table(page):
    """The lines of the table that the page gives, those with an error last as in a ranking."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV").click()
    with open(waiting.value.path(), encoding="utf-8") as file:
        return file.read().splitlines()


def test_another_panel_scores_again(open_page, photos):
    page = open_page()
    upload(page, photos, samples.NAMES[0])
    expect_scored(page, 1)
    before = page.locator(".value").inner_text()
    page.get_by_label("Panel", exact=True).select_option("ten")
    playwright.expect(page.locator(".value")).not_to_have_text(before, timeout=WAIT)
    assert "1 to 10" in page.locator("#raters").inner_text()
    playwright.expect(page.locator(".s-tick").last).to_have_text("10")


def test_an_explanation_opens_and_closes_by_keyboard(open_page, photos):
    page = open_page()
    upload(page, photos, samples.NAMES[0])
    expect_scored(page, 1)
    page.get_by_role("button", name="Why this score?").focus()
    page.keyboard.press("Enter")
    picture = page.locator("#explanation-body img")
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 500
    assert serious(page) == []
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#explanation")).not_to_be_visible()
    playwright.expect(page.get_by_role("button", name="Why this score?")).to_be_focused()


def test_all_of_it_by_keyboard(open_page):
    page = open_page()
    reach(page, "samples")
    page.keyboard.press("Enter")
    expect_scored(page, 9)
    for name in ("Compare drawn face-1.png", "Compare drawn face-2.png"):
        reach(page, name)
        page.keyboard.press("Space")
        playwright.expect(page.get_by_role("button", name=name)).to_be_focused()
    page.locator(".outcomes").wait_for()
    reach(page, "Remove drawn face-2.png")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("button", name="Remove drawn face-3.png")).to_be_focused()


def reach(page, label):
    """Press Tab until the element with an id or a label has the focus."""
    page.locator("#files").focus()
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if label in (focused.get_attribute("id"), focused.get_attribute("aria-label")):
            return
    pytest.fail(f"{label} cannot be reached by Tab")


def test_photographs_are_pasted_and_dropped(open_page):
    page = open_page()
    give = """async ([kind, type, name]) => {
        const blob = await (await fetch(`/samples/${name}`)).blob();
        const given = new DataTransfer();
        given.items.add(new File([blob], `${kind}.png`, { type: "image/png" }));
        const event = new Event(kind, { bubbles: true, cancelable: true });
        Object.defineProperty(event, type, { value: given });
        document.getElementById("drop").dispatchEvent(event);
    }"""
    page.evaluate(give, ["paste", "clipboardData", samples.NAMES[0]])
    page.evaluate(give, ["drop", "dataTransfer", samples.NAMES[1]])
    expect_scored(page, 2)
    assert page.locator(".name").all_inner_texts() == ["paste.png", "drop.png"]


def test_a_photograph_from_the_camera(open_page):
    page = open_page(permissions=["camera"])
    page.get_by_role("button", name="Use the camera").click()
    playwright.expect(page.locator("#video")).to_have_js_property("readyState", 4, timeout=WAIT)
    page.get_by_role("button", name="Take a photograph").click()
    playwright.expect(page.locator(".card .error")).to_contain_text("no face found", timeout=WAIT)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_shows_all_without_scrolling_sideways(open_page, photos, scheme):
    page = open_page(viewport={"width": 390, "height": 844}, color_scheme=scheme, is_mobile=True, has_touch=True)
    upload(page, photos, *samples.NAMES[:2], "words.png")
    expect_scored(page, 2)
    page.get_by_role("button", name=f"Compare {samples.NAMES[0]}").tap()
    page.get_by_role("button", name=f"Compare {samples.NAMES[1]}").tap()
    page.locator(".outcomes").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert serious(page) == []


def test_the_documents_of_the_api_come_from_here_and_their_form_works(browser, served, photos):
    page = browser.new_page()
    page.set_default_timeout(WAIT)
    asked, problems = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(served.url + "docs")
    page.locator("#operations-images-score_v1_score_post").get_by_role("button").first.click()
    page.get_by_role("button", name="Try it out").click()
    page.locator("input[type=file]").first.set_input_files(photos / samples.NAMES[0])
    with page.expect_response("**/v1/score") as waiting:
        page.get_by_role("button", name="Execute").click()
    assert [row["image"] for row in waiting.value.json()] == [samples.NAMES[0]]
    assert all(url.startswith((served.url, "data:", "blob:")) for url in asked)
    assert problems == []
    page.close()


def test_a_token_is_asked_for(browser, served_type):
    running = served_type("--token", "open-sesame").wait_until_ready()
    page = browser.new_page()
    page.goto(running.url)
    page.get_by_label("This service asks for a token").fill("wrong")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#token-problem")).to_contain_text("not right")
    page.get_by_label("This service asks for a token").fill("open-sesame")
    page.keyboard.press("Enter")
    page.locator("body[data-ready]").wait_for()
    page.goto(f"{running.url}#token=open-sesame")
    page.reload()
    page.locator("body[data-ready]").wait_for()
    assert "sesame" not in page.url
    page.close()
    running.end()
