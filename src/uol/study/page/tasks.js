// The tasks: ratings, pairs and best of four. Each is drawn as buttons, with keys, and answers once.

import { element } from "/page/draw.js";
import { word } from "./words.js";

const MOST_BUTTONS = 11;
const STACKED = matchMedia("(max-width: 40rem) and (orientation: portrait)"); // as study.css arranges a pair

const sideNames = () => (STACKED.matches ? [word("top"), word("bottom")] : [word("left"), word("right")]);

/** What a trial looks like: {body, keys, start}; `choose(answer, time)` is called with the first answer. */
export function task(trial, images, study, choose) {
  if (trial.kind === "ratings") return study.scale.high - study.scale.low < MOST_BUTTONS ? rating(images[0], study, choose) : slider(images[0], study, choose);
  return trial.kind === "pairs" ? pair(trial, images, study, choose) : best(trial, images, choose);
}

/** Descriptions of a trial's images for people who do not see them. */
export function descriptions(trial) {
  if (trial.kind === "pairs") return sideNames();
  return trial.images.map((_, at) => word("image", at + 1));
}

function option(answer, label, choose, ...content) {
  return element("button", {
    type: "button", class: "option", "data-answer": String(answer), "aria-label": label,
    onclick: (event) => choose(answer, event.timeStamp),
  }, ...content);
}

const key = (text) => element("kbd", { "aria-hidden": "true" }, text);

function pair(trial, images, study, choose) {
  const places = sideNames(), names = [study.first ?? places[0], study.second ?? places[1]], signs = ["←", "→"];
  const sides = images.map((image, at) =>
    option(trial.images[at], names[at], choose, image, element("span", { class: "under" }, key(signs[at]), names[at])));
  const body = element("div", { class: "pair-task" }, ...sides);
  const keys = { ArrowLeft: trial.images[0], ArrowRight: trial.images[1], f: trial.images[0], j: trial.images[1] };
  if (study.similar) {
    const same = option("similar", study.similar, choose, key("↓"), study.similar);
    same.classList.add("same");
    body.append(same);
    keys.ArrowDown = "similar";
    keys[" "] = "similar";
  }
  return { body, keys };
}

function best(trial, images, choose) {
  const keys = {};
  const all = images.map((image, at) => {
    keys[String(at + 1)] = trial.images[at];
    return option(trial.images[at], word("image", at + 1), choose, image, element("span", { class: "under" }, key(String(at + 1)), word("image", at + 1)));
  });
  return { body: element("div", { class: "best-task" }, ...all), keys };
}

function rating(image, study, choose) {
  const { low, high, labels } = study.scale, keys = {}, levels = [];
  for (let level = low; level <= high; level += 1) {
    const label = labels[level];
    if (level >= 0 && level <= 9) keys[String(level)] = level;
    if (level === 10 && low > 0) keys["0"] = level;
    levels.push(option(level, label ? `${level}, ${label}` : String(level), choose, element("span", { class: "level" }, String(level)), ...(label ? [element("span", { class: "under" }, label)] : [])));
  }
  const row = element("div", { class: "levels", role: "group", "aria-label": word("rating"), "data-count": levels.length }, ...levels);
  return { body: element("div", { class: "rating-task" }, element("div", { class: "shown" }, image), row), keys };
}

/** Scales with many levels: a slider that has no place until it is moved. */
function slider(image, study, choose) {
  const { low, high, labels } = study.scale;
  const output = element("output", { class: "soft" }, word("slide"));
  const save = element("button", { type: "button", class: "main", disabled: true, onclick: (event) => choose(Number(range.value), event.timeStamp) }, word("save"));
  const range = element("input", { type: "range", min: low, max: high, step: 1, value: Math.round((low + high) / 2), class: "unset", "aria-label": word("rating") });
  const place = () => {
    range.classList.remove("unset");
    output.className = "level";
    output.textContent = labels[range.value] ? `${range.value}, ${labels[range.value]}` : range.value;
    save.disabled = false;
  };
  range.addEventListener("input", place);
  range.addEventListener("pointerup", place); // the middle is an answer too
  range.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !save.disabled) choose(Number(range.value), event.timeStamp);
  });
  const ends = element("div", { class: "ends" }, element("span", {}, labels[low] ?? String(low)), element("span", {}, labels[high] ?? String(high)));
  const box = element("div", { class: "sliding" }, range, ends, output, save);
  return { body: element("div", { class: "rating-task" }, element("div", { class: "shown" }, image), box), keys: {} };
}
