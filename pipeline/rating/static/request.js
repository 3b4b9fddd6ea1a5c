const PATIENCE_MS = 20000;
const LATER = new Set([408, 425, 429]);

/**
 * Send JSON and say what came of it: {outcome, status, body, text}.
 *
 * outcome is "ok", "later" (no connection, or a server in trouble: try again) or "refused" (trying
 * again would not help). text is a sentence for people.
 */
export async function request(method, path, body, { leaving = false } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      keepalive: leaving,
      signal: leaving ? undefined : AbortSignal.timeout(PATIENCE_MS),
    });
    const found = await response.json().catch(() => null);
    if (response.ok && found) return { outcome: "ok", status: response.status, body: found, text: "" };
    return failed(response.status, found);
  } catch {
    return { outcome: "later", status: 0, body: null, text: "" };
  }
}

function failed(status, body) {
  const outcome = status >= 500 || status < 400 || LATER.has(status) ? "later" : "refused";
  return { outcome, status, body, text: explained(status, body) };
}

function explained(status, body) {
  const said = typeof body?.error === "string" ? ` It says: ${body.error}` : "";
  if (status === 404) return "The server does not know this link or this task.";
  if (status === 413) return "The server says that this answer is too large.";
  if (status === 422) return `The server does not accept this answer.${said}`;
  if (status >= 500 || status < 400) return `The server has a problem (${status}).`;
  return `The server refused (${status}).${said}`;
}

/** Seconds to wait before try number `attempt` (from 1): 1, 2, 4, ... at most 30. */
export function backoff(attempt) {
  return Math.min(30, 2 ** (attempt - 1));
}
