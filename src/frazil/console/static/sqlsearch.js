// A form that writes a vector search: by text where the server's project has an embedder, or by the vector of a row.

import { h } from "./dom.js";
import { oneLine } from "./format.js";
import { qualified, quotedName, text } from "./sqltext.js";

export function searchForm(tables, columnsOf, onSearch) {
  const names = tables.map((table) => [...table.namespace, table.name].join("."));
  const table = h("select", { class: "field" }, names.map((name, at) => h("option", { value: at }, oneLine(name, 60))));
  const vector = h("select", { class: "field" });
  const key = h("select", { class: "field" });
  const value = h("input", { type: "text", autocomplete: "off", required: true });
  const number = h("input", { type: "number", class: "field", min: 1, max: 1000, value: 10 });
  const by = h("select", { class: "field", onchange: () => draw() }, h("option", { value: "row" }, "the vector of a row"), h("option", { value: "text" }, "text"));
  const note = h("p", { class: "muted", role: "status" });
  const field = (label, control) => h("label", { class: "pick" }, label, control);
  const where = field("whose", key);
  const is = h("span", {}, "is");
  const valued = h("label", { class: "pick grow" }, is, value);
  const form = h("form", { class: "search-form" }, field("In", table), field("vectors of", vector), field("near to", by), where, valued, field("rows", number), h("button", { type: "submit", class: "primary" }, "Search"), note);
  let columns = [];

  const draw = () => {
    const byText = by.value === "text";
    where.hidden = byText;
    is.textContent = byText ? "text" : "is";
    note.textContent = vector.options.length ? (byText ? "Text needs an embedder in the project of the folder that the server runs in." : "") : "This table has no column of vectors.";
  };
  const load = async () => {
    columns = await columnsOf(tables[Number(table.value)]);
    const fill = (select, fits) => select.replaceChildren(...columns.filter(fits).map((column) => h("option", { value: column.name }, oneLine(column.name, 40))));
    fill(vector, (column) => /^list<(float|double)>$/.test(column.type));
    fill(key, (column) => !/[<]|^struct/.test(column.type));
    draw();
  };
  table.addEventListener("change", load);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!vector.value) return;
    const chosen = tables[Number(table.value)];
    const kind = columns.find((column) => column.name === key.value)?.type ?? "string";
    const plain = /^(int|long|float|double|decimal)/.test(kind) && /^-?\d+(\.\d+)?$/.test(value.value);
    const sought = by.value === "text" ? text(value.value) : `(SELECT ${quotedName(vector.value)} FROM ${qualified(chosen)} WHERE ${quotedName(key.value)} = ${plain ? value.value : text(value.value)} LIMIT 1)`;
    onSearch(`SELECT * EXCLUDE (${quotedName(vector.value)})\nFROM nearest(${text(qualified(chosen).replaceAll('"', ""))}, ${text(vector.value)},\n  ${sought}, k := ${Number(number.value)})`);
  });
  if (tables.length) load();
  else note.textContent = "There are no tables yet.";
  return form;
}
