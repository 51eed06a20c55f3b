// The researcher's page: how far the study is, asked again every few seconds.

import { element } from "/page/draw.js";
import { ends, interval, minutes } from "./figures.js";

const EVERY = 5000;
const NAMES = {
  krippendorff_alpha: "Krippendorff's alpha", split_half: "Correlation of two halves of the participants", spearman_brown: "Spearman-Brown, for all participants",
  repeats_answered_the_same: "Repeated trials answered the same", circular_triads: "Circular triads (chance: 0.25)", left_side_chosen: "Image on the left chosen",
};
const RULES = { answers: "Answers", participants: "Participants", interval: "Mean width of the 95 % intervals" };
const STATES = { open: "not finished", finished: "finished", closed: "ended early" };
const find = (id) => document.getElementById(id);
const thumbnails = new Map();
let token = "", timer = 0;

async function ask(path, body) {
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", body: body ? JSON.stringify(body) : undefined,
    headers: { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
  });
  if (answer.status === 401) {
    askForToken(token ? "That token is not right." : "");
    throw new Error("token");
  }
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? `${answer.status}`);
  return answer;
}

async function refresh() {
  clearTimeout(timer);
  try {
    show(await (await ask("/v1/admin/live")).json());
    find("problem").hidden = true;
  } catch (error) {
    if (error.message === "token") return;
    find("problem").textContent = `The study does not answer (${error.message}). Trying again.`;
    find("problem").hidden = false;
  }
  timer = setTimeout(refresh, EVERY);
}

function show(study) {
  find("token-form").hidden = true;
  find("all").hidden = false;
  document.title = `${study.title}: live`;
  find("title").textContent = study.title;
  find("version").textContent = `uol ${study.version}`;
  find("moment").textContent = `as of ${new Date(study.at).toLocaleTimeString()}`;
  showTiles(study);
  showStopping(study);
  showScale(study);
  find("reliability").replaceChildren(...facts(study.reliability));
  const people = [...study.people].sort((one, other) => other.flags.length - one.flags.length); // to look at first
  find("people").tBodies[0].replaceChildren(...people.map(person));
  document.body.dataset.ready = "";
}

function showTiles(study) {
  const tile = (value, label, ...more) => element("li", {}, element("strong", {}, String(value)), element("span", { class: "soft" }, label), ...more);
  const flagged = new Set(study.people.filter((one) => one.flags.length).map((one) => one.participant)).size;
  find("tiles").replaceChildren(
    tile(study.active, "answering now"), tile(study.finished, `finished, of ${study.begun} begun`), tile(study.answers, "answers that count", minutes(study.per_minute)),
    tile(study.width === null ? "–" : study.width.toFixed(2), `mean interval width (${study.unit})`), tile(flagged, "participants flagged"),
  );
}

function showStopping(study) {
  const rules = study.stopping.map((rule) => {
    const share = rule.rule === "interval" ? (rule.now ? rule.target / rule.now : 0) : rule.now / rule.target;
    const now = rule.now === null ? "–" : Number(rule.now.toFixed(2));
    const text = `${RULES[rule.rule]}: ${now} (limit ${rule.target})`;
    return element("div", { class: rule.met ? "rule met" : "rule" }, element("span", {}, text), element("progress", { max: 1, value: Math.min(1, share), "aria-label": text }));
  });
  const said = study.full ? `Nobody else can enter: ${study.full}.` : rules.length ? "The study goes on." : "The settings have no rule: stop when the intervals are narrow enough for your question.";
  find("stopping").replaceChildren(element("p", { class: study.full ? "met" : "soft" }, said), ...rules);
}

function showScale(study) {
  find("note").textContent = study.note ?? "";
  find("note").hidden = !study.note;
  find("scale-note").textContent = study.scale.length ? `${study.scale.length} images, ${study.unit === "logits" ? "Bradley-Terry values in logits" : "mean ratings"}, with 95 % intervals` : "";
  const both = study.scale.length ? ends(study.scale) : null;
  find("scale").replaceChildren(...study.scale.map((row) => element("li", {},
    thumbnail(row.key), element("span", { class: "name" }, row.image), interval(row, both),
    element("span", { class: "numbers" }, `${row.value.toFixed(2)} (${row.low.toFixed(2)} to ${row.high.toFixed(2)})`), element("span", { class: "soft judged" }, `${row.answers} judged`))));
}

function facts(all) {
  if (!all.length) return [element("dd", { class: "soft" }, "Not enough answers yet.")];
  return all.flatMap(({ name, value }) => [element("dt", {}, NAMES[name] ?? name.replaceAll("_", " ")), element("dd", {}, Number.isInteger(value) && Math.abs(value) > 1 ? String(value) : value.toFixed(2))]);
}

function person(one) {
  const state = one.active ? "answering" : STATES[one.state] ?? one.state;
  return element("tr", { class: one.flags.length ? "flagged" : "" }, element("th", { scope: "row" }, one.participant), element("td", {}, state),
    element("td", {}, `${one.done} of ${one.total}`), element("td", {}, one.language), element("td", { class: "why" }, one.flags.join("; ") || "–"),
    element("td", {}, element("button", { type: "button", class: "link", "aria-label": `Delete data of ${one.participant}`, onclick: () => forget(one.participant) }, "Delete…")));
}

/** A small picture, asked for with the token when it is first seen. */
function thumbnail(key) {
  if (!thumbnails.has(key)) {
    const image = element("img", { alt: "", width: 44, height: 44 });
    thumbnails.set(key, image);
    new IntersectionObserver(async ([entry], observer) => {
      if (!entry.isIntersecting) return;
      observer.disconnect();
      image.src = URL.createObjectURL(await (await ask(`/v1/admin/images/${key}`)).blob());
    }).observe(image);
  }
  return thumbnails.get(key);
}

function forget(participant) {
  const dialog = find("forget");
  find("forget-title").textContent = `Delete data of ${participant}?`;
  const act = (answers) => async () => {
    dialog.close();
    const done = await (await ask("/v1/admin/forget", { participant, answers })).json();
    find("live").textContent = `${participant}: ${done.personal} personal fields and ${done.answers} answers deleted`;
    refresh();
  };
  find("forget-personal").onclick = act(false);
  find("forget-all").onclick = act(true);
  dialog.showModal();
}
find("forget-no").addEventListener("click", () => find("forget").close());

find("csv").addEventListener("click", async () => {
  const link = element("a", { href: URL.createObjectURL(await (await ask("/v1/admin/answers.csv")).blob()), download: "answers.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
});

function askForToken(text) {
  find("token-form").hidden = false;
  find("all").hidden = true;
  find("token-problem").textContent = text;
  find("token").focus();
}
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("token").value.trim();
  refresh();
});

// The part of an address after # stays in the browser.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  token = given;
  history.replaceState(null, "", location.pathname);
}
refresh();
