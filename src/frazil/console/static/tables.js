// The tables page: every table of the warehouse in one line.

import { apiPath, get } from "./api.js";
import { command, commandLine, h, icon, problem, s } from "./dom.js";
import { ROWS_ABOUT, age, bytes, compact, count, deletedShare, oneLine, percent, plural, when } from "./format.js";
import { Grid } from "./grid.js";
import { bindKeys, drawNav, openTable, show, state } from "./shell.js";

export const COMPANIONS = /__(quarantine|ledger|runs)$/;
const LEVELS = { error: 0, overdue: 1, due: 2, fine: 3, off: 4, empty: 5, hidden: 6 };
export const WORDS = { fine: "Fine", due: "Due", overdue: "Overdue", off: "Off", empty: "Empty", hidden: "No access", error: "Error" };

export function health(level, working) {
  return h("span", { class: `health ${level}` }, h("i", { "aria-hidden": "true" }), working ? "Working" : WORDS[level]);
}

function nameCell(row) {
  return h("div", { class: "name" }, h("i", { class: `dot-only ${row.health.level}`, "aria-hidden": "true" }), h("bdi", { class: "muted" }, `${row.namespace.join(".")}.`), h("bdi", { title: row.label }, oneLine(row.name)));
}

function healthCell(row) {
  const reason = row.health.reasons.join(", ");
  return h("div", { class: "why", title: reason }, health(row.health.level, row.working), h("span", { class: "muted" }, oneLine(reason)));
}

function filesCell(row) {
  return h("span", { title: `${plural(row.data_files, "data file")}, ${plural(row.delete_files, "delete file")}` }, compact(row.data_files));
}

// How many checks are declared, where that is known; and the rows that broke them.
function checksCell(row) {
  const declared = row.checks?.length, held = row.quarantined ?? 0;
  const title = [...(row.checks ?? []).map((check) => oneLine(check, 120)), ...(held ? [plural(held, "quarantined row")] : [])].join("\n");
  return h("span", { title: title || null }, declared === undefined ? (held ? "" : "–") : count(declared), held ? h("span", { class: "bad" }, ` ${compact(held)} ✕`) : null);
}

// The commits of the last days, a bar each.
export function activity(days) {
  const most = Math.max(...days, 1);
  const bars = days.map((commits, at) => {
    const tall = commits ? 3 + 11 * (commits / most) : 1;
    return s("rect", { x: at * 5, y: 15 - tall, width: 3.4, height: tall, rx: 0.8, class: commits ? "on" : null });
  });
  const title = s("title", {}, `${plural(days.reduce((sum, commits) => sum + commits, 0), "commit")} in ${days.length} days`);
  return s("svg", { class: "activity", viewBox: `0 0 ${days.length * 5} 16`, role: "img" }, title, ...bars);
}

const COLUMNS = [
  { key: "label", title: "Table", width: "minmax(180px, 1fr)", sort: "text", cell: nameCell },
  { key: "health", title: "Health", width: "minmax(110px, 1.1fr)", least: 500, sort: "health", about: "What upkeep has to do, from metadata alone", cell: healthCell },
  { key: "rows", title: "Rows", width: "74px", right: true, sort: "number", about: ROWS_ABOUT, cell: (row) => h("span", { title: count(row.rows) }, compact(row.rows)) },
  { key: "bytes", title: "Size", width: "70px", right: true, least: 420, sort: "number", cell: (row) => h("span", { title: count(row.bytes) }, bytes(row.bytes)) },
  { key: "data_files", title: "Files", width: "58px", right: true, least: 700, sort: "number", cell: filesCell },
  { key: "average_file_bytes", title: "Avg file", width: "70px", right: true, least: 820, sort: "number", cell: (row) => bytes(row.average_file_bytes) },
  { key: "delete_ratio", title: "Deleted", width: "66px", right: true, least: 900, sort: "number", about: "Share of the rows that position deletes mark; unknown with equality deletes", cell: (row) => percent(deletedShare(row)) },
  { key: "checks", title: "Checks", width: "76px", right: true, least: 980, sort: "checks", about: "Checks that the project declares, and quarantined rows", cell: checksCell },
  { key: "activity", title: "14 days", width: "84px", right: true, least: 1060, sort: "activity", about: "Commits per day", cell: (row) => (row.activity ? activity(row.activity) : "") },
  { key: "committed_ms", title: "Last commit", width: "84px", right: true, least: 600, sort: "number", cell: (row) => h("span", { title: when(row.committed_ms) }, row.health.level === "hidden" ? "–" : age(row.committed_ms)) },
];

const SHOWN = {
  all: ["All", () => true],
  attention: ["Needs attention", (row) => LEVELS[row.health.level] <= LEVELS.due],
  stale: ["No commit in 7 days", (row) => row.committed_ms && Date.now() - row.committed_ms > 7 * 86_400_000],
};

// Loads all tables page by page; `onPage` is called after each.
export async function loadTables(warehouse, signal, onPage) {
  const loaded = { warehouse, rows: [], total: null, done: false };
  let after = "";
  while (after !== null) {
    const page = await get(apiPath(warehouse, "tables"), { query: { after }, signal });
    for (const row of page.tables) {
      row.label = [...row.namespace, row.name].join(".");
      row.search = row.label.toLowerCase();
      row.warehouse = warehouse;
      loaded.rows.push(row);
    }
    loaded.total = page.total;
    after = page.next;
    loaded.done = after === null;
    if (loaded.done) noteQuarantine(loaded.rows);
    onPage(loaded);
  }
  return loaded;
}

// Rows that broke the contract of a table lie in another table; they are a reason to look.
function noteQuarantine(rows) {
  const byLabel = new Map(rows.map((row) => [row.label, row]));
  for (const row of rows) {
    const target = row.label.endsWith("__quarantine") && row.rows > 0 ? byLabel.get(row.label.slice(0, -"__quarantine".length)) : null;
    if (target) target.quarantined = row.rows;
    if (!target || target.health.level === "hidden") continue;
    const level = LEVELS[target.health.level] > LEVELS.due ? "due" : target.health.level;
    target.health = { ...target.health, level, reasons: [`${plural(row.rows, "quarantined row")}`, ...target.health.reasons.filter(Boolean)] };
  }
}

const compare = {
  text: (row) => row.search,
  number: (row, key) => row[key] ?? -1,
  health: (row) => -(LEVELS[row.health.level] * 1e6 - Math.min(row.health.score ?? 0, 1e5)),
  checks: (row) => (row.quarantined ?? 0) * 1e6 + (row.checks?.length ?? -1),
  activity: (row) => (row.activity ?? []).reduce((sum, commits) => sum + commits, 0),
};

function sorted(rows, sort) {
  const column = COLUMNS.find((each) => each.key === sort.key) ?? COLUMNS[0];
  const value = compare[column.sort];
  const way = sort.down ? -1 : 1;
  const keyed = rows.map((row) => [value(row, column.key), row]);
  keyed.sort(([a], [b]) => (a < b ? -way : a > b ? way : 0));
  return keyed.map(([, row]) => row);
}

export function tablesPage({ warehouse, query }, signal) {
  drawNav("tables");
  const view = { q: query.get("q") ?? "", show: query.get("show") ?? "all", companions: query.has("companions"), sort: parseSort(query.get("sort")) };
  const search = h("input", { type: "search", "aria-label": "Search tables", placeholder: "Search tables", autocomplete: "off", spellcheck: "false" });
  search.value = view.q;
  const status = h("p", { class: "status", role: "status" }, "Loading…");
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter" });
  const grid = new Grid({
    label: "Tables",
    columns: COLUMNS,
    onOpen: (row) => row.health.level !== "hidden" && openTable(row),
    onSort: (column) => {
      const same = view.sort.key === column.key;
      view.sort = { key: column.key, down: same ? !view.sort.down : column.sort !== "text" };
      draw();
    },
    empty: () => emptyNote(data, view),
  });
  let data = state.tables.get(warehouse) ?? { rows: [], total: null, done: false };

  const drawChips = (rows) => {
    const buttons = Object.entries(SHOWN).map(([name, [label, test]]) => {
      const number = name === "all" ? rows.length : rows.filter(test).length;
      return h("button", { type: "button", class: "chip", "aria-pressed": String(view.show === name), onclick: () => { view.show = name; draw(); } }, label, h("span", { class: "number" }, count(number)));
    });
    const companions = data.rows.length - data.rows.filter((row) => !COMPANIONS.test(row.name)).length;
    if (companions) {
      buttons.push(h("button", { type: "button", class: "chip", "aria-pressed": String(view.companions), title: "Quarantines, ledgers and runs of pipelines", onclick: () => { view.companions = !view.companions; draw(); } }, "Companions", h("span", { class: "number" }, count(companions))));
    }
    const had = chips.contains(document.activeElement) ? [...chips.children].indexOf(document.activeElement) : -1;
    chips.replaceChildren(...buttons);
    chips.children[had]?.focus();
  };

  const draw = () => {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = data.rows.filter((row) => (view.companions || !COMPANIONS.test(row.name)) && words.every((word) => row.search.includes(word)));
    const chosen = sorted(rows.filter(SHOWN[view.show]?.[1] ?? SHOWN.all[1]), view.sort);
    drawChips(rows);
    grid.setRows(chosen, { sort: view.sort });
    const size = chosen.reduce((sum, row) => sum + (row.bytes ?? 0), 0);
    status.textContent = data.done ? `${plural(chosen.length, "table")} · ${bytes(size)}` : data.total === null ? "Loading…" : `Loading ${count(data.rows.length)} of ${count(data.total)}…`;
    remember(warehouse, view);
  };

  const refresh = async () => {
    try {
      await loadTables(warehouse, signal, (loaded) => {
        if (data.done && !loaded.done) return; // what is shown stays until all of it is new
        data = loaded;
        state.tables.set(warehouse, data);
        draw();
      });
      // The project's code may have to run for it, which the list does not wait for.
      const { checks } = await get(apiPath(warehouse, "checks"), { signal });
      for (const row of data.rows) if (Object.hasOwn(checks, row.label)) row.checks = checks[row.label];
      draw();
    } catch (error) {
      if ([401, 403, 404].includes(error.status)) state.tables.delete(warehouse);
      if (error.name !== "AbortError" && error.status !== 401) show("Tables", problem(error));
    }
  };

  search.addEventListener("input", () => { view.q = search.value; draw(); grid.view.scrollTop = 0; });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); grid.view.focus(); grid.move(0); }
  });
  bindKeys({
    "/": () => { search.focus(); search.select(); },
    r: () => { data = { ...data, done: false }; refresh(); },
    Escape: () => {
      if (view.q) { search.value = view.q = ""; draw(); } 
      grid.view.focus();
    },
    j: () => grid.step(1),
    k: () => grid.step(-1),
    ArrowDown: () => grid.step(1),
  });
  show(
    "Tables",
    h("header", { class: "page-head" }, h("h1", {}, "Tables"), status, h("div", { class: "search" }, icon("search"), search, h("kbd", { "aria-hidden": "true" }, "/"))),
    chips,
    grid.element,
    h("footer", { class: "page-foot" }, command(commandLine("tables", [], "--all"))),
  );
  if (data.rows.length) draw();
  refresh();
}

function emptyNote(data, view) {
  if (!data.done) return "Loading…";
  if (data.total) return h("div", {}, h("p", {}, "No table matches."), view.show !== "all" ? h("p", { class: "muted" }, "A filter is on.") : null);
  return h("div", {}, h("p", {}, "There are no tables yet."), h("p", { class: "muted" }, "Declare some in lakehouse.py, then:"), command(commandLine("apply")));
}

function parseSort(text) {
  return text ? { key: text.replace(/^-/, ""), down: text.startsWith("-") } : { key: "label", down: false };
}

function remember(warehouse, view) {
  const query = new URLSearchParams();
  if (view.q) query.set("q", view.q);
  if (view.show !== "all") query.set("show", view.show);
  if (view.companions) query.set("companions", "");
  if (view.sort.key !== "label" || view.sort.down) query.set("sort", `${view.sort.down ? "-" : ""}${view.sort.key}`);
  const text = query.toString();
  const address = `#/tables/${encodeURIComponent(warehouse)}${text ? `?${text}` : ""}`;
  if (location.hash !== address) history.replaceState(null, "", address); // browsers limit how often
}
