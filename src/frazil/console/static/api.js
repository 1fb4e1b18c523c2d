// Requests to the server that this page came from. The token of the session is kept by this tab alone.

const TOKEN = "frazil.token";

export class ApiError extends Error {
  constructor(status, message, details = null) {
    super(message);
    this.status = status;
    this.details = details; // what else the server says: a hint, the place in a query
    this.title = { 401: "Not signed in", 403: "Not allowed", 404: "Not found", 409: "Conflict", 429: "Too busy" }[status] ?? "Request failed";
  }
}

export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

export async function get(path, { query = {}, signal } = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return answer(await send(url, { signal }));
}

export async function post(path, body, { signal } = {}) {
  const init = { method: "POST", body: JSON.stringify(body), signal };
  return answer(await send(new URL(path, location.origin), init, { "content-type": "application/json" }));
}

async function send(url, init, headers = {}) {
  const token = sessionStorage.getItem(TOKEN);
  if (token && /[^\x21-\x7e]/.test(token)) {
    throw refused(new ApiError(401, "The token has spaces or characters that no token has. Copy it again."));
  }
  if (token) headers = { ...headers, authorization: `Bearer ${token}` };
  try {
    return await fetch(url, { ...init, headers, credentials: "omit", redirect: "error", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is frazil serve still running?");
  }
}

async function answer(response) {
  const text = await response.text();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // not JSON: a proxy in front, say
  }
  if (response.ok && body !== null) return body;
  const error = new ApiError(response.status, body?.error?.message ?? `The server answered ${response.status}`, body?.error);
  throw response.status === 401 ? refused(error) : error;
}

// Shows the form to sign in.
function refused(error) {
  document.dispatchEvent(new CustomEvent("frazil:signin", { detail: error }));
  return error;
}

// The path of a warehouse, or of a table in it.
export function apiPath(warehouse, ...rest) {
  return ["/console/api", warehouse, ...rest].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");
}

export function tablePath(table, part) {
  const path = ["namespaces", table.namespace.join("\x1f"), "tables", table.name];
  return apiPath(table.warehouse, ...path, ...(part ? part.split("/") : []));
}
