// The files of a table by size, and what compaction would do about them.

import { get, tablePath } from "./api.js";
import { command, commandLine, h, problem } from "./dom.js";
import { bytes, count, oneLine, plural } from "./format.js";
import { bar, binarySize, pairs, plainTable, section, unread } from "./parts.js";

export async function filesTab(table, body, { signal }) {
  const files = await get(tablePath(table, "files"), { signal });
  const histogram = h("div", {}, drawHistogram(files, null));
  const advice = h("div", {}, h("p", { class: "muted loading" }, "Planning…"));
  const groups = h("div");
  const partial = unread(files);
  body.replaceChildren(
    h("div", { class: "two" },
      h("div", {}, section("Files by size", histogram)),
      h("div", {},
        section("In all", pairs([["Data files", count(files.data_files)], ["Delete files", count(files.delete_files)], ["Rows in data files", count(files.rows)], ["Bytes", bytes(files.bytes)], ["Manifests", count(files.manifests)]]), partial ?? ""),
        section("Compaction", advice, command(commandLine("maintain", [table.label], "--only compact --dry-run"))),
      ),
    ),
    groups,
  );
  if (!files.data_files) return advice.replaceChildren(h("p", {}, "No data files: nothing to do."));
  try {
    const plan = await get(tablePath(table, "compaction"), { signal });
    histogram.replaceChildren(drawHistogram(files, plan.files_before ? plan.change : null));
    advice.replaceChildren(...inWords(plan));
    if (plan.groups.length) groups.replaceChildren(drawGroups(plan));
  } catch (error) {
    if (error.name === "AbortError" || error.status === 401) throw error;
    advice.replaceChildren(problem(error));
  }
}

function drawHistogram({ buckets }, change) {
  const after = buckets.map((bucket, at) => Math.max(0, bucket.data + (change?.[at] ?? 0)));
  const most = Math.max(1, ...buckets.map((bucket) => bucket.data + bucket.deletes), ...(change ? after : []));
  const limits = ["0", ...buckets.slice(0, -1).map((bucket) => binarySize(bucket.below))];
  const label = (bucket, at) => (at === buckets.length - 1 ? `from ${limits[at]}` : at === 0 ? `below ${binarySize(bucket.below)}` : `${limits[at]} – ${binarySize(bucket.below)}`);
  const line = (bucket, at) =>
    h("tr", {},
      h("th", { scope: "row" }, label(bucket, at)),
      h("td", { class: "bar" }, bar("hist", [[bucket.data / most, "data"], [bucket.deletes / most, "deletes"]]), change ? bar("hist thin", [[after[at] / most, "after"]]) : null),
      h("td", { class: "right number" }, count(bucket.data)),
      change ? h("td", { class: "right number" }, count(after[at])) : null,
      h("td", { class: "right number" }, bucket.deletes ? count(bucket.deletes) : ""),
      h("td", { class: "right number" }, bytes(bucket.bytes)),
    );
  const titles = ["Size", "", "Data", ...(change ? ["After"] : []), "Deletes", "Bytes"];
  const head = h("tr", {}, titles.map((title, at) => (title ? h("th", { scope: "col", class: at > 1 ? "right" : null, title: title === "After" ? "Data files after compaction, about" : null }, title) : h("td"))));
  const legend = h("p", { class: "legend muted" }, key("data", "data files"), key("deletes", "delete files"), change ? key("after", "data files after compaction") : null);
  return h("div", {}, h("table", { class: "histogram" }, h("thead", {}, head), h("tbody", {}, buckets.map(line))), legend);
}

function key(kind, text) {
  return h("span", {}, bar("swatch", [[1, kind]]), text);
}

function inWords(plan) {
  const target = binarySize(plan.target_bytes);
  const left = plan.left.map(({ reason, files }) => h("p", { class: "muted" }, `${plural(files, "file")} would be left as found: each ${reason}.`));
  if (!plan.files_before) return [h("p", {}, `Nothing to gain from compaction (target ${target}).`), ...left];
  const saved = plan.files_before - plan.files_after;
  return [
    h("p", {}, `A run would rewrite ${plural(plan.files_before, "file")} of ${bytes(plan.bytes)} in ${plural(plan.group_count, "group")} into about ${count(plan.files_after)}, for the target of ${target}${saved > 0 ? `: ${plural(saved, "file")} fewer` : ""}.`),
    ...left,
  ];
}

function drawGroups(plan) {
  const place = (group) => (group.older_spec ? h("span", {}, "of an older partition spec ", h("span", { class: "muted" }, "(partitioned again)")) : group.partition ? h("bdi", { class: "mono" }, oneLine(group.partition, 200)) : h("span", { class: "muted" }, "the whole table"));
  const line = (group) =>
    h("tr", {},
      h("th", { scope: "row" }, place(group)),
      h("td", { class: "right" }, count(group.files)),
      h("td", { class: "right" }, count(group.files_after)),
      h("td", { class: "right" }, bytes(group.bytes)),
      h("td", { class: "right" }, count(group.rows)),
      h("td", { class: "right" }, group.with_deletes ? count(group.with_deletes) : ""),
    );
  const heads = [{ title: "Partition" }, ...["Files", "After", "Bytes", "Rows", "With deletes"].map((title) => ({ title, right: true }))];
  const more = plan.group_count - plan.groups.length;
  return section("Groups that would be rewritten", plainTable("Groups that would be rewritten", heads, plan.groups.map(line), "groups"), more ? h("p", { class: "muted" }, `${plural(more, "further group")} would save less.`) : "");
}
