// The page: photographs come in, each is scored by a request, and its card shows what came back.

import * as client from "./client.js";
import { hasCamera, openCamera } from "./camera.js";
import { card } from "./cards.js";
import { csvText } from "./csv.js";
import { element, outcomeBar, percent } from "./draw.js";

const AT_ONCE = 4; // requests at the same time; the service scores them in common batches
const SAMPLES = ["face-1", "face-2", "face-3", "face-4", "face-5", "face-6", "face-7", "face-8", "together"];
const find = (id) => document.getElementById(id);

let entries = [], model = null, limits = {}, ranked = false, nextId = 1, running = 0;
let round = new AbortController(); // ended when the panel or the faces change: all is scored again

const panel = () => model.panels.find(({ name }) => name === find("panel").value);
const options = () => ({ panel: panel().name, all_faces: String(find("all-faces").checked) });
const act = { explains: false, explain: showExplanation, choose, remove };

// ---------------------------------------------------------------- photographs come in

function add(files) {
  if (!model) return;
  for (const file of files) {
    const entry = { id: nextId, file, url: URL.createObjectURL(file) };
    nextId += 1;
    if (file.size > limits.image_bytes) entry.error = `more than the ${limits.image_bytes / 1e6} MB that an image may have`;
    entries.push(entry);
  }
  find("results").hidden = entries.length === 0;
  show();
  for (let free = running; free < AT_ONCE; free += 1) work();
}

async function work() {
  const mine = round, entry = entries.find((one) => !one.rows && !one.error && !one.busy);
  if (!entry) return;
  entry.busy = true;
  running += 1;
  try {
    const rows = await client.score(entry.file, options(), mine.signal);
    if (mine === round) {
      if (rows[0].error) entry.error = rows[0].error;
      else entry.rows = rows;
    }
  } catch (error) {
    if (mine === round && error.status === 401) askForToken("That token is not right.");
    else if (mine === round) entry.error = error.message;
  } finally {
    running -= 1;
    if (mine === round) {
      entry.busy = false;
      if (ranked) show();
      else refresh(entry);
    }
    work();
  }
}

function scoreAgain() {
  round.abort();
  round = new AbortController();
  entries = entries.map(({ id, file, url, photo, chosen }) => ({ id, file, url, photo, chosen }));
  describePanel();
  show();
  compareChosen();
  for (let free = 0; free < AT_ONCE; free += 1) work();
}

// ---------------------------------------------------------------- what the page shows

/** Competition ranks, shared while an interval overlaps that of the rank's best, as `uol rank` gives them. */
function rankAll() {
  const all = entries.flatMap((entry) => (entry.rows ?? []).map((row, at) => ({ entry, at, row })));
  all.sort((one, other) => other.row.value - one.row.value);
  let leader = 0;
  all.forEach((one, position) => {
    if (one.row.high < all[leader].row.low) leader = position;
    one.rank = leader + 1;
  });
  for (const one of all) one.tied = all.filter(({ rank }) => rank === one.rank).length > 1;
  for (const entry of entries) entry.ranks = [];
  for (const { entry, at, rank, tied } of all) entry.ranks[at] = { rank, tied };
  return all;
}

function inOrder() {
  if (!ranked) {
    for (const entry of entries) entry.ranks = undefined;
    return entries;
  }
  rankAll();
  const best = (entry) => Math.max(...(entry.rows ?? []).map((row) => row.value), -Infinity);
  return [...entries].sort((one, other) => best(other) - best(one));
}

function show() {
  find("cards").replaceChildren(...inOrder().map((entry) => card(entry, panel(), act)));
  showProgress();
}

/** Replaces the card of one entry and keeps the keyboard where it was. */
function refresh(entry) {
  const old = find(`card-${entry.id}`);
  if (!old) return;
  const label = old.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  const made = card(entry, panel(), act);
  old.replaceWith(made);
  if (label) [...made.querySelectorAll("button")].find((button) => button.getAttribute("aria-label") === label)?.focus();
  showProgress();
}

function showProgress() {
  const done = entries.filter((entry) => entry.rows || entry.error).length, failed = entries.filter((entry) => entry.error).length;
  const bar = find("progress"), finished = done === entries.length;
  bar.max = Math.max(1, entries.length);
  bar.value = done;
  bar.hidden = finished;
  const text = `${done} of ${entries.length} done${failed ? `, ${failed} without a score` : ""}`;
  find("progress-text").textContent = text;
  find("results").hidden = entries.length === 0;
  if (finished && entries.length) say(text);
}

function say(text) {
  find("live").textContent = text;
}

function describePanel() {
  const { name, raters, low, high, level } = panel();
  find("raters").textContent = `${raters[0].toUpperCase()}${raters.slice(1)}. Their scale is ${low} to ${high}.`;
  for (const place of document.querySelectorAll(".panel-name")) place.textContent = `the panel ${name}`;
  for (const place of document.querySelectorAll(".panel-scale")) place.textContent = `${low} to ${high}`;
  for (const place of document.querySelectorAll(".panel-level")) place.textContent = percent(level);
}

function describeModel({ version }) {
  find("version").textContent = `uol ${version}, model ${model.name}`;
  find("panel").replaceChildren(...model.panels.map(({ name, low, high }) => element("option", { value: name }, `${name} (${low} to ${high})`)));
  find("faces-setting").hidden = model.framing !== "face";
  act.explains = model.explains;
  const parts = model.limits.map((text) => element("li", {}, text));
  const tables = model.weak.map(({ heading, groups }) => element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": heading }, table(heading, groups)));
  const none = element("p", {}, "No figures by group come with this model: nobody has measured for whom it is worse.");
  find("weak-body").replaceChildren(
    element("ul", {}, ...parts),
    ...(tables.length ? [element("p", {}, "The groups on which it agrees least with the raters:"), element("div", { class: "tables" }, ...tables)] : [none]),
  );
}

function table(heading, groups) {
  const rows = groups.map(({ group, images, pc, bias }) =>
    element("tr", {}, element("th", { scope: "row" }, group), ...[images, pc.toFixed(2), signed(bias)].map((text) => element("td", {}, String(text)))));
  const heads = ["group", "images", "correlation", "bias"].map((text) => element("th", { scope: "col" }, text));
  return element("table", {}, element("caption", {}, heading), element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
}

// ---------------------------------------------------------------- what people do with cards

/** With its sign, unless it is zero as printed. */
function signed(value) {
  const size = Math.abs(value).toFixed(2);
  return Number(size) === 0 ? size : `${value > 0 ? "+" : "−"}${size}`;
}

function remove(entry) {
  const order = inOrder(), next = order[order.indexOf(entry) + 1] ?? order[order.indexOf(entry) - 1];
  entries = entries.filter((one) => one !== entry);
  URL.revokeObjectURL(entry.url);
  show();
  compareChosen();
  say(`${entry.file.name} removed`);
  (next ? find(`card-${next.id}`)?.querySelector(".remove") : find("files"))?.focus();
}

function choose(entry) {
  entry.chosen = !entry.chosen;
  const chosen = entries.filter((one) => one.chosen);
  if (chosen.length > 2) {
    const dropped = chosen.find((one) => one !== entry);
    dropped.chosen = false;
    refresh(dropped);
  }
  refresh(entry);
  compareChosen();
}

async function compareChosen() {
  const chosen = entries.filter((one) => one.chosen), box = find("comparison"), body = find("comparison-body");
  box.hidden = chosen.length === 0;
  if (chosen.length === 1) body.replaceChildren(element("p", { class: "soft" }, `${chosen[0].file.name} is chosen. Choose another photograph to compare it with.`));
  if (chosen.length !== 2) return;
  const [first, second] = chosen;
  body.replaceChildren(element("p", { class: "soft" }, "comparing"));
  try {
    const outcomes = await client.compare(first.file, second.file, { panel: panel().name });
    if (!first.chosen || !second.chosen) return;
    const pictures = chosen.map((entry) => element("figure", {}, element("img", { src: entry.url, alt: "" }), element("figcaption", {}, entry.file.name)));
    const [bar, key] = outcomeBar(outcomes, first.file.name, second.file.name);
    const note = element("p", { class: "soft" }, "What the panel would say of the main faces. These probabilities are too sure for photographs that differ from those of the data set.");
    body.replaceChildren(element("div", { class: "pair" }, pictures[0], element("div", { class: "pair-bar" }, bar, key), pictures[1]), note);
    say(bar.getAttribute("aria-label"));
  } catch (error) {
    body.replaceChildren(element("p", { class: "error" }, error.message));
  }
}

async function showExplanation(entry, row) {
  const dialog = find("explanation"), body = find("explanation-body");
  find("explanation-title").textContent = `How the score of ${entry.file.name} came about`;
  body.replaceChildren(element("p", { class: "soft" }, "drawing"));
  dialog.showModal();
  try {
    const picture = await client.explain(entry.file, { panel: panel().name, box: row.face ? row.face.box.join(" ") : undefined });
    const url = URL.createObjectURL(picture);
    const alt = "The face that the network saw, the likelihood of the score along the scale, and the references that it was judged above, similar to and below.";
    body.replaceChildren(element("img", { src: url, alt }));
    dialog.addEventListener("close", () => URL.revokeObjectURL(url), { once: true });
  } catch (error) {
    body.replaceChildren(element("p", { class: "error" }, error.message));
  }
}

function download() {
  const failed = entries.filter((entry) => entry.error).map((entry) => ({ image: entry.file.name, error: entry.error, rank: null, tied: false }));
  const scored = ranked ? rankAll().map(({ row, rank, tied }) => ({ ...row, rank, tied })) : entries.flatMap((entry) => entry.rows ?? []);
  const url = URL.createObjectURL(new Blob([csvText([...scored, ...failed], ranked)], { type: "text/csv" }));
  element("a", { href: url, download: ranked ? "ranking.csv" : "scores.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

async function addSamples() {
  find("samples").disabled = true;
  try {
    const files = await Promise.all(SAMPLES.map(async (name) => {
      const blob = await (await fetch(`/samples/${name}.png`)).blob();
      return new File([blob], `drawn ${name}.png`, { type: "image/png" });
    }));
    add(files);
  } finally {
    find("samples").disabled = false;
  }
}

// ---------------------------------------------------------------- beginning

function listen() {
  const drop = find("drop");
  find("files").addEventListener("change", (event) => {
    add(event.target.files);
    event.target.value = "";
  });
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  for (const kind of ["dragleave", "drop"]) document.addEventListener(kind, () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    add(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) add(event.clipboardData.files);
  });
  find("samples").addEventListener("click", addSamples);
  find("camera").hidden = !hasCamera();
  find("camera").addEventListener("click", () => openCamera(find("camera-dialog"), (file) => add([file])));
  find("panel").addEventListener("change", scoreAgain);
  find("all-faces").addEventListener("change", scoreAgain);
  find("csv").addEventListener("click", download);
  find("rank").addEventListener("click", () => {
    ranked = !ranked;
    find("rank").setAttribute("aria-pressed", String(ranked));
    find("rank-note").hidden = !ranked;
    show();
    say(ranked ? "ranked from best to worst" : "in the order in which they were added");
  });
  find("clear").addEventListener("click", () => {
    round.abort();
    round = new AbortController();
    for (const entry of entries) URL.revokeObjectURL(entry.url);
    entries = [];
    show();
    compareChosen();
    say("all photographs removed");
    find("files").focus();
  });
  find("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    client.setToken(find("token").value);
    begin();
  });
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
}

function askForToken(text) {
  find("token-form").hidden = false;
  find("token-problem").textContent = text;
  find("token").focus();
}

async function begin() {
  try {
    const facts = await client.models();
    [model] = facts.models;
    limits = facts.limits;
    find("token-form").hidden = true;
    describeModel(facts);
    describePanel();
    document.body.dataset.ready = "true";
  } catch (error) {
    if (error.status === 401) askForToken(find("token").value ? "That token is not right." : "");
    else find("weak-body").replaceChildren(element("p", { class: "error" }, error.message));
  }
}

client.takeToken();
listen();
begin();
