// The vector indexes of a table: what they cover, how large they are, and how to build and repair them.

import { get, tablePath } from "./api.js";
import { command, commandLine, h } from "./dom.js";
import { bytes, count, oneLine, plural } from "./format.js";
import { bar, pairs, section } from "./parts.js";

const STATES = {
  current: ["fine", "Covers every file"],
  behind: ["due", "Behind"],
  damaged: ["error", "Damaged"],
  unusable: ["error", "Unusable"],
};

export async function indexesTab(table, body, { signal }) {
  const { indexes, declared } = await get(tablePath(table, "indexes"), { signal });
  const vectors = table.fields.filter((field) => /^list<(float|double)>$/.test(field.type)).map((field) => field.path.join("."));
  body.replaceChildren(
    ...indexes.map((index) => drawIndex(table, index)),
    declared.length ? section("Declared, and not built yet", declared.map((each) => h("p", {}, h("bdi", {}, oneLine(each.name, 80)), h("span", { class: "muted" }, " of column "), h("bdi", {}, oneLine(each.column, 80)), h("span", { class: "muted" }, `, ${each.metric}`))), command(commandLine("maintain", [table.label], "--only indexes"))) : "",
    indexes.length || declared.length ? "" : h("p", { class: "muted" }, vectors.length ? "No vector index yet: a search compares every row." : "This table has no column of vectors (a list of float or double) to index."),
    section("On the command line", command(commandLine("index list", [table.label])), vectors.slice(0, 5).map((column) => command(commandLine("index create", [table.label, column])))),
  );
}

function drawIndex(table, index) {
  const [level, words] = STATES[index.state];
  const covered = index.files === null ? null : index.files - index.uncovered;
  const share = index.files ? covered / index.files : 1;
  const state = index.state === "behind" ? `${plural(index.uncovered, "data file")} not covered yet: a search compares their rows one by one` : words;
  return section(
    h("bdi", {}, oneLine(index.name, 120)),
    h("p", { class: "lead" }, h("span", { class: `health ${level}` }, h("i", { "aria-hidden": "true" }), state)),
    ...index.problems.map((problem) => h("p", { class: "muted" }, oneLine(problem, 600))),
    h("div", { class: "index-facts" }, pairs([
      ["Column", index.column === null ? "dropped" : h("bdi", {}, oneLine(index.column, 120))],
      ["Metric", index.metric],
      ["Dimension", count(index.dimension)],
      ["Vectors", count(index.vectors)],
      ["Coverage", covered === null ? "–" : h("div", {}, `${count(covered)} of ${plural(index.files, "data file")}`, bar("hist cover", [[share, "after"]]))],
      ["Segments", plural(index.segments.length, "segment")],
      ["Size", bytes(index.bytes)],
      ["Lists per search", count(index.probes)],
      ["Record", index.version ? `version ${index.version}` : "only a copy in the statistics of the table is left"],
      ...(index.gone ? [["Of older snapshots", plural(index.gone, "file")]] : []),
    ])),
    command(commandLine("index refresh", [table.label, index.name])),
    command(commandLine("index check", [table.label, index.name])),
  );
}
