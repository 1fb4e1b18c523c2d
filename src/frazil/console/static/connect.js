// What each engine needs to reach this catalog, to be pasted.

import { apiPath, get } from "./api.js";
import { command, commandLine, copyButton, h, problem } from "./dom.js";
import { bindKeys, drawNav, go, show } from "./shell.js";

const NAMES = { trino: "Trino", spark: "Spark", pyiceberg: "PyIceberg", duckdb: "DuckDB", daft: "Daft", polars: "Polars", ibis: "Ibis", dlt: "dlt", dbt: "dbt", clickhouse: "ClickHouse", sail: "Sail", flink: "Flink", "kafka-connect": "Kafka Connect", go: "Go", rust: "Rust", env: "Environment" };

export async function page({ warehouse, parts }, signal) {
  drawNav("connect");
  bindKeys({ Escape: () => go("tables", warehouse) });
  const body = h("div", { class: "connect" }, h("p", { class: "muted loading" }, "Loading…"));
  show("Connect", h("header", { class: "page-head" }, h("h1", {}, "Connect"), h("p", { class: "status" }, "Configuration for other engines. Keys and tokens are named by their variables.")), body);
  try {
    const answer = await get(apiPath(warehouse, "connect"), { signal });
    const chosen = answer.engines.find((each) => each.engine === parts[0]) ?? answer.engines[0];
    const list = h("nav", { class: "engines", "aria-label": "Engines" }, answer.engines.map(({ engine }) => h("button", { type: "button", "aria-current": engine === chosen.engine ? "true" : null, onclick: () => go("connect", warehouse, engine) }, NAMES[engine] ?? engine)));
    const code = h("code", {}, chosen.text);
    body.replaceChildren(list, h("div", { class: "snippet" }, h("div", { class: "bar-line" }, command(commandLine("connect", [chosen.engine]))), chosen.text === null ? problem({ title: "Not for this warehouse", message: chosen.problem }) : h("div", { class: "code" }, copyButton(code, "Copy the configuration"), h("pre", { tabindex: 0 }, code))));
  } catch (error) {
    if (error.name !== "AbortError" && error.status !== 401) body.replaceChildren(problem(error));
  }
}
