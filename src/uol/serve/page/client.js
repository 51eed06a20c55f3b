// Calls of the API: the token, waiting where the service is busy, and errors of one line.

const MOST_TRIES = 30;
let token = "";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Takes the token after # from the address, where `uol serve --open` puts it, and removes it from there. */
export function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    token = found;
    history.replaceState(null, "", location.pathname);
  }
}

export function setToken(text) {
  token = text.trim();
}

export const models = () => ask("/v1/models").then((answer) => answer.json());

export const score = (file, options, signal) =>
  ask("/v1/score", form([file], options), signal).then((answer) => answer.json());

export const compare = (first, second, options) =>
  ask("/v1/compare", form([first, second], options)).then((answer) => answer.json());

export const explain = (file, options) => ask("/v1/explain", form([file], options)).then((answer) => answer.blob());

function form(files, options) {
  const body = new FormData();
  for (const file of files) body.append("images", file, file.name);
  for (const [name, value] of Object.entries(options)) if (value !== undefined) body.append(name, value);
  return body;
}

async function ask(path, body, signal) {
  const request = { method: body ? "POST" : "GET", body, signal, headers: token ? { Authorization: `Bearer ${token}` } : {} };
  for (let tries = 1; ; tries += 1) {
    let answer;
    try {
      answer = await fetch(path, request);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "The service does not answer. Is uol serve still running?");
    }
    if (answer.ok) return answer;
    if (answer.status === 429 && tries < MOST_TRIES) {
      const seconds = Number(answer.headers.get("Retry-After")) || 1;
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds * (0.5 + Math.random())));
      continue;
    }
    throw new Refused(answer.status, await problem(answer));
  }
}

async function problem(answer) {
  try {
    return (await answer.json()).error ?? answer.statusText;
  } catch {
    return `The service answered ${answer.status} ${answer.statusText}`;
  }
}
