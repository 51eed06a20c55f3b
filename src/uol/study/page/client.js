// Calls of the service: the participant's token, and trying again until the connection is back.

const WAITS = [400, 800, 1500, 3000, 6000, 10000]; // milliseconds; the last one is repeated
let token = "", wake = null, onState = () => {};

export class Refused extends Error {
  constructor(status, text, reason) {
    super(text);
    this.status = status;
    this.reason = reason;
  }
}

export function setToken(text) {
  token = text;
}

export const getToken = () => token;

/** `listener` hears true when the connection is lost, and false when it is back. */
export function onConnection(listener) {
  onState = listener;
}

/** Ends the wait for the next try. */
export function tryNow() {
  if (wake) wake();
}
addEventListener("online", tryNow);

/** JSON from the service, tried until it answers. What is sent twice counts once. */
export async function ask(path, body, method = body === undefined ? "GET" : "POST") {
  const answer = await persist(path, {
    method, body: body === undefined ? undefined : JSON.stringify(body),
    headers: { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
  });
  return answer.json();
}

export async function picture(path) {
  const answer = await persist(path, { headers: { Authorization: `Bearer ${token}` } });
  return answer.blob();
}

async function persist(path, request) {
  for (let tries = 0; ; tries += 1) {
    let answer = null;
    try {
      answer = await fetch(path, { ...request, signal: AbortSignal.timeout(20000) });
    } catch { /* no connection, or no answer in time: the next try may have one */ }
    if (answer && ![408, 429].includes(answer.status) && answer.status < 500) {
      if (tries) onState(false);
      if (answer.ok) return answer;
      throw await refusal(answer);
    }
    if (tries === 1) onState(true);
    await pause(WAITS[Math.min(tries, WAITS.length - 1)] * (0.75 + Math.random() / 2));
  }
}

function pause(milliseconds) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

async function refusal(answer) {
  try {
    const { error, reason } = await answer.json();
    return new Refused(answer.status, error, reason);
  } catch {
    return new Refused(answer.status, `${answer.status} ${answer.statusText}`, null);
  }
}
