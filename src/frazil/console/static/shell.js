// What surrounds every page: the navigation, dialogs, the palette of commands, keys that work everywhere.

import { get, hasToken, setToken } from "./api.js";
import { h, icon } from "./dom.js";

export const state = { session: null, warehouse: null, tables: new Map() };

const KEYS = [
  ["/", "Search this page"],
  ["Ctrl K", "Go to a table or page"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["Esc", "Clear the search, then go back"],
  ["[  ]", "Previous and next tab"],
  ["r", "Load again"],
  ["t", "Light or dark"],
  ["?", "These keys"],
];

let main, nav;

export function mount() {
  main = h("main", { id: "main", tabindex: -1 });
  nav = h("nav", { class: "side", "aria-label": "Console" });
  document.body.replaceChildren(h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the content"), nav, main);
  document.addEventListener("keydown", onKey);
}

export function show(title, ...content) {
  document.title = title ? `${title} · Frazil` : "Frazil";
  main.replaceChildren(...content);
}

export function drawNav(current) {
  const { session } = state;
  const link = (name, label, href) =>
    h("a", { href, class: "nav-link", "aria-current": current === name ? "page" : null }, icon(name), h("span", {}, label));
  const picker = h(
    "select",
    { "aria-label": "Warehouse", onchange: (event) => go("tables", event.target.value) },
    session.warehouses.map((name) => h("option", { value: name, selected: name === state.warehouse }, name)),
  );
  const tool = (name, label, title, onclick) => h("button", { type: "button", class: "nav-link", "aria-label": label, title, onclick }, icon(name), h("span", {}, label));
  const foot = [
    tool("search", "Go to…", "Ctrl K", openPalette),
    tool("theme", "Theme", "t", toggleTheme),
    tool("keyboard", "Keys", "?", openHelp),
    hasToken() ? tool("out", `Sign out ${session.principal ?? ""}`.trim(), "Forget the key", signOut) : null,
  ];
  const parts = [
    h("a", { class: "brand", href: "#/tables" }, h("img", { src: "/console/static/icon.svg", alt: "", width: 20, height: 20 }), "Frazil"),
    session.warehouses.length > 1 ? h("div", { class: "picker" }, picker) : null,
    h("div", { class: "nav-main" }, PAGES.map(([name, label]) => link(name, label, hash(name, state.warehouse)))),
    session.operator ? h("div", { class: "nav-main nav-operator" }, OPERATOR_PAGES.map(([name, label]) => link(name, label, hash(name, state.warehouse)))) : null,
    h("div", { class: "nav-foot" }, foot),
  ];
  nav.replaceChildren(...parts.filter(Boolean));
}

// the name of each page, its title, and the key that opens it after g
export const PAGES = [
  ["tables", "Tables", "t"],
  ["pipelines", "Pipelines", "p"],
  ["plan", "Plan", "n"],
  ["sql", "SQL", "s"],
  ["upkeep", "Upkeep", "u"],
  ["connect", "Connect", "c"],
];
// for those who manage the server
const OPERATOR_PAGES = [
  ["access", "Access", "a"],
  ["audit", "Audit log", "l"],
];

function pages() {
  return [...PAGES, ...(state.session?.operator ? OPERATOR_PAGES : [])];
}

export function hash(...parts) {
  return `#/${parts.filter((part) => part !== null && part !== undefined).map(encodeURIComponent).join("/")}`;
}

export function go(...parts) {
  location.hash = hash(...parts);
}

export function openTable(table, ...rest) {
  go("table", table.warehouse ?? state.warehouse, table.namespace.join("\x1f"), table.name, ...rest);
}

function signOut() {
  setToken(null);
  location.reload();
}

export function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("frazil.theme", root.dataset.theme);
  } catch {
    // storage is off: for this page only
  }
}

// --- keys ------------------------------------------------------------------------------------------------------------

let handlers = {};
let pending = null;

// The keys of the page that is shown: {key: function}.
export function bindKeys(bound) {
  handlers = bound;
}

// Keys of a part of the page, besides those of the page.
export function bindMore(bound) {
  handlers = { ...handlers, ...bound };
}

function onKey(event) {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    return openPalette();
  }
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing && event.key !== "Escape") return;
  const key = pending ? `${pending} ${event.key}` : event.key;
  pending = null;
  if (key === "g") pending = "g";
  else if (key.startsWith("g ")) {
    const page = pages().find(([, , letter]) => key === `g ${letter}`);
    if (page) go(page[0], state.warehouse);
  }
  else if (key === "?") openHelp();
  else if (handlers[key]) handlers[key](event);
  else if (key === "t") toggleTheme();
  else return;
  event.preventDefault();
}

// --- dialogs ---------------------------------------------------------------------------------------------------------

export function openDialog(label, className, ...content) {
  document.querySelector("dialog[open]")?.close();
  const dialog = h("dialog", { class: className, "aria-label": label }, ...content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Asks before something that cannot be undone. True if it is to be done.
export function confirmed(title, content, action) {
  return new Promise((resolve) => {
    let answer = false;
    const yes = h("button", { type: "button", class: "primary danger", onclick: () => { answer = true; dialog.close(); } }, action);
    const no = h("button", { type: "button", class: "plain-button", autofocus: true, onclick: () => dialog.close() }, "Cancel");
    const dialog = openDialog(title, "sheet", h("h2", {}, title), content, h("div", { class: "buttons" }, no, yes));
    dialog.addEventListener("close", () => resolve(answer));
  });
}

export function openHelp() {
  const rows = [...KEYS, ...pages().map(([, label, letter]) => [`g ${letter}`, label])].map(([keys, what]) => h("tr", {}, h("td", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("td", {}, what)));
  openDialog("Keys", "help", h("h2", {}, "Keys"), h("table", {}, h("tbody", {}, rows)));
}

export async function openPalette() {
  const input = h("input", { type: "text", role: "combobox", "aria-label": "Go to a table or page", "aria-expanded": "true", "aria-controls": "palette-list", autocomplete: "off", spellcheck: "false", placeholder: "Go to a table or page" });
  const list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "Results" });
  const dialog = openDialog("Go to", "palette", input, list);
  let found = [], at = 0;
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (text) => words.every((word) => text.toLowerCase().includes(word));
    const places = pages().map(([name, label]) => ({ label, about: "page", open: () => go(name, state.warehouse) }));
    const tables = (state.tables.get(state.warehouse)?.rows ?? []).map((row) => ({ label: [...row.namespace, row.name].join("."), about: "table", open: () => openTable(row) }));
    found = [...places, ...tables].filter((item) => fits(item.label)).slice(0, 12);
    at = Math.min(at, Math.max(0, found.length - 1));
    list.replaceChildren(
      ...found.map((item, index) =>
        h("li", { role: "option", id: `palette-${index}`, "aria-selected": String(index === at), onclick: () => choose(index) }, h("bdi", {}, item.label), h("small", {}, item.about)),
      ),
    );
    if (found.length) input.setAttribute("aria-activedescendant", `palette-${at}`);
    else input.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    dialog.close();
    found[index]?.open();
  };
  input.addEventListener("input", () => { at = 0; draw(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") at = Math.min(found.length - 1, at + 1);
    else if (event.key === "ArrowUp") at = Math.max(0, at - 1);
    else if (event.key === "Enter") return choose(at);
    else return;
    event.preventDefault();
    draw();
  });
  draw();
  if (state.tables.get(state.warehouse)?.done) return;
  const leaving = new AbortController();
  dialog.addEventListener("close", () => leaving.abort());
  const { loadTables } = await import("./tables.js");
  await loadTables(state.warehouse, leaving.signal, (loaded) => {
    state.tables.set(loaded.warehouse, loaded);
    draw();
  }).catch(() => {}); // pages can be found without tables
}

// --- sign in ---------------------------------------------------------------------------------------------------------

export async function openSession() {
  state.session = await get("/console/api/session");
  return state.session;
}

export function showSignIn(error) {
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, placeholder: "frz_…" });
  const note = h("p", { class: "signin-error", role: "alert" }, error && hasToken() ? error.message : "");
  const form = h(
    "form",
    { class: "signin" },
    h("img", { src: "/console/static/icon.svg", alt: "", width: 40, height: 40 }),
    h("h1", {}, "Sign in to Frazil"),
    h("label", { for: "token" }, "API key or access token"),
    input,
    h("button", { type: "submit", class: "primary" }, "Sign in"),
    note,
    h("p", { class: "muted" }, "An operator makes a key with ", h("code", {}, "frazil token create NAME"), ". It is kept in this tab until you close it."),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    dispatchEvent(new HashChangeEvent("hashchange"));
  });
  setToken(null);
  nav.replaceChildren();
  show("Sign in", form);
  input.focus();
}
