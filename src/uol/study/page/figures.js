// Pictures of the researcher's page: a row of the scale with its interval, and answers per minute.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600, PAD = 10;

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The ends that all rows share, so that they can be compared by eye. */
export function ends(rows) {
  const low = Math.min(...rows.map((row) => row.low)), high = Math.max(...rows.map((row) => row.high));
  return low < high ? [low, high] : [low - 1, high + 1];
}

/** A value as a dot and its interval as a band. */
export function interval(row, [low, high]) {
  const x = (value) => PAD + ((value - low) / (high - low)) * (WIDTH - 2 * PAD);
  const label = `${row.value.toFixed(2)}, 95 % interval ${row.low.toFixed(2)} to ${row.high.toFixed(2)}`;
  const picture = shape("svg", { viewBox: `0 0 ${WIDTH} 20`, class: "interval", role: "img", "aria-label": label });
  if (low < 0 && high > 0) picture.append(shape("line", { class: "i-zero", x1: x(0), x2: x(0), y1: 0, y2: 20 }));
  picture.append(
    shape("rect", { class: "s-interval", x: x(row.low), y: 6, width: Math.max(2, x(row.high) - x(row.low)), height: 8, rx: 4 }),
    shape("circle", { class: "s-score", cx: x(row.value), cy: 10, r: 6 }),
  );
  return picture;
}

/** Answers in each of the last minutes. */
export function minutes(counts) {
  const most = Math.max(...counts, 1), step = 120 / counts.length;
  const picture = shape("svg", { viewBox: "0 0 120 28", class: "minutes", role: "img", "aria-label": `Answers per minute in the last hour, at most ${most}` });
  counts.forEach((count, at) => {
    const height = Math.max(count ? 1.5 : 0.5, (26 * count) / most);
    picture.append(shape("rect", { class: count ? "m-some" : "m-none", x: at * step + 0.2, y: 28 - height, width: step - 0.4, height }));
  });
  return picture;
}
