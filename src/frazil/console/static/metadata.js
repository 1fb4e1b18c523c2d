// The metadata of a table as a tree, from the metadata file to the bounds of columns. A level is loaded when it is
// opened, a page at a time.

import { get, tablePath } from "./api.js";
import { command, commandLine, h, problem } from "./dom.js";
import { bytes, compact, count, oneLine, plural, when } from "./format.js";
import { plainTable } from "./parts.js";

export async function metadataTab(table, body, { signal }) {
  const load = (query) => get(tablePath(table, "metadata"), { query, signal });
  const root = await load({});
  const file = (path, kind) => fileName(table, path, kind);
  const snapshots = pages(root, (after) => load({ after }), (snapshot) => snapshotNode(snapshot, { load, file }), "snapshot");
  const earlier = root.earlier.map((path) => h("li", {}, file(path, "metadata file")));
  const statistics = root.statistics.map((each) => h("li", {}, file(each.path, "statistics file"), h("span", { class: "muted number" }, bytes(each.bytes))));
  body.replaceChildren(
    h("div", { class: "tree" },
      h("div", { class: "root" }, file(table.metadata_location, "metadata file"), h("span", { class: "muted" }, `Iceberg ${table.format_version}, ${plural(root.total, "snapshot")}, in ${oneLine(table.location, 200)}`)),
      root.total ? snapshots : h("p", { class: "muted" }, "No snapshot yet: nothing was written."),
      statistics.length ? node([h("strong", {}, plural(statistics.length, "statistics file"))], () => [h("ul", {}, statistics)]) : "",
      earlier.length ? node([h("strong", {}, `${plural(earlier.length, "earlier metadata file")}`), h("span", { class: "muted" }, "the newest first")], () => [h("ul", {}, earlier)]) : "",
    ),
    h("div", { class: "block" }, command(commandLine("explain", [table.label])), command(commandLine("maintain", [table.label], "--only manifests --dry-run"))),
  );
}

// A line that can be opened; `fill` gives what is below it, at once or later.
function node(summary, fill) {
  const below = h("div", { class: "below" }, h("p", { class: "muted loading" }, "Loading…"));
  const element = h("details", {}, h("summary", {}, summary), below);
  element.addEventListener("toggle", async () => {
    if (!element.open || element.dataset.filled) return;
    element.dataset.filled = "true";
    try {
      below.replaceChildren(...(await fill()));
    } catch (error) {
      delete element.dataset.filled;
      if (error.name !== "AbortError" && error.status !== 401) below.replaceChildren(problem(error));
    }
  });
  return element;
}

// Entries of a level with a button for the next page.
function pages(first, more, draw, noun) {
  const list = h("div", { class: "level" });
  const add = (page) => {
    list.querySelector(":scope > .more")?.remove();
    list.append(...page.entries.map(draw));
    if (page.next === null) return;
    const button = h("button", { type: "button", class: "chip more" }, `${plural(page.total - page.next, `more ${noun}`)}`);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        add(await more(page.next));
      } catch (error) {
        button.disabled = false;
        if (error.name !== "AbortError" && error.status !== 401) list.append(problem(error));
      }
    });
    list.append(button);
  };
  add(first);
  return list;
}

// The name of a file, its whole location as a title; locations below that of the table are shown from there.
function fileName(table, path, kind) {
  if (!path) return h("span", { class: "muted" }, `no ${kind}`);
  const inside = path.startsWith(`${table.location}/`) ? path.slice(table.location.length + 1) : path;
  return h("span", { class: "file", title: oneLine(path, 1000) }, h("span", { class: "kind" }, kind), h("bdi", { class: "mono" }, oneLine(inside, 200)));
}

const facts = (...texts) => h("span", { class: "muted" }, texts.filter(Boolean).join(" · "));

function snapshotNode(snapshot, { load, file }) {
  const refs = snapshot.refs.map((name) => h("span", { class: "ref branch" }, h("bdi", {}, oneLine(name, 40))));
  const below = async () => {
    const query = { snapshot: snapshot.id };
    const first = await load(query);
    return [h("p", {}, file(snapshot.path, "manifest list"), facts(plural(first.total, "manifest"))), pages(first, (after) => load({ ...query, after }), (manifest) => manifestNode(manifest, query, { load, file }), "manifest")];
  };
  return node([h("span", { class: "kind" }, "snapshot"), h("span", { class: "mono" }, snapshot.id), ...refs, facts(snapshot.operation, when(snapshot.time_ms))], below);
}

function manifestNode(manifest, above, { load, file }) {
  const query = { ...above, manifest: manifest.at };
  const changes = [manifest.added ? `+${count(manifest.added)}` : "", manifest.deleted ? `−${count(manifest.deleted)}` : "", manifest.existing ? `${count(manifest.existing)} existing` : ""].filter(Boolean).join(" ");
  const known = manifest.added_rows === null || manifest.existing_rows === null ? null : manifest.added_rows + manifest.existing_rows;
  const bounds = manifest.partitions.filter((each) => each.lower !== null || each.upper !== null).map((each) => h("span", { class: "range" }, h("bdi", {}, oneLine(each.name, 40)), " ", range(each)));
  const below = async () => {
    const first = await load(query);
    return [pages(first, (after) => load({ ...query, after }), (entry) => fileNode(entry, query, { load, file }), "file")];
  };
  return node([file(manifest.path, manifest.content === "data" ? "manifest" : "delete manifest"), facts(`${changes || "0"} files`, known === null ? "" : plural(known, "row"), bytes(manifest.length), `sequence ${manifest.sequence}`, `spec ${manifest.spec_id}`), ...bounds], below);
}

function range({ lower, upper }) {
  if (lower === upper) return h("bdi", {}, oneLine(lower ?? "null", 60));
  return [h("bdi", {}, oneLine(lower ?? "?", 60)), " to ", h("bdi", {}, oneLine(upper ?? "?", 60))];
}

function fileNode(entry, above, { load, file }) {
  const query = { ...above, file: entry.at };
  const kind = entry.content === "data" ? "data file" : entry.content.replace(/s$/, "");
  const about = entry.equality_ids?.length ? `by columns ${entry.equality_ids.join(", ")}` : "";
  const below = async () => {
    const { columns, total } = await load(query);
    if (!columns.length) return [h("p", { class: "muted" }, "The manifest has no statistics of its columns.")];
    return [columnsTable(columns), total > columns.length ? h("p", { class: "muted" }, `${plural(total - columns.length, "further column")}.`) : ""];
  };
  return node([file(entry.path, kind), entry.partition ? h("bdi", { class: "range" }, oneLine(entry.partition, 120)) : null, facts(plural(entry.records, "row"), bytes(entry.bytes), entry.format, entry.status, `sequence ${entry.sequence}`, about)], below);
}

function columnsTable(columns) {
  const bound = (text) => h("td", { class: "mono bound", title: text && text.length > 40 ? oneLine(text, 600) : null }, text === null ? h("span", { class: "muted" }, "–") : h("bdi", {}, oneLine(text, 80)));
  const line = (column) =>
    h("tr", {},
      h("td", { class: "right number" }, column.id),
      h("th", { scope: "row" }, column.name === null ? h("span", { class: "muted" }, "not in the schema any more") : h("bdi", {}, oneLine(column.name, 80))),
      h("td", { class: "mono" }, column.type ?? ""),
      bound(column.lower),
      bound(column.upper),
      h("td", { class: "right" }, compact(column.values)),
      h("td", { class: "right" }, compact(column.nulls)),
      h("td", { class: "right" }, column.nans === null ? "" : compact(column.nans)),
    );
  const heads = [{ title: "Id", right: true }, { title: "Column" }, { title: "Type" }, { title: "Lower bound" }, { title: "Upper bound" }, ...["Values", "Nulls", "NaNs"].map((title) => ({ title, right: true }))];
  return plainTable("Columns of the file", heads, columns.map(line), "bounds");
}
