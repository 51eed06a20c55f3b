// The participant's way: consent, instructions, trials one at a time, a break, thanks. Every answer is saved before the next trial.

import { element } from "/page/draw.js";
import * as client from "./client.js";
import { preload, ready } from "./pictures.js";
import { descriptions, task } from "./tasks.js";
import { setLanguage, word } from "./words.js";

const find = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.search);
let study = null, shown = 0, keys = {}, practised = false;

// ---------------------------------------------------------------- what this browser remembers

const memory = {
  read(name) {
    try {
      return JSON.parse((name === "done" ? sessionStorage : localStorage).getItem(`uol-study ${study.study} ${name}`));
    } catch {
      return null; // storage is switched off: the study works, but a reload begins again
    }
  },
  write(name, value) {
    try {
      const place = name === "done" ? sessionStorage : localStorage;
      if (value === null) place.removeItem(`uol-study ${study.study} ${name}`);
      else place.setItem(`uol-study ${study.study} ${name}`, JSON.stringify(value));
    } catch { /* as above */ }
  },
};

const personal = () => Object.fromEntries(study.parameters.filter((name) => parameters.get(name)).map((name) => [name, parameters.get(name)]));

function remember(token) {
  client.setToken(token);
  memory.write("token", { token, id: personal()[study.parameters[0]] ?? null });
}

/** The token of this browser, unless the address names another participant. */
function remembered() {
  const found = memory.read("token"), id = personal()[study.parameters[0]] ?? null;
  return found && (id === null || found.id === id) ? found.token : null;
}

// ---------------------------------------------------------------- screens

function screen(name, ...content) {
  keys = {};
  const stage = find("stage");
  stage.className = `stage ${name}`;
  stage.dataset.screen = name;
  stage.replaceChildren(...content);
  const head = stage.querySelector("h1");
  if (head) {
    head.tabIndex = -1;
    head.focus({ preventScroll: true });
  }
  scrollTo(0, 0);
}

const heading = (text) => element("h1", {}, text);
const button = (text, action, main = true) => element("button", { type: "button", class: main ? "main" : "", onclick: action }, text);
const buttons = (...all) => element("div", { class: "buttons" }, ...all);

/** A researcher's text: blank lines part paragraphs, lines that begin with "- " are a list. */
function paragraphs(text) {
  return text.trim().split(/\n\s*\n/).filter(Boolean).map((part) => {
    const lines = part.split("\n").map((line) => line.trim());
    if (lines.every((line) => line.startsWith("- "))) return element("ul", {}, ...lines.map((line) => element("li", {}, line.slice(2))));
    return element("p", {}, part.replace(/\s*\n\s*/g, " "));
  });
}

function message(name, title, text, ...more) {
  showPlace(null);
  screen(name, element("div", { class: "sheet-text" }, heading(title), ...(text ? paragraphs(text) : []), ...more));
}

const REASONS = { refused: "refused", full: "full", closed: "closed", "unknown-token": "elsewhere" };

function failed(error) {
  const name = REASONS[error.reason];
  if (name) return message(name, word(name), word(`${name}Text`));
  return message("problem", word("problem"), error.message, buttons(button(word("reload"), () => location.reload())));
}

function consent() {
  if (study.full) return message("full", word("full"), word("fullText"));
  if (!study.consent) return enter();
  return message("consent", study.title, study.consent, buttons(
    button(word("agree"), enter),
    button(word("disagree"), () => message("declined", word("declined"), word("declinedText"), buttons(button(word("reconsider"), consent, false))), false),
  ));
}

/** The token to enter with, the same until there is a reply: a reply that is lost on the way locks nobody out. */
function entryToken() {
  const id = personal()[study.parameters[0]] ?? null, known = memory.read("entry");
  if (known && known.id === id) return known.token;
  const token = Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  memory.write("entry", { token, id });
  return token;
}

async function enter(event) {
  if (event) event.currentTarget.disabled = true;
  client.setToken("");
  try {
    const { token, state } = await client.ask("/v1/sessions", { agreed: true, language: study.language, personal: personal(), token: entryToken() });
    remember(token);
    memory.write("entry", null);
    find("language").hidden = true;
    await setStudyLanguage(state.language);
    if (state.stage === "finished") thanks(state);
    else instructions(state);
  } catch (error) {
    failed(error);
  }
}

function instructions(state) {
  load(state);
  if (!study.instructions) return go(state);
  return message("instructions", word("instructions"), study.instructions, buttons(button(state.done + state.practice_done ? word("goOn") : word("begin"), () => go(state))));
}

function load(state) {
  preload([...(state.trial?.images ?? []), ...state.ahead]);
}

/** To the next screen: a trial, the end of the practice, a break, or thanks. */
function go(state, answered = false) {
  if (state.stage === "finished") return thanks(state);
  if (state.stage === "closed") return message("closed", word("closed"), word("closedText"));
  load(state);
  if (answered && practised && !state.trial.practice) {
    practised = false;
    return message("practice-over", word("practiceOver"), word("practiceOverText"), buttons(button(word("next"), () => trial(state))));
  }
  if (answered && state.rest) {
    return message("break", word("breakTitle"), word("breakText", state.done, state.total), buttons(button(word("next"), () => trial(state))));
  }
  return trial(state);
}

async function trial(state) {
  const { trial: next } = state, turn = (shown += 1);
  practised = next.practice;
  showPlace(state);
  const waiting = setTimeout(() => screen("loading", element("p", { class: "soft", role: "status" }, word("loading"))), 300);
  const labels = descriptions(next);
  let images;
  try {
    images = await Promise.all(next.images.map((key, at) => ready(key, labels[at])));
  } catch (error) {
    return failed(error);
  } finally {
    clearTimeout(waiting);
  }
  if (turn !== shown) return undefined;
  let visible = Infinity, answered = false;
  const choose = (answer, time) => {
    const moment = time || performance.now();
    if (answered || moment < visible) return; // before the images were visible it is no answer
    answered = true;
    mark(answer);
    save({ trial: next.trial, answer, response_ms: Math.round(moment - visible) });
  };
  const { body, keys: wanted } = task(next, images, study, choose);
  const note = next.practice ? [element("p", { class: "note" }, word("practiceNote"))] : [];
  screen(`trial ${next.kind}`, element("div", { class: "asked" }, heading(next.question), ...note), body);
  requestAnimationFrame(() => requestAnimationFrame(() => {
    visible = performance.now();
    find("stage").dataset.trial = next.trial; // ready for an answer
    keys = Object.fromEntries(Object.entries(wanted).map(([key, answer]) => [key, (time) => choose(answer, time)]));
  }));
  return undefined;
}

function mark(answer) {
  for (const one of find("stage").querySelectorAll(".option, .sliding button")) {
    one.setAttribute("aria-disabled", "true");
    if (one.dataset.answer === String(answer)) one.classList.add("chosen");
  }
}

/** Sends an answer until it is on the disk of the service; a reload sends it again. */
async function save(given) {
  memory.write("pending", { token: client.getToken(), given });
  try {
    const { state } = await client.ask("/v1/answers", given);
    memory.write("pending", null);
    delete find("stage").dataset.trial;
    go(state, true);
  } catch (error) {
    memory.write("pending", null);
    if (error.reason === "other-trial") go(await client.ask("/v1/session"));
    else failed(error);
  }
}

function thanks(state) {
  memory.write("done", { token: client.getToken() }); // a reload shows this page again; a new window begins
  memory.write("token", null);
  const more = [];
  if (state.code) {
    const copy = button(word("copy"), async () => {
      await navigator.clipboard.writeText(state.code);
      copy.textContent = word("copied");
    }, false);
    const parts = [element("strong", { id: "code" }, state.code), ...(navigator.clipboard ? [copy] : [])];
    more.push(element("p", { class: "soft", id: "code-label" }, word("code")), element("div", { class: "code", role: "group", "aria-labelledby": "code-label" }, ...parts));
  }
  if (state.return_address) more.push(buttons(element("a", { class: "button main", href: state.return_address, rel: "noreferrer" }, word("back"))));
  message("thanks", word("finished"), state.thanks, ...more);
}

// ---------------------------------------------------------------- what surrounds the screens

function showPlace(state) {
  const bar = find("bar"), practice = state?.trial?.practice;
  bar.hidden = find("stop").hidden = !state;
  find("place").textContent = "";
  if (!state) return;
  const [n, m] = practice ? [state.practice_done, state.practice_total] : [state.done, state.total];
  const text = word(practice ? "practice" : "progress", n + 1, m);
  find("place").textContent = text;
  find("live").textContent = text;
  const percent = Math.round((100 * n) / Math.max(1, m));
  bar.setAttribute("aria-valuenow", String(percent));
  bar.setAttribute("aria-label", text);
  bar.firstElementChild.style.width = `${percent}%`;
}

addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || find("stop-dialog").open) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.target.closest?.("input, select, a") || (name === " " && event.target.closest?.("button"))) return;
  if (!keys[name]) return;
  event.preventDefault();
  keys[name](event.timeStamp);
});

client.onConnection((lost) => {
  find("connection").hidden = !lost;
  find("connection-text").textContent = lost ? word(memory.read("pending") ? "lost" : "lostLoading") : "";
  if (!lost) find("live").textContent = word("connected");
});
find("try-now").addEventListener("click", client.tryNow);

function stopping() {
  find("stop").addEventListener("click", () => find("stop-dialog").showModal());
  find("stop-no").addEventListener("click", () => find("stop-dialog").close());
  find("stop-yes").addEventListener("click", async () => {
    find("stop-dialog").close();
    shown += 1;
    try {
      await client.ask("/v1/session/withdraw", undefined, "POST");
      memory.write("token", null);
      memory.write("pending", null);
      message("closed", word("closed"), word("closedText"));
    } catch (error) {
      failed(error);
    }
  });
}

async function setStudyLanguage(language) {
  if (language !== study.language) study = await client.ask(`/v1/study?language=${encodeURIComponent(language)}`);
  setLanguage(study.language);
  document.title = study.title;
  find("title").textContent = study.title;
  for (const [id, name] of [["try-now", "tryNow"], ["stop", "stop"], ["stop-title", "stopTitle"], ["stop-text", "stopText"], ["stop-no", "stopNo"], ["stop-yes", "stopYes"], ["language-label", "language"]]) {
    find(id).textContent = word(name);
  }
  const select = find("language");
  select.replaceChildren(...study.languages.map((one) => element("option", { value: one, lang: one, selected: one === study.language }, languageName(one))));
}

function languageName(language) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(language);
  } catch {
    return language;
  }
}

/** Somebody who was here before goes on, begins again or is refused; the service decides. */
async function comeBack(token) {
  client.setToken(token);
  try {
    const { token: mine, state } = await client.ask("/v1/session/return", undefined, "POST");
    if (state.stage === "finished") {
      await setStudyLanguage(state.language);
      return thanks(state);
    }
    remember(mine);
    await setStudyLanguage(state.language);
    const pending = memory.read("pending");
    if (pending && pending.token === mine) return await save(pending.given);
    memory.write("pending", null);
    const resumed = study.resume === "resume" && state.done + state.practice_done > 0;
    if (!resumed) return instructions(state);
    load(state);
    const more = personal()[study.parameters[0]] ? [] : [button(word("someoneElse"), () => {
      memory.write("token", null);
      consent();
    }, false)];
    return message("welcome", word("welcome"), word("welcomeText", state.done, state.total), buttons(button(word("goOn"), () => go(state)), ...more));
  } catch (error) {
    if (error.reason === "unknown-token") {
      memory.write("token", null);
      memory.write("done", null);
      return consent(); // its data was deleted, or it goes on elsewhere: who has an id is recognised by it
    }
    return failed(error);
  }
}

async function begin() {
  const wanted = parameters.get("language") ?? navigator.language ?? "";
  study = await client.ask(`/v1/study?language=${encodeURIComponent(wanted)}`);
  await setStudyLanguage(study.language);
  stopping();
  const select = find("language"), token = memory.read("done")?.token ?? remembered();
  select.hidden = study.languages.length < 2 || token !== null;
  select.addEventListener("change", async () => {
    await setStudyLanguage(select.value);
    consent();
  });
  if (token) await comeBack(token);
  else consent();
}

begin().catch(failed).finally(() => { document.body.dataset.ready = ""; });
