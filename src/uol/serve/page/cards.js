// One card for each photograph: its picture with the faces framed, and its scores.

import { element, frames, number, place, scale } from "./draw.js";

/** A card for an entry {id, file, url, rows, error, ranks, chosen}; `act` handles its buttons. */
export function card(entry, panel, act) {
  const made = element("li", { class: "card", id: `card-${entry.id}`, "data-state": state(entry) });
  made.append(photo(entry), element("h3", { class: "name" }, entry.file.name));
  if (entry.error) made.append(element("p", { class: "error" }, entry.error));
  else if (!entry.rows) made.append(element("p", { class: "soft waiting" }, "waiting for its score"));
  else for (const [at, row] of entry.rows.entries()) made.append(rowOf(entry, row, at, panel, act));
  made.append(actions(entry, act));
  return made;
}

function state(entry) {
  if (entry.error) return "failed";
  return entry.rows ? "scored" : "waiting";
}

/** The picture, made once: a card that is made again keeps it, and it does not flicker. */
function photo(entry) {
  if (!entry.photo) {
    const image = element("img", { src: entry.url, alt: "" });
    entry.photo = element("div", { class: "photo" }, image);
    image.addEventListener("load", () => outline(entry));
    image.addEventListener("error", () => image.replaceWith(element("span", { class: "soft" }, "no preview in this browser")));
  }
  outline(entry);
  return element("div", { class: "frame" }, entry.photo);
}

function outline({ photo: holder, rows }) {
  const image = holder.querySelector("img");
  holder.querySelector(".frames")?.remove();
  if (rows && image?.naturalWidth) holder.append(frames(rows, image.naturalWidth, image.naturalHeight));
}

function rowOf(entry, row, at, panel, act) {
  const several = entry.rows.length > 1, rank = entry.ranks?.[at];
  const title = several ? `Face ${at + 1} of ${entry.file.name}` : entry.file.name;
  const top = element("div", { class: "top" });
  if (several) top.append(element("span", { class: "which" }, `face ${at + 1}`));
  if (rank) {
    const text = `${rank.tied ? "=" : ""}${rank.rank}`;
    top.append(element("span", { class: "rank" }, element("span", { class: "unseen" }, rank.tied ? "shared rank " : "rank "), text));
  }
  top.append(
    element("span", { class: "value" }, number(row.value, panel)),
    element("span", { class: "range" }, `${number(row.low, panel)} to ${number(row.high, panel)}`),
  );
  const { below, total } = place(row.value, panel.references);
  const numbers = element("div", { class: "numbers" });
  if (row.dispersion !== null) numbers.append(element("span", {}, `raters ± ${number(row.dispersion, panel)}`));
  numbers.append(element("span", {}, `above ${below} of ${total} references`));
  const made = element("div", { class: "row", role: "group", "aria-label": title }, top, scale(row, panel), numbers);
  const problems = row.face?.problems ?? [];
  if (problems.length) made.append(element("p", { class: "doubt" }, `Doubtful: ${problems.join(", ")}`));
  if (act.explains) {
    const label = `Why this score? ${title}`;
    made.append(element("button", { type: "button", class: "link", "aria-label": label, onclick: () => act.explain(entry, row) }, "Why this score?"));
  }
  return made;
}

function actions(entry, act) {
  const { name } = entry.file;
  const made = element("div", { class: "actions" });
  if (entry.rows && !entry.error) {
    made.append(element("button", {
      type: "button", class: "choose", "aria-pressed": String(Boolean(entry.chosen)), "aria-label": `Compare ${name}`, onclick: () => act.choose(entry),
    }, entry.chosen ? "Chosen" : "Compare"));
  }
  made.append(element("button", { type: "button", class: "remove", "aria-label": `Remove ${name}`, onclick: () => act.remove(entry) }, "Remove"));
  return made;
}
