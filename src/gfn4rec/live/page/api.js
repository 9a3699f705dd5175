// Calls of the service. Addresses are relative, so that the page also works below a prefix.

const PATIENCE = 10_000; // milliseconds

/** A call that failed; its message is a sentence for the operator. */
export class Problem extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status; // of HTTP; null if there was no answer
  }
}

/** Return the sentence of an RFC 9457 problem, or one about the status if there is none. */
function sentence(answer, status) {
  const texts = [answer?.detail, answer?.title].filter((text) => typeof text === "string" && text !== "");
  return texts[0] ?? `The service answered with status ${status}.`;
}

async function send(method, path, body, patience) {
  const options = { method, cache: "no-store", signal: AbortSignal.timeout(patience) };
  if (method !== "GET") {
    // Not a type that pages of other origins may send without asking, even if there is no body.
    options.headers = { "Content-Type": "application/json" };
    options.body = body === undefined ? undefined : JSON.stringify(body);
  }
  try {
    return await fetch(path, options);
  } catch {
    throw new Problem("The service does not answer.");
  }
}

/** Call the service and return the JSON of its answer; a failure is a Problem. */
export async function call(method, path, body, patience = PATIENCE) {
  const response = await send(method, path, body, patience);
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    if (response.ok) {
      throw new Problem("The answer of the service is incomplete or no JSON.", response.status);
    }
  }
  if (!response.ok) {
    throw new Problem(sentence(answer, response.status), response.status);
  }
  return answer;
}

/** Return a new request id. `randomUUID` needs a secure context, which loopback is and a plain address is not. */
export function requestId() {
  if (crypto.randomUUID) {
    return `page-${crypto.randomUUID()}`;
  }
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
