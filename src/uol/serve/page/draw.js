// Pictures made of SVG: the scale with a score on it, frames around faces, three probabilities as one bar.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 320, TOP = 8, FOOT = 62, AXIS = 70, PAD = 12;

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function number(value, panel) {
  return value.toFixed(Math.max(2 - Math.floor(Math.log10((panel.high - panel.low) / 4)), 0)); // as the reports do
}

export const percent = (share) => `${Math.round(100 * share)} %`;

/** How many references have a lower score; within a bin, in proportion. */
export function place(value, { edges, counts }) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let below = 0;
  counts.forEach((count, bin) => {
    const share = (value - edges[bin]) / (edges[bin + 1] - edges[bin]);
    below += count * Math.min(1, Math.max(0, share));
  });
  return { below: Math.round(below), total };
}

/** The panel's scale: references as bars, single ratings as a hill, the interval as a band, the score as a dot. */
export function scale(row, panel) {
  const { low, high } = panel;
  const x = (value) => PAD + ((Math.min(high, Math.max(low, value)) - low) / (high - low)) * (WIDTH - 2 * PAD);
  const picture = shape("svg", { viewBox: `0 0 ${WIDTH} 92`, class: "scale", role: "img", "aria-label": words(row, panel) });
  const { edges, counts } = panel.references;
  const most = Math.max(...counts, 1);
  counts.forEach((count, bin) => {
    const left = x(edges[bin]), right = x(edges[bin + 1]), height = (0.45 * (FOOT - TOP) * count) / most;
    picture.append(shape("rect", { class: "s-reference", x: left + 0.5, y: FOOT - height, width: Math.max(0, right - left - 1), height }));
  });
  if (row.dispersion > 0) {
    const points = [];
    for (let step = 0; step <= 60; step += 1) {
      const value = low + ((high - low) * step) / 60;
      points.push(`${x(value)},${FOOT - (FOOT - TOP) * Math.exp(-0.5 * ((value - row.value) / row.dispersion) ** 2)}`);
    }
    picture.append(shape("polygon", { class: "s-spread", points: `${x(low)},${FOOT} ${points.join(" ")} ${x(high)},${FOOT}` }));
  }
  picture.append(shape("line", { class: "s-axis", x1: x(low), x2: x(high), y1: AXIS, y2: AXIS }));
  const left = x(row.low), right = x(row.high);
  picture.append(shape("rect", { class: "s-interval", x: left, y: AXIS - 4, width: Math.max(2, right - left), height: 8, rx: 4 }));
  picture.append(shape("circle", { class: "s-score", cx: x(row.value), cy: AXIS, r: 6 }));
  for (const tick of ticks(low, high)) {
    picture.append(shape("text", { class: "s-tick", x: x(tick), y: 90, "text-anchor": "middle" }, String(tick)));
  }
  return picture;
}

function ticks(low, high) {
  const width = high - low, steps = Number.isInteger(width) && width >= 2 && width <= 10 ? width : 4;
  return Array.from({ length: steps + 1 }, (_, step) => Number((low + (width * step) / steps).toPrecision(4)));
}

function words(row, panel) {
  const { below, total } = place(row.value, panel.references);
  const spread = row.dispersion === null ? "" : ` Raters would differ by ± ${number(row.dispersion, panel)}.`;
  return `Score ${number(row.value, panel)} on a scale of ${panel.low} to ${panel.high}, ${percent(panel.level)} interval ` +
    `${number(row.low, panel)} to ${number(row.high, panel)}.${spread} Above ${below} of ${total} references.`;
}

/** Frames around the faces of a photograph, numbered if there are several. */
export function frames(rows, width, height) {
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "frames", "aria-hidden": "true" });
  const unit = Math.max(width, height) / 100;
  rows.forEach((row, at) => {
    if (!row.face) return;
    const [x, y, w, h] = row.face.box;
    const doubtful = row.face.problems.length > 0 ? { class: "f-face doubtful", "stroke-dasharray": `${4 * unit} ${2 * unit}` } : { class: "f-face" };
    picture.append(shape("rect", { ...doubtful, x, y, width: w, height: h, rx: 1.5 * unit, "stroke-width": 0.9 * unit }));
    if (rows.length > 1) {
      picture.append(shape("circle", { class: "f-badge", cx: x + 3.6 * unit, cy: y + 3.6 * unit, r: 3.2 * unit }));
      picture.append(shape("text", { class: "f-number", x: x + 3.6 * unit, y: y + 5.1 * unit, "font-size": 4.4 * unit, "text-anchor": "middle" }, String(at + 1)));
    }
  });
  return picture;
}

/** Three probabilities as one bar, said from the first photograph's side. */
export function outcomeBar({ less, similar, greater }, first, second) {
  const parts = [
    ["greater", greater, `${first} is rated higher`],
    ["similar", similar, "they are rated alike"],
    ["less", less, `${second} is rated higher`],
  ];
  const label = parts.map(([, share, text]) => `${text}: ${percent(share)}`).join("; ");
  const bar = element("div", { class: "outcomes", role: "img", "aria-label": label });
  for (const [kind, share] of parts) {
    const part = element("div", { class: `outcome ${kind}` }, share >= 0.08 ? percent(share) : "");
    part.style.flexGrow = String(share);
    bar.append(part);
  }
  const key = element("div", { class: "outcome-key", "aria-hidden": "true" });
  for (const [kind, share, text] of parts) key.append(element("span", {}, element("i", { class: kind }), `${text} ${percent(share)}`));
  return [bar, key];
}
