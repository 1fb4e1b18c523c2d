// The partitions of a table as a heat map, and as a list that can be searched and sorted. Cells of one shade are one
// path, so thousands of them are a handful of elements.

import { get, tablePath } from "./api.js";
import { command, commandLine, h, icon, s } from "./dom.js";
import { ROWS_ABOUT, bytes, compact, count, oneLine, plural } from "./format.js";
import { Grid } from "./grid.js";
import { choice, unread } from "./parts.js";
import { bindMore } from "./shell.js";

const SHADES = 6, GAP = 2;
const MEASURES = {
  bytes: ["Bytes", bytes, "Bytes of data and delete files"],
  rows: ["Rows", compact, ROWS_ABOUT],
  files: ["Files", compact, "Data files"],
  average: ["Average file", bytes, "Bytes per data file"],
  deletes: ["Delete files", compact, "Delete files"],
};

export async function partitionsTab(table, body, { signal }) {
  const answer = await get(tablePath(table, "partitions"), { signal });
  const specs = answer.specs.map(readSpec);
  const partial = unread(answer);
  if (!specs.length) return body.replaceChildren(h("p", { class: "muted" }, "No snapshot yet: nothing was written."));
  const holder = h("div", { class: "partitions" });
  const open = (spec) => holder.replaceChildren(...(spec.fields.length ? drawSpec(spec) : drawWhole(table, spec)));
  const chosen = specs.find((spec) => spec.current) ?? specs[0];
  const picker = specs.length > 1 ? choice("Partition spec", specs.map((spec) => [spec, `${title(spec)}${spec.current ? "" : " (older files)"}`]), chosen, open) : null;
  body.classList.add("full");
  body.replaceChildren(h("div", { class: "partitions-page" }, ...[picker ? h("div", { class: "specs" }, picker) : null, partial].filter(Boolean), holder, h("footer", { class: "page-foot" }, command(commandLine("maintain", [table.label], "--dry-run")))));
  open(chosen);
}

function readSpec(spec) {
  const shown = spec.fields.map((field, at) => at).filter((at) => spec.fields[at].transform !== "void");
  const rows = spec.values.map((values, at) => ({
    at,
    values: shown.map((index) => values[index] ?? "null"),
    label: shown.map((index) => `${spec.fields[index].name}=${values[index] ?? "null"}`).join(" / "),
    bytes: spec.bytes[at],
    rows: spec.rows[at],
    files: spec.files[at],
    deletes: spec.deletes[at],
    average: spec.files[at] ? spec.bytes[at] / spec.files[at] : null,
  }));
  return { ...spec, fields: shown.map((index) => spec.fields[index]), rows };
}

function title(spec) {
  if (!spec.fields.length) return "Not partitioned";
  return spec.fields.map(({ transform, column, name }) => (transform === "identity" ? (column ?? name) : `${transform}(${column ?? name})`)).join(", ");
}

// The values of a partition, each isolated from the direction of the others.
function named(spec, row) {
  return h("span", {}, row.values.map((value, at) => [at ? " / " : "", h("bdi", {}, oneLine(spec.fields[at].name, 60)), "=", h("bdi", {}, oneLine(value, 120))]));
}

// Files without a partition: one line says it all.
function drawWhole(table, spec) {
  const { files, bytes: size, rows, deletes } = spec.rows[0];
  const about = spec.current ? "This table is not partitioned." : "These files were written before the table was partitioned.";
  return [h("div", { class: "whole" }, h("p", {}, about), h("p", { class: "muted" }, `${plural(files, "data file")}${deletes ? `, ${plural(deletes, "delete file")}` : ""}, ${bytes(size)}, ${plural(rows, "row")}.`), h("p", { class: "muted" }, "Queries on such files read what the bounds of their columns do not exclude: the tab Metadata shows them."))];
}

function drawSpec(spec) {
  let measure = "bytes", sort = { key: "at", down: false };
  const note = h("p", { class: "status", role: "status" });
  const legend = h("p", { class: "legend muted" });
  const search = h("input", { type: "search", "aria-label": "Search partitions", placeholder: "Search partitions", autocomplete: "off", spellcheck: "false" });
  const map = new HeatMap(spec, { onPoint: (row) => say(row), onChoose: (row) => reveal(row) });
  const grid = new Grid({
    label: "Partitions",
    columns: [
      { key: "at", title: "Partition", width: "minmax(160px, 1fr)", sort: "number", cell: (row) => h("span", { title: row.label.length > 60 ? oneLine(row.label, 600) : null }, named(spec, row)) },
      ...Object.entries(MEASURES).map(([key, [label, show, about]], index) => ({ key, title: label, width: key === "average" || key === "deletes" ? "96px" : "84px", right: true, least: [0, 360, 460, 560, 660][index], sort: "number", about, cell: (row) => (key === "deletes" && !row.deletes ? "" : show(row[key])) })),
    ],
    onOpen: (row) => map.mark(row),
    onSort: (column) => {
      sort = { key: column.key, down: sort.key === column.key ? !sort.down : column.key !== "at" };
      list();
    },
    empty: () => "No partition matches.",
  });
  const summary = `${plural(spec.partitions, "partition")}${spec.rows.length < spec.partitions ? `, the largest ${count(spec.rows.length)} are shown` : ""}`;
  const say = (row) => { note.replaceChildren(...(row ? [named(spec, row), `: ${bytes(row.bytes)}, ${plural(row.rows, "row")}, ${plural(row.files, "data file")}${row.deletes ? `, ${plural(row.deletes, "delete file")}` : ""}`] : [summary])); };
  const list = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = spec.rows.filter((row) => words.every((word) => row.label.toLowerCase().includes(word)));
    const way = sort.down ? -1 : 1;
    grid.setRows(rows.sort((a, b) => way * ((a[sort.key] ?? -1) - (b[sort.key] ?? -1)) || a.at - b.at), { sort });
  };
  const reveal = (row) => {
    search.value = "";
    list();
    grid.move(grid.rows.indexOf(row));
    grid.view.focus({ preventScroll: true });
    map.mark(row);
  };
  const paint = (key) => { measure = key; legend.replaceChildren(...map.paint(measure)); };
  search.addEventListener("input", list);
  bindMore({ "/": () => { search.focus(); search.select(); }, j: () => grid.step(1), k: () => grid.step(-1) });
  say(null);
  paint(measure);
  list();
  return [
    h("div", { class: "heat-head" }, h("h2", {}, title(spec)), note, choice("Colour by", Object.entries(MEASURES).map(([key, [label, , about]]) => [key, label, about]), measure, paint)),
    h("div", { class: "heat-frame" }, map.element),
    h("div", { class: "heat-foot" }, legend, h("div", { class: "search" }, icon("search"), search, h("kbd", { "aria-hidden": "true" }, "/"))),
    grid.element,
  ];
}

// Cells in the order of the values. Of two fields, the values of the second have a line each, if they are few.
class HeatMap {
  constructor(spec, { onPoint, onChoose }) {
    Object.assign(this, { rows: spec.rows, onPoint, onChoose, marked: null });
    this.svg = s("svg", { class: "heat", role: "img", "aria-label": `${plural(spec.rows.length, "partition")} as a heat map; the list has the numbers` });
    this.element = h("div", { class: "heat-box" }, this.svg);
    this.cross = crossed(spec);
    this.shades = spec.rows.map(() => 0);
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.svg.addEventListener("mousemove", (event) => this.onPoint(this.at(event)));
    this.svg.addEventListener("mouseleave", () => this.onPoint(null));
    this.svg.addEventListener("click", (event) => { const row = this.at(event); if (row) this.onChoose(row); });
  }

  paint(measure) {
    const known = this.rows.map((row) => row[measure] ?? 0).filter((value) => value > 0).sort((a, b) => a - b);
    const limits = Array.from({ length: SHADES - 1 }, (_, at) => known[Math.floor((known.length * (at + 1)) / SHADES)]);
    this.shades = this.rows.map((row) => (row[measure] > 0 ? 1 + limits.filter((limit) => row[measure] >= limit && limit > known[0]).length : 0));
    this.draw();
    const show = MEASURES[measure][1];
    if (!known.length) return [h("span", {}, "Nothing to show: all are 0.")];
    const swatches = Array.from({ length: SHADES }, (_, at) => s("svg", { class: "cell-swatch", viewBox: "0 0 10 10", "aria-hidden": "true" }, s("rect", { width: 10, height: 10, rx: 2, class: `heat${at + 1}` })));
    return [h("span", {}, show(known[0]), ...swatches, show(known.at(-1))), h("span", {}, "a sixth of the partitions per shade")];
  }

  draw() {
    const width = Math.floor(this.element.clientWidth);
    if (!width) return;
    const cells = this.rows.length;
    this.columns = this.cross ? this.cross.columns : null;
    const room = (size) => Math.max(1, Math.floor((width + GAP) / (size + GAP)));
    this.size = this.cross ? Math.max(5, Math.min(20, Math.floor((width + GAP) / this.columns) - GAP)) : (cells <= 240 ? 20 : cells <= 1500 ? 12 : 8);
    this.columns ??= Math.min(room(this.size), cells);
    this.placed = new Map();
    const paths = Array.from({ length: SHADES + 1 }, () => []);
    const step = this.size + GAP;
    this.rows.forEach((row, index) => {
      const [x, y] = this.place(index);
      this.placed.set(y * this.columns + x, row);
      paths[this.shades[index]].push(`M${x * step} ${y * step}h${this.size}v${this.size}h-${this.size}z`);
    });
    const lines = this.cross ? this.cross.lines : Math.ceil(cells / this.columns);
    const [wide, tall] = [this.columns * step, lines * step];
    for (const [name, value] of [["width", wide], ["height", tall], ["viewBox", `0 0 ${wide} ${tall}`]]) this.svg.setAttribute(name, value);
    this.svg.replaceChildren(...paths.map((parts, shade) => s("path", { d: parts.join(""), class: `heat${shade}` })), this.outline());
  }

  place(index) {
    return this.cross ? this.cross.places[index] : [index % this.columns, Math.floor(index / this.columns)];
  }

  at(event) {
    const box = this.svg.getBoundingClientRect(), step = this.size + GAP;
    const [x, y] = [Math.floor((event.clientX - box.left) / step), Math.floor((event.clientY - box.top) / step)];
    return x < this.columns ? (this.placed.get(y * this.columns + x) ?? null) : null;
  }

  mark(row) {
    this.marked = row;
    this.svg.querySelector(".marked")?.remove();
    this.svg.append(this.outline());
  }

  outline() {
    if (!this.marked) return s("rect", { class: "marked", visibility: "hidden" });
    const [x, y] = this.place(this.rows.indexOf(this.marked)), step = this.size + GAP;
    return s("rect", { class: "marked", x: x * step - 1, y: y * step - 1, width: this.size + 2, height: this.size + 2 });
  }
}

// The places of the cells if the partitions of two fields make a table that is mostly full; else null.
function crossed({ fields, rows }) {
  if (fields.length !== 2) return null;
  const [across, down] = [0, 1].map((index) => new Map([...new Set(rows.map((row) => row.values[index]))].map((value, at) => [value, at])));
  if (down.size > 32 || down.size < 2 || across.size > 240 || across.size * down.size > 2.5 * rows.length) return null;
  return { columns: across.size, lines: down.size, places: rows.map((row) => [across.get(row.values[0]), down.get(row.values[1])]) };
}
