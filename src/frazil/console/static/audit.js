// The audit log: who changed what, and what was refused, the newest first.

import { get } from "./api.js";
import { command, h, problem, quoted } from "./dom.js";
import { age, oneLine, plural, when } from "./format.js";
import { Grid } from "./grid.js";
import { bindKeys, drawNav, go, show } from "./shell.js";

const TIMES = [["", "Any time"], ["3600", "Last hour"], ["86400", "Last 24 hours"], ["604800", "Last 7 days"], ["2592000", "Last 30 days"]];
const AGES = { 3600: "1h", 86400: "24h", 604800: "7d", 2592000: "30d" };
const DECISIONS = [["", "Any decision"], ["allowed", "Allowed"], ["refused", "Refused"]];
const TEXTS = [["actor", "Principal"], ["operation", "Operation"], ["object", "Object contains"]];
const STEP = 200;

const COLUMNS = [
  { key: "at_ms", title: "When", width: "150px", least: 560, cell: (row) => h("span", { class: "muted", title: age(row.at_ms) }, when(row.at_ms).replace(" UTC", "")) },
  { key: "decision", title: "", width: "72px", cell: (row) => h("span", { class: `verdict ${row.decision}` }, row.decision) },
  { key: "actor", title: "Who", width: "minmax(90px, 0.7fr)", cell: (row) => h("bdi", { class: row.actor ? null : "muted" }, oneLine(row.actor || "unknown caller", 80)) },
  { key: "operation", title: "Operation", width: "minmax(110px, 0.7fr)", cell: (row) => oneLine(row.operation, 80) },
  { key: "objects", title: "Objects", width: "minmax(140px, 2fr)", least: 460, cell: (row) => h("bdi", { title: oneLine(row.objects, 600) }, oneLine(splitObjects(row.objects).join("; "), 200)) },
];

export async function page({ warehouse, query }, signal) {
  drawNav("audit");
  const wanted = Object.fromEntries(["actor", "operation", "object", "decision", "age"].map((name) => [name, query.get(name) ?? ""]));
  const side = h("aside", { class: "side-panel", "aria-label": "Record" });
  const status = h("p", { class: "status", role: "status" }, "Loading…");
  const note = h("div");
  const more = h("button", { type: "button", class: "plain-button", hidden: true, onclick: () => load(false) }, "Load older");
  const foot = h("footer", { class: "page-foot" });
  let rows = [], next = null, loading = null;
  const grid = new Grid({ label: "Audit log", columns: COLUMNS, onOpen: (row) => side.replaceChildren(...details(row)), rowClass: (row) => row.decision, empty: () => (loading ? "Loading…" : next === null ? "No record matches." : "No record matches so far.") });

  async function load(fresh) {
    const since = wanted.age ? Date.now() - Number(wanted.age) * 1000 : "";
    const asked = (loading = {});
    more.disabled = true;
    try {
      const { age: _, ...filters } = wanted;
      const answer = await get("/console/api/audit", { query: { ...filters, since, limit: STEP, before: fresh ? "" : next }, signal });
      if (asked !== loading) return; // the filters have changed meanwhile
      loading = null;
      rows = fresh ? answer.records : [...rows, ...answer.records];
      next = answer.next;
      note.replaceChildren(answer.authentication ? "" : h("p", { class: "off-note" }, "Authentication is off: requests are carried out for everyone and are not recorded. The log has what was done on the command line."));
      status.textContent = `${plural(rows.length, "record")}${next === null ? "" : ", and older ones"}`;
      grid.setRows(rows);
      if (fresh) side.replaceChildren(...(rows.length ? details(rows[0]) : [h("p", { class: "muted" }, "Choose a record to see all of it.")]));
      more.hidden = next === null;
    } finally {
      more.disabled = false;
    }
  }

  const redo = () => {
    foot.replaceChildren(command(auditCommand(wanted)));
    remember(warehouse, wanted);
    load(true).catch((error) => error.name !== "AbortError" && error.status !== 401 && show("Audit log", problem(error)));
  };
  let typing = null;
  const soon = () => { clearTimeout(typing); typing = setTimeout(redo, 250); };
  const texts = TEXTS.map(([name, label]) => {
    const input = h("input", { type: "search", class: "field", "aria-label": label, placeholder: label, autocomplete: "off", spellcheck: "false" });
    input.value = wanted[name];
    input.addEventListener("input", () => { wanted[name] = input.value.trim(); soon(); });
    return input;
  });
  const chooser = (label, name, options) => h("select", { class: "field", "aria-label": label, onchange: (event) => { wanted[name] = event.target.value; redo(); } }, options.map(([value, text]) => h("option", { value, selected: value === wanted[name] }, text)));
  bindKeys({
    "/": () => texts[0].focus(),
    r: redo,
    Escape: () => (document.activeElement?.closest(".filters") ? grid.view.focus() : go("tables", warehouse)),
    j: () => grid.step(1),
    k: () => grid.step(-1),
    ArrowDown: () => grid.step(1),
  });
  show(
    "Audit log",
    h("header", { class: "page-head" }, h("h1", {}, "Audit log"), status, more),
    note,
    h("div", { class: "filters", role: "search", "aria-label": "Filter" }, texts, chooser("Decision", "decision", DECISIONS), chooser("Time", "age", TIMES)),
    h("div", { class: "split lined" }, grid.element, side),
    foot,
  );
  redo();
}

// The record in full. What it says may come from anyone: a refused request names what it likes.
function details(row) {
  const line = (name, value, className) => (value ? [h("dt", {}, name), h("dd", { class: className }, h("bdi", {}, value))] : []);
  return [
    h("h2", {}, oneLine(row.operation, 120)),
    h("dl", { class: "pairs" }, line("When", when(row.at_ms)), line("Decision", row.decision), line("Who", row.actor || "unknown caller"), line("Key", row.key_id, "mono"), line("Address", row.address, "mono"), line("Request", row.request_id, "mono"), line("Note", row.note)),
    h("h2", {}, "Objects"),
    h("ul", { class: "objects" }, splitObjects(row.objects).map((text) => h("li", {}, h("bdi", {}, text)))),
  ];
}

// The objects of a record: they are separated by "; ", and a semicolon of a name is escaped.
function splitObjects(text) {
  return text.replaceAll("\\;", "\0").split("; ").map((part) => part.replaceAll("\0", ";")).filter(Boolean);
}

function auditCommand(wanted) {
  const options = [["--actor", wanted.actor], ["--operation", wanted.operation], ["--object", wanted.object], ["--decision", wanted.decision], ["--since", AGES[wanted.age]]];
  const given = options.filter(([, value]) => value).map(([name, value]) => `${name}=${quoted(value)}`);
  return ["frazil audit-log", ...given].join(" ");
}

function remember(warehouse, wanted) {
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
  const address = `#/audit/${encodeURIComponent(warehouse)}${query ? `?${query}` : ""}`;
  if (location.hash !== address) history.replaceState(null, "", address);
}
