// SQL as text: its words, the tables that it names, and changes to it. Nothing here touches the page.

export const KEYWORDS = "SELECT FROM WHERE GROUP BY ALL HAVING ORDER LIMIT OFFSET WITH AS ON USING JOIN LEFT RIGHT FULL INNER OUTER CROSS SEMI ANTI ASOF LATERAL UNION EXCEPT INTERSECT DISTINCT AND OR NOT IN IS NULL LIKE ILIKE BETWEEN EXISTS CASE WHEN THEN ELSE END CAST TRUE FALSE ASC DESC NULLS FIRST LAST OVER PARTITION ROWS RANGE WINDOW QUALIFY EXCLUDE REPLACE COLUMNS FILTER SAMPLE AT VERSION TIMESTAMP DATE INTERVAL VALUES EXPLAIN ANALYZE DESCRIBE SUMMARIZE PIVOT UNPIVOT RECURSIVE".split(" ");

export const FUNCTIONS = "abs arg_max arg_min approx_count_distinct array_agg avg bool_and bool_or ceil coalesce concat concat_ws contains corr count count_if current_date date_diff date_part date_trunc day dayname dense_rank epoch epoch_ms extract first_value floor format generate_series greatest hash histogram hour ifnull json_extract_string lag last_value lead least left len length lower lpad ltrim make_date max md5 median min minute mode month monthname nearest ntile nullif percent_rank position quantile_cont rank regexp_extract regexp_matches regexp_replace replace reverse right round row_number rpad rtrim second split_part starts_with stddev strftime string_agg strptime substring sum trim try_cast unnest upper variance week year list_aggregate list_contains list_distance list_filter list_sort list_transform array_cosine_distance".split(" ");

const WORDS = new Set(KEYWORDS);
const CALLS = new Set(FUNCTIONS);
const TOKEN = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|("(?:[^"]|"")*(?:"|$))|(\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_$]*)|(\s+)|([\s\S])/guy;
const KINDS = ["comment", "string", "name", "number", "word", "space", "sign"];

// The tokens of a text: {kind, text, at}; keywords and known functions have these kinds.
export function tokens(sql) {
  return Array.from(sql.matchAll(TOKEN), (match) => {
    const kind = KINDS[match.slice(1).findIndex((part) => part !== undefined)];
    const text = match[0];
    const isCall = () => CALLS.has(text.toLowerCase()) && /^\s*\(/.test(sql.slice(match.index + text.length, match.index + text.length + 9));
    return { kind: kind === "word" ? (WORDS.has(text.toUpperCase()) ? "keyword" : isCall() ? "function" : "name") : kind, text, at: match.index };
  });
}

// A name as SQL has to write it: with quotes if it is not plain, or is a keyword.
export function quotedName(part) {
  return /^[a-z_][a-z0-9_]*$/.test(part) && !WORDS.has(part.toUpperCase()) ? part : `"${part.replaceAll('"', '""')}"`;
}

export function qualified(table) {
  return [...table.namespace, table.name].map(quotedName).join(".");
}

export function text(value) {
  return `'${value.replaceAll("'", "''")}'`;
}

// Names with dots: {parts, at, end, alias}, and the clause AT (...) that follows, if any.
export function chains(sql) {
  const seen = tokens(sql).filter((token) => token.kind !== "space" && token.kind !== "comment");
  const isName = (token) => token && (token.kind === "name" || token.kind === "function" || token.kind === "keyword");
  const found = [];
  for (let at = 0; at < seen.length; at++) {
    if (!isName(seen[at]) || seen[at + 1]?.text !== ".") continue;
    const parts = [bare(seen[at].text)], start = seen[at].at;
    while (seen[at + 1]?.text === "." && isName(seen[at + 2])) parts.push(bare(seen[(at += 2)].text));
    const chain = { parts, at: start, end: seen[at].at + seen[at].text.length, travel: null, alias: null };
    let next = at + 1;
    if (seen[next]?.text.toUpperCase() === "AT" && seen[next + 1]?.text === "(") {
      let close = next + 2;
      while (seen[close] && seen[close].text !== ")") close++;
      if (seen[close]) {
        chain.travel = { end: seen[close].at + 1, version: seen.slice(next + 2, close).at(-1)?.text ?? null };
        next = close + 1;
      }
    }
    if (seen[next]?.text.toUpperCase() === "AS") next++;
    if (seen[next]?.kind === "name") chain.alias = bare(seen[next].text);
    found.push(chain);
  }
  return found;
}

function bare(word) {
  return word.startsWith('"') ? word.slice(1, word.endsWith('"') && word.length > 1 ? -1 : undefined).replaceAll('""', '"') : word;
}

// The known tables that a query names, each once. `known`: tables by their dotted names.
export function tablesOf(sql, known) {
  const named = chains(sql).map((chain) => known.get(chain.parts.join("."))).filter(Boolean);
  return [...new Set(named)];
}

// The query with a table as of a snapshot wherever it stands, or as it is now (null).
export function travel(sql, table, snapshot) {
  const name = [...table.namespace, table.name].join(".");
  let result = sql;
  for (const chain of chains(sql).filter((chain) => chain.parts.join(".") === name).reverse()) {
    const clause = snapshot === null ? "" : ` AT (VERSION => ${snapshot})`;
    result = result.slice(0, chain.end) + clause + result.slice(chain.travel?.end ?? chain.end);
  }
  return result;
}
