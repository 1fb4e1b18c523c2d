// The page of one table: what it is, how it came to be, what is in it.

import { get, tablePath } from "./api.js";
import { command, commandLine, h, problem, quoted, s } from "./dom.js";
import { ROWS_ABOUT, age, bytes, compact, count, deletedShare, oneLine, percent, plural, when } from "./format.js";
import { bindKeys, drawNav, go, hash, show, state } from "./shell.js";
import { filesTab } from "./files.js";
import { grantsTab } from "./grants.js";
import { indexesTab } from "./indexes.js";
import { metadataTab } from "./metadata.js";
import { pairs, section } from "./parts.js";
import { partitionsTab } from "./partitions.js";
import { quarantineTab } from "./quarantine.js";
import { snapshotsTab } from "./snapshots.js";
import { qualified } from "./sqltext.js";
import { COMPANIONS, activity, health } from "./tables.js";

const TABS = [
  ["overview", "Overview", overview],
  ["columns", "Columns", columns],
  ["snapshots", "Snapshots", snapshotsTab],
  ["rows", "Rows", rows],
  ["files", "Files", filesTab],
  ["partitions", "Partitions", partitionsTab],
  ["metadata", "Metadata", metadataTab],
  ["indexes", "Indexes", indexesTab],
  ["quarantine", "Quarantine", quarantineTab],
  ["grants", "Grants", grantsTab],
  ["properties", "Properties", properties],
];

export async function page({ warehouse, parts, query }, signal) {
  const [namespace, name, chosen = "overview"] = parts;
  const table = { warehouse, namespace: namespace.split("\x1f"), name };
  table.label = [...table.namespace, name].join(".");
  drawNav("tables");
  const open = (tab, more) => go("table", warehouse, namespace, name, tab, more);
  const tabs = TABS.filter(([key]) => (key !== "grants" || state.session.authentication) && (key !== "quarantine" || !COMPANIONS.test(name)));
  const at = Math.max(0, tabs.findIndex(([key]) => key === chosen));
  bindKeys({
    Escape: () => go("tables", warehouse),
    "[": () => open(tabs[(at + tabs.length - 1) % tabs.length][0]),
    "]": () => open(tabs[(at + 1) % tabs.length][0]),
    r: () => dispatchEvent(new HashChangeEvent("hashchange")),
  });
  const body = h("div", { class: "tab-body" }, h("p", { class: "muted loading" }, "Loading…"));
  const facts = h("dl", { class: "facts" });
  const badge = h("span");
  show(
    table.label,
    h(
      "header",
      { class: "table-head" },
      h("nav", { class: "crumbs", "aria-label": "Where" }, h("a", { href: hash("tables", warehouse) }, "Tables"), " / ", h("bdi", {}, table.namespace.join("."))),
      h("div", { class: "title" }, h("h1", { title: name }, h("bdi", {}, oneLine(name, 120))), badge),
      facts,
    ),
    h(
      "nav",
      { class: "tabs", "aria-label": "Of this table" },
      tabs.map(([key, label], index) => h("a", { href: hash("table", warehouse, namespace, name, key), "aria-current": index === at ? "page" : null }, label)),
    ),
    body,
  );
  try {
    const loaded = await get(tablePath(table), { signal });
    badge.replaceWith(health(loaded.health.level, loaded.working));
    drawFacts(facts, loaded);
    await tabs[at][2](Object.assign(loaded, { label: table.label }), body, { signal, query, extra: parts.slice(3) });
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) body.replaceChildren(problem(error));
  }
}

function drawFacts(list, table) {
  const fact = (name, value, title) => h("div", {}, h("dt", {}, name), h("dd", { title }, value));
  list.replaceChildren(
    fact("Rows", compact(table.rows), `${count(table.rows)}. ${ROWS_ABOUT}`),
    fact("Size", bytes(table.bytes), `${count(table.bytes)} bytes`),
    fact("Data files", compact(table.data_files), count(table.data_files)),
    fact("Delete files", compact(table.delete_files), count(table.delete_files)),
    fact("Average file", bytes(table.average_file_bytes)),
    fact("Rows deleted", percent(deletedShare(table))),
    fact("Snapshots", count(table.snapshots)),
    fact("Last commit", age(table.committed_ms), when(table.committed_ms)),
  );
}

// --- overview --------------------------------------------------------------------------------------------------------

const STEPS = { compact: "Compact small files", deletes: "Apply delete files", manifests: "Merge manifests", expire: "Expire snapshots" };

function overview(table, body, { signal }) {
  const { upkeep } = table;
  const checks = h("div", { class: "checks" }, h("p", { class: "muted" }, "Loading…"));
  const steps = Object.entries(table.steps).map(([step, score]) => {
    const share = Math.min(1, score);
    const bar = s("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { width: 100, height: 6, rx: 3 }), s("rect", { width: 100 * share, height: 6, rx: 3, class: score >= 1 ? "due" : "on" }));
    return h("tr", {}, h("th", { scope: "row" }, STEPS[step] ?? step), h("td", { class: "bar" }, bar), h("td", { class: "right number" }, score.toFixed(2)));
  });
  const run = upkeep.last_run;
  const partitioning = table.partitioning.length ? table.partitioning.map((field) => (field.transform === "identity" ? field.column : `${field.transform}(${field.column})`)).join(", ") : "none";
  const order = table.order.length ? table.order.map((field) => `${field.column} ${field.direction}`).join(", ") : "none";
  body.replaceChildren(
    h(
      "div",
      { class: "two" },
      h(
        "div",
        {},
        table.comment ? h("p", { class: "comment" }, h("bdi", {}, table.comment)) : null,
        section(
          "About",
          pairs([
            ["Location", h("bdi", {}, table.location), "mono"],
            ["Metadata file", h("bdi", {}, table.metadata_location.split("/").at(-1)), "mono"],
            ["UUID", table.uuid, "mono"],
            ["Format", `Iceberg ${table.format_version}`],
            ["Partitioned by", h("bdi", {}, partitioning)],
            ["Sorted by", h("bdi", {}, order)],
            ["Columns", count(table.columns)],
            ["Branches and tags", h("div", { class: "refs" }, table.refs.map((ref) => refMark(ref)))],
          ]),
        ),
        section("Commits of the last 30 days", table.snapshots ? h("div", { class: "days" }, activity(table.activity)) : h("p", { class: "muted" }, "None yet.")),
      ),
      h(
        "div",
        {},
        section(
          "Upkeep",
          h("p", { class: "lead" }, health(table.health.level, table.working), h("span", { class: "muted" }, table.health.reasons.join(", ") || "Nothing to do.")),
          steps.length ? h("table", { class: "steps" }, h("caption", { class: "muted" }, "A score of 1 means that a run is worth it."), h("tbody", {}, steps)) : null,
          h("p", { class: "muted" }, run ? `Last run ${age(run.at_ms)}: ${run.outcome}${run.saved_files ? `, ${plural(run.saved_files, "file")} fewer` : ""}.` : "Upkeep has not run on this table."),
          table.working ? h("p", {}, "Upkeep is running.") : null,
        ),
        section("Checks", checks),
        section("On the command line", command(commandLine("log", [table.label])), command(commandLine("maintain", [table.label], "--dry-run")), command(commandLine("explain", [table.label]))),
      ),
    ),
  );
  drawChecks(table, checks, signal);
}

// The declared checks of a table, and its quarantined rows. The project's code may have to run for it.
async function drawChecks(table, place, signal) {
  try {
    const { project, checks, quarantined } = await get(tablePath(table, "checks"), { signal });
    const unknown = { none: "Not known: there is no lakehouse.py where this server runs.", failed: "Not known: the project in the server's folder could not be loaded." };
    const list = checks?.length ? h("ul", { class: "facts-list" }, checks.map((check) => h("li", {}, h("code", {}, h("bdi", {}, oneLine(check, 400)))))) : h("p", { class: "muted" }, unknown[project.status] ?? (checks ? "The project declares none." : "The project does not declare this table."));
    const held = quarantined ? h("p", {}, h("a", { href: hash("table", table.warehouse, table.namespace.join("\x1f"), table.name, "quarantine") }, plural(quarantined, "quarantined row"))) : h("p", { class: "muted" }, quarantined === 0 ? "No row is in quarantine." : "How many rows are in quarantine is not known.");
    place.replaceChildren(list, COMPANIONS.test(table.name) ? "" : held);
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) place.replaceChildren(h("p", { class: "muted" }, error.message));
  }
}

export function refMark(ref) {
  return h("span", { class: `ref ${ref.type}`, title: `${ref.type} ${ref.name}` }, h("bdi", {}, oneLine(ref.name, 60)));
}

// --- columns ---------------------------------------------------------------------------------------------------------

const SAID = {
  added: (change) => ["added", change.after],
  dropped: (change) => ["dropped", change.before],
  renamed: (change) => ["renamed", `${change.before} → ${change.after}`],
  type: (change) => ["type", `${change.before} → ${change.after}`],
  required: (change) => ["nulls", change.after ? "not allowed any more" : "allowed now"],
  doc: () => ["comment", "changed"],
};

function columns(table, body) {
  const partitioned = new Map(table.partitioning.map((field) => [field.column, field.transform]));
  const line = (field) => {
    const name = field.path.join(".");
    const transform = partitioned.get(name);
    return h(
      "tr",
      {},
      h("td", { class: "number right" }, field.id),
      h("th", { scope: "row" }, h("span", { class: "depth", style: { "padding-left": `${(field.path.length - 1) * 18}px` } }, h("bdi", {}, oneLine(field.path.at(-1), 120)))),
      h("td", { class: "mono" }, field.type),
      h("td", { class: "muted" }, field.required ? "not null" : ""),
      h("td", { class: "muted" }, transform ? `partition${transform === "identity" ? "" : `: ${transform}`}` : ""),
      h("td", { class: "doc" }, field.doc ? h("bdi", {}, field.doc) : ""),
    );
  };
  const head = h("tr", {}, ["Id", "Column", "Type", "Nulls", "Role", "Comment"].map((title, at) => h("th", { scope: "col", class: at === 0 ? "right" : null }, title)));
  const history = table.schemas.map((schema) =>
    h(
      "li",
      {},
      h("div", { class: "when" }, h("strong", {}, `Schema ${schema.schema_id}`), schema.current ? h("span", { class: "ref branch" }, "current") : null, h("span", { class: "muted", title: when(schema.used_ms) }, schema.used_ms ? `first used ${age(schema.used_ms)}` : "no snapshot was made with it")),
      schema.changes.length
        ? h("ul", {}, schema.changes.map((change) => {
            const [verb, what] = SAID[change.what](change);
            return h("li", {}, h("span", { class: `verb ${change.what}` }, verb), h("bdi", {}, oneLine(change.path.join("."), 80)), h("span", { class: "muted" }, h("bdi", {}, oneLine(what ?? "", 80))), h("span", { class: "muted number" }, `id ${change.id}`));
          }))
        : h("p", { class: "muted" }, schema.schema_id === table.schemas.at(-1).schema_id ? plural(schema.fields, "field") : "No field changed."),
    ),
  );
  body.replaceChildren(
    section("Columns", h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Columns" }, h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, table.fields.map(line)))), command(commandLine("import", [table.label]))),
    section("History of the schema, by field id", h("ol", { class: "history" }, history)),
  );
}

// --- rows ------------------------------------------------------------------------------------------------------------

export function rowsTable(answer) {
  const head = h("tr", {}, answer.columns.map((column) => h("th", { scope: "col", class: column.number ? "right" : null }, h("bdi", {}, oneLine(column.name, 80)), h("small", {}, column.type))));
  const cell = (value, at) =>
    value === null ? h("td", { class: "null" }, "null") : h("td", { class: answer.columns[at].number ? "right" : null, title: value.length > 40 ? value.slice(0, 600) : null }, h("bdi", {}, oneLine(value, 200)));
  return h("div", { class: "scroll rows", tabindex: 0, role: "region", "aria-label": "Rows" }, h("table", { class: "plain cells" }, h("thead", {}, head), h("tbody", {}, answer.rows.map((row) => h("tr", {}, row.map(cell))))));
}

async function rows(table, body, { signal, extra }) {
  const snapshot = extra[0];
  const answer = await get(tablePath(table, "rows"), { query: { snapshot, limit: 100 }, signal });
  const at = snapshot ? `--snapshot ${quoted(snapshot)}` : "";
  const back = snapshot ? h("p", { class: "muted" }, "As of snapshot ", h("code", {}, snapshot), ". ", h("a", { href: hash("table", table.warehouse, table.namespace.join("\x1f"), table.name, "rows") }, "Show them as they are now")) : null;
  const open = `${hash("sql", table.warehouse)}?${new URLSearchParams({ q: `SELECT *\nFROM ${sqlName(table)}${snapshot ? ` AT (VERSION => ${snapshot})` : ""}\nLIMIT 100` })}`;
  body.replaceChildren(
    h("div", { class: "bar-line" }, h("p", { class: "muted" }, answer.rows.length ? `The first ${plural(answer.rows.length, "row")}${answer.more_columns ? `, without ${plural(answer.more_columns, "column")}` : ""}.` : "No rows."), back, h("a", { href: open }, "Open in SQL"), command(commandLine("query", [`SELECT * FROM ${sqlName(table)} LIMIT 100`], at))),
    answer.columns.length ? rowsTable(answer) : "",
  );
}

export const sqlName = qualified;

// --- properties ------------------------------------------------------------------------------------------------------

function properties(table, body) {
  const entries = Object.entries(table.properties);
  const line = ([name, value]) => h("tr", {}, h("th", { scope: "row", class: "mono" }, h("bdi", {}, oneLine(name, 200))), h("td", { class: "mono value" }, value.length > 400 ? h("details", {}, h("summary", {}, h("bdi", {}, oneLine(value, 120))), h("bdi", {}, value)) : h("bdi", {}, value)));
  body.replaceChildren(section(plural(entries.length, "property").replace(/ys$/, "ies"), entries.length ? h("table", { class: "plain" }, h("tbody", {}, entries.map(line))) : h("p", { class: "muted" }, "This table has none."), command(commandLine("import", [table.label]))));
}
