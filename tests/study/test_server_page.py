"""The pages in a real browser: a study by seven people at once, lost connections, other devices, the live page."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter

import pytest

from served_study import ADMIN, Served, make_study
from uol.study.folder import open_study
from uol.study.sessions import Sessions
from uol.study.store import Store, database_url

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed: make install")
axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe-playwright-python is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser installs it"),
]
WAIT = 90_000  # milliseconds: the machine may be busy
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "color_scheme": "dark"}
SETTLED = "#stage[data-trial], #stage:is([data-screen=break], [data-screen=practice-over], [data-screen=thanks])"


class Participant:
    """Somebody with a browser, who notes what they answered."""

    def __init__(self, browser, url, name, **options):
        self.browser, self.url, self.name, self.options = browser, url, name, options
        self.given, self.problems, self.page = {}, [], None

    async def open(self, query=""):
        """Open the study in a browser that knows nothing; the last one is closed."""
        if self.page is not None:
            await self.page.context.close()
        context = await self.browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **self.options})
        self.page = await context.new_page()
        self.page.set_default_timeout(WAIT)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda one: None if self._here(one.url) else self.problems.append(one.url))
        await self.page.goto(f"{self.url}?PROLIFIC_PID={self.name}{query}")
        await self.page.locator("body[data-ready]").wait_for()
        return self.page

    def _here(self, url):
        return url.startswith((self.url, "blob:", "data:"))

    def _note(self, message):
        if message.type == "error" and "ERR_INTERNET_DISCONNECTED" not in message.text:
            self.problems.append(message.text)

    async def begin(self, agree="I agree and want to take part", start="Begin"):
        await self.page.get_by_role("button", name=agree).click()
        await self.page.get_by_role("button", name=start).click()

    async def settle(self):
        """Wait for the next trial, a break or the end; its name."""
        await self.page.locator(SETTLED).wait_for()
        return await self.page.locator("#stage").get_attribute("data-screen")

    async def trials(self, most=1000, how="keys"):
        """Answer trials, some or all; whether the study is over."""
        for _ in range(most):
            screen = await self.settle()
            while screen in ("break", "practice-over"):
                await self.page.locator("#stage button.main").click()
                await self.page.locator(f"#stage:not([data-screen={screen}])").wait_for()
                screen = await self.settle()
            if screen == "thanks":
                return True
            await self.answer(how)
        return False

    async def answer(self, how):
        stage = self.page.locator("#stage")
        trial = await stage.get_attribute("data-trial")
        options = stage.locator(".option")
        place = (len(self.given) * 7 + len(self.name)) % min(2, await options.count())
        chosen = options.nth(place)
        self.given[trial] = await chosen.get_attribute("data-answer")
        if how == "keys":
            await self.page.keyboard.press(("ArrowLeft", "ArrowRight")[place])
        elif how == "touch":
            await chosen.tap()
        elif how == "tab":
            for _ in range(20):
                await self.page.keyboard.press("Tab")
                if await chosen.evaluate("element => element === document.activeElement"):
                    break
            await self.page.keyboard.press("Enter")
        else:
            await chosen.click()
        if how != "offline":
            await self.page.locator(f"#stage:not([data-trial='{trial}'])").wait_for()


async def by_keys(person):
    await person.open()
    await person.begin()
    assert await person.trials()


async def by_mouse(person):
    await person.open()
    await person.begin()
    assert await person.trials(how="mouse")


async def by_touch(person):
    page = await person.open()
    await person.begin()
    await person.settle()
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert await page.locator(".option .under").first.inner_text() == "Top"
    assert await person.trials(how="touch")


async def with_reloads(person):
    page = await person.open()
    await person.begin()
    for _ in range(2):
        await person.trials(3)
        await person.settle()
        await page.reload()
        await page.get_by_role("button", name="Go on").click()
    assert await person.trials()
    code = await page.locator("#code").inner_text()
    await page.reload()
    assert await page.locator("#code").inner_text() == code


async def with_a_lost_connection(person):
    page = await person.open()
    await person.begin()
    await person.trials(2)
    await person.settle()
    await page.context.set_offline(True)
    before = await page.locator("#stage").get_attribute("data-trial")
    await person.answer("offline")
    await page.locator("#connection").wait_for()
    assert "is being sent again" in await page.locator("#connection").inner_text()
    assert (
        await page.locator("#stage").get_attribute("data-trial") == before
    )  # the next is not shown before this is saved
    await page.context.set_offline(False)
    await page.locator(f"#stage:not([data-trial='{before}'])").wait_for()
    await page.locator("#connection").wait_for(state="hidden")
    assert await person.trials()


async def on_two_devices(person):
    await person.open()
    await person.begin()
    await person.trials(4)
    await person.settle()
    person.options = PHONE
    await person.open()
    await person.begin(start="Go on")
    assert await person.trials(how="touch")


async def by_tab_in_german(person):
    await person.open("&language=de")
    await person.begin("Ich stimme zu und möchte teilnehmen", "Beginnen")
    assert await person.page.locator("html").get_attribute("lang") == "de"
    assert await person.trials(how="tab")


PEOPLE = {
    "keys": by_keys, "mouse": by_mouse, "touch": by_touch, "reload": with_reloads, "offline": with_a_lost_connection,
    "devices": on_two_devices, "tab": by_tab_in_german,
}  # fmt: skip


def run(work):
    """Run some work with a browser."""

    async def main():
        async with playwright.async_playwright() as started:
            browser = await started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                return await work(browser)
            finally:
                await browser.close()

    return asyncio.run(main())


async def serious(page):
    found = (await axe.Axe().run(page)).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def both(english, german):
    return {"en": english, "de": german}


def test_a_whole_study_by_seven_people_at_once(tmp_path, database):
    folder = make_study(
        tmp_path / "study", images=7, trials=7, practice=1, repeats=2, break_every=4, similar=True,
        languages=["en", "de"], question=both("Which is lighter?", "Was ist heller?"),
    )  # fmt: skip
    served = Served(folder, *([] if database is None else ["--database", database])).wait_until_ready()

    async def work(browser):
        people = [
            Participant(browser, served.url, name, **(PHONE if name == "touch" else {"locale": "en-GB"}))
            for name in PEOPLE
        ]
        await asyncio.gather(*(PEOPLE[person.name](person) for person in people))
        page = await browser.new_page()
        page.set_default_timeout(WAIT)
        await page.goto(f"{served.url}live#token={ADMIN}")
        await page.locator("body[data-ready]").wait_for()
        tiles = await page.locator("#tiles").inner_text()
        assert (await page.locator("#scale li").count(), await page.locator("#people tbody tr").count()) == (7, 7)
        return people, tiles

    people, tiles = run(work)
    assert served.end() == 0
    assert "finished, of 7 begun" in tiles
    assert [problem for person in people for problem in person.problems] == []
    store = Store(database_url(folder, database))
    sessions = Sessions(open_study(folder), store)
    names = {fields["PROLIFIC_PID"]: participant for participant, fields in store.personal().items()}
    answers = store.answers()
    assert Counter(one.participant for one in answers) == dict.fromkeys(names.values(), 10)
    assert {one.state for one in sessions.all()} == {"finished"}
    stored = {(one.participant, one.trial): sessions.key(one.answer) for one in answers}
    assert stored == {(names[one.name], trial): given for one in people for trial, given in one.given.items()}
    assert {one.language for one in answers if one.participant == names["tab"]} == {"de"}
    assert all(0 < one.response_ms < WAIT for one in answers)
    store.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    settings = {"kind": "ratings", "question": "How light?", "scale": {"low": 1, "high": 7, "labels": {1: "dark"}}}
    folder = make_study(tmp_path_factory.mktemp("ratings") / "study", images=4, trials=4, **settings)
    running = Served(folder).wait_until_ready()
    yield running
    running.end()


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, PHONE], ids=["desk", "phone"])
def test_every_screen_can_be_used_without_seeing_it_well(served, options):
    async def work(browser):
        person = Participant(browser, served.url, f"axe{len(options)}", **options)
        page, found = await person.open(), []
        found += await serious(page)
        await page.get_by_role("button", name="I agree and want to take part").click()
        await page.get_by_role("button", name="Begin").wait_for()
        found += await serious(page)
        await page.get_by_role("button", name="Begin").click()
        await page.locator("#stage[data-trial]").wait_for()
        found += await serious(page)
        assert await page.locator("h1").evaluate("element => element === document.activeElement")
        assert await page.get_by_role("button", name="1, dark").count() == 1
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        await page.get_by_role("button", name="Stop").click()
        found += await serious(page)
        await page.get_by_role("button", name="Go on with the study").click()
        while await person.settle() != "thanks":
            trial = await page.locator("#stage").get_attribute("data-trial")
            await page.keyboard.press("5")
            await page.locator(f"#stage:not([data-trial='{trial}'])").wait_for()
        found += await serious(page)
        assert person.problems == []
        return found

    assert run(work) == []


@pytest.mark.parametrize("kind", ["pairs", "best-of-four"])
def test_a_trial_fits_on_the_screen(tmp_path, kind):
    folder = make_study(tmp_path / "study", images=4, kind=kind, trials=1, practice=1, similar=kind == "pairs")
    served = Served(folder).wait_until_ready()

    async def work(browser):
        over = []
        for number, options in enumerate(({}, {"viewport": {"width": 1366, "height": 680}}, PHONE)):
            person = Participant(browser, served.url, f"looks{number}", **options)
            page = await person.open()
            await person.begin()
            await person.settle()
            over.append(await page.evaluate("document.documentElement.scrollHeight - window.innerHeight"))
        return over

    try:
        assert max(run(work)) <= 0
    finally:
        served.end()


def test_a_lost_reply_to_entering_locks_no_browser_out(tmp_path):
    served = Served(make_study(tmp_path / "study", trials=2, resume="refuse")).wait_until_ready()
    lost = []

    async def lose(route):
        if len(lost) < 2:
            lost.append((await route.fetch()).status)
            await route.abort()
        else:
            await route.continue_()

    async def work(browser):
        person = Participant(browser, served.url, "unlucky")
        page = await person.open()
        await page.route("**/v1/sessions", lose)
        await page.get_by_role("button", name="I agree and want to take part").click()
        while len(lost) < 2:
            await asyncio.sleep(0.05)
        await page.reload()  # before there was any reply
        await person.begin()
        return await person.trials()

    try:
        assert run(work)
    finally:
        status = served.end()
    assert (status, lost) == (0, [200, 200])


def test_the_live_page_asks_for_its_token_and_deletes_data(served):
    async def work(browser):
        person = Participant(browser, served.url, "to-forget")
        await person.open()
        await person.begin()
        await person.page.locator("#stage[data-trial]").wait_for()
        page = await (await browser.new_context(**{**PHONE, "is_mobile": False})).new_page()
        page.set_default_timeout(WAIT)
        await page.goto(f"{served.url}live")
        await page.get_by_label("The researcher's token").fill("wrong")
        await page.keyboard.press("Enter")
        await playwright.expect(page.locator("#token-problem")).to_contain_text("not right")
        await page.get_by_label("The researcher's token").fill(ADMIN)
        await page.keyboard.press("Enter")
        await page.locator("body[data-ready]").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        found = await serious(page)
        last = page.locator("#people tbody tr").last
        name = await last.locator("th").inner_text()
        await last.get_by_role("button").click()
        await page.get_by_role("button", name="Delete personal data and answers").click()
        await playwright.expect(page.locator("#live")).to_contain_text(f"{name}: 1 personal fields", timeout=WAIT)
        await person.page.reload()
        await person.page.get_by_role("button", name="I agree and want to take part").wait_for()
        return found

    assert run(work) == []


def test_a_long_scale_has_a_slider_that_must_be_moved(tmp_path):
    scale = {"low": 0, "high": 100, "labels": {0: "dark", 100: "light"}}
    folder = make_study(tmp_path / "study", kind="ratings", question="How light?", scale=scale, trials=2)
    served = Served(folder).wait_until_ready()

    async def work(browser):
        person = Participant(browser, served.url, "slides")
        page = await person.open()
        await person.begin()
        await person.settle()
        save, slider = page.get_by_role("button", name="Save"), page.get_by_role("slider")
        assert await save.is_disabled()
        found = await serious(page)
        await slider.focus()
        for _ in range(3):
            await page.keyboard.press("ArrowRight")
        await page.keyboard.press("Enter")
        await page.locator("#stage:not([data-trial=trial-1])").wait_for()
        await person.settle()
        await slider.click()  # the middle is an answer too
        await save.click()
        await page.locator("#code").wait_for()
        return found

    assert run(work) == []
    served.end()
    store = Store(database_url(folder))
    assert [one.answer for one in store.answers()] == [53, 50]
    store.close()
