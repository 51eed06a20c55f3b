// The table that `uol score --csv` and `uol rank --csv` print, from the same rows.

const COLUMNS = [
  "image", "face", "face_left", "face_top", "face_width", "face_height", "problems", "value", "low", "high", "dispersion",
  "error",
];
const BOX = ["face_left", "face_top", "face_width", "face_height"];
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/; // a spreadsheet would compute it
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/;

export function csvText(rows, ranked) {
  const columns = ranked ? ["rank", "tied", ...COLUMNS] : COLUMNS;
  return [columns, ...rows.map((row) => columns.map((name) => cell(row, name)))].map((cells) => `${cells.map(quoted).join(",")}\n`).join("");
}

function cell(row, name) {
  const { face } = row;
  if (name === "face") return face ? face.box.map(short).join(" ") : "";
  if (BOX.includes(name)) return face ? short(face.box[BOX.indexOf(name)]) : "";
  if (name === "problems") return face ? guarded(face.problems.join("; ")) : "";
  if (name === "tied") return row.tied ? "True" : "False";
  const value = row[name];
  if (value === null || value === undefined) return "";
  return typeof value === "number" ? short(value) : guarded(value);
}

/** Six significant digits, as the command line prints them. */
function short(value) {
  return String(Number(value.toPrecision(6)));
}

function guarded(text) {
  return FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
}

function quoted(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : String(text);
}
