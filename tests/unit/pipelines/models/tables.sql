-- Queries of models, and the tables that they read. A case is a title, a query, and one line of result:
-- `=> names in order of appearance`, or `!! the problem` for what is refused.

-- case: one table
SELECT * FROM silver.orders
=> silver.orders

-- case: each table once, in order of appearance
SELECT * FROM b.two JOIN a.one USING (id) JOIN b.two AS again USING (id)
=> b.two a.one

-- case: a comma is a join
SELECT * FROM a.b, c.d e, f.g AS h
=> a.b c.d f.g

-- case: a CTE is no table
WITH orders AS (SELECT * FROM silver.orders) SELECT * FROM orders
=> silver.orders

-- case: the names of CTEs have no case
WITH Orders AS (SELECT * FROM silver.orders) SELECT * FROM ORDERS
=> silver.orders

-- case: a CTE does not hide a table with a namespace
WITH orders AS (SELECT 1 AS id) SELECT * FROM orders JOIN silver.orders USING (id)
=> silver.orders

-- case: a CTE sees those before it
WITH a AS (SELECT * FROM s.x), b AS (SELECT * FROM a) SELECT * FROM b
=> s.x

-- case: a CTE does not see those after it
WITH b AS (SELECT * FROM a), a AS (SELECT * FROM s.x) SELECT * FROM b
=> a s.x

-- case: a CTE does not see itself
WITH a AS (SELECT * FROM a) SELECT * FROM a
=> a

-- case: a recursive CTE sees itself
WITH RECURSIVE n AS (SELECT id FROM s.x UNION ALL SELECT id + 1 FROM n) SELECT * FROM n
=> s.x

-- case: an inner CTE is not seen outside
SELECT * FROM (WITH a AS (SELECT * FROM s.x) SELECT * FROM a) JOIN a
=> s.x a

-- case: an outer CTE is seen inside
WITH a AS (SELECT * FROM s.x) SELECT * FROM s.y WHERE id IN (WITH b AS (SELECT * FROM a) SELECT id FROM b)
=> s.x s.y

-- case: a CTE in a CTE hides the one around it
WITH a AS (SELECT * FROM s.x), b AS (WITH a AS (SELECT * FROM s.y) SELECT * FROM a) SELECT * FROM a JOIN b
=> s.x s.y

-- case: a subquery
SELECT * FROM (SELECT * FROM s.x) AS y
=> s.x

-- case: unions
SELECT id FROM s.x UNION ALL SELECT id FROM s.y UNION SELECT id FROM s.z
=> s.x s.y s.z

-- case: except and intersect
(SELECT id FROM s.x MINUS SELECT id FROM s.y) INTERSECT SELECT id FROM s.z
=> s.x s.y s.z

-- case: a subquery in a condition
SELECT * FROM s.x WHERE id IN (SELECT id FROM s.y) AND EXISTS (SELECT 1 FROM s.z WHERE z.id = x.id)
=> s.x s.y s.z

-- case: a scalar subquery
SELECT (SELECT max(ts) FROM s.y) AS newest FROM s.x
=> s.y s.x

-- case: a lateral view is no table
SELECT * FROM s.x LATERAL VIEW OUTER explode(items) t AS item
=> s.x

-- case: a lateral subquery
SELECT * FROM s.x, LATERAL (SELECT * FROM s.y WHERE y.id = x.id) AS z
=> s.x s.y

-- case: a table function is no table
SELECT * FROM range(10) JOIN s.x USING (id) JOIN explode(array(1, 2)) AS t(id)
=> s.x

-- case: values are no table
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, name) JOIN s.x USING (id)
=> s.x

-- case: no table at all
SELECT explode(sequence(1, 3)) AS n
=>

-- case: names in backticks
SELECT * FROM `silver`.`my orders` JOIN silver.`orders` USING (id)
=> silver.my orders|silver.orders

-- case: a namespace of two levels
SELECT * FROM lake.silver.orders
=> lake.silver.orders

-- case: a name of four parts
SELECT * FROM a.b.c.d
=> a.b.c.d

-- case: comments and texts are not read
SELECT 'FROM s.no' AS text, "JOIN s.no" AS other /* FROM s.no */ FROM s.x -- JOIN s.no
=> s.x

-- case: pivot
SELECT * FROM s.x PIVOT (sum(amount) FOR month IN (1, 2))
=> s.x

-- case: joins in parentheses
SELECT * FROM (s.x LEFT JOIN s.y USING (id)) JOIN s.z USING (id)
=> s.x s.y s.z

-- case: a sample
SELECT * FROM s.x TABLESAMPLE (10 PERCENT) REPEATABLE (1) AS t
=> s.x

-- case: a hint names an alias
SELECT /*+ BROADCAST(y) */ * FROM s.x JOIN s.y USING (id)
=> s.x s.y

-- case: FROM first
FROM s.x SELECT id
=> s.x

-- case: a query as the argument of a function
SELECT * FROM score(TABLE(SELECT * FROM s.x))
=> s.x

-- case: pipes
FROM s.x |> WHERE id > 1 |> AGGREGATE sum(a) AS a GROUP BY id
=> s.x

-- case: a column of the same name as a table
SELECT x.y.z FROM s.x
=> s.x

-- case: a semicolon at the end
SELECT * FROM s.x;
=> s.x

-- case: a version
SELECT * FROM s.x VERSION AS OF 3
!! version

-- case: a time
SELECT * FROM s.x TIMESTAMP AS OF '2026-01-01'
!! version

-- case: two statements
SELECT 1; SELECT 2
!! statements

-- case: an insert
INSERT INTO s.x SELECT * FROM s.y
!! not-a-query

-- case: a table is created
CREATE TABLE s.x AS SELECT * FROM s.y
!! not-a-query

-- case: a merge
MERGE INTO s.x USING s.y ON x.id = y.id WHEN MATCHED THEN DELETE
!! not-a-query

-- case: a command
SET spark.sql.shuffle.partitions = 2
!! not-a-query

-- case: SELECT INTO
SELECT * INTO s.x FROM s.y
!! not-a-query

-- case: bare values
VALUES (1)
!! not-a-query

-- case: nothing
-- only a comment
!! empty

-- case: a broken text
SELECT * FROM s.x WHERE (id = 1
!! syntax

-- case: no columns
SELECT FROM s.x
!! syntax

-- case: a template
SELECT * FROM {{ ref('orders') }}
!! syntax

-- case: a template of a plain name
SELECT * FROM {{ orders }}
!! parameter

-- case: a parameter
SELECT * FROM s.x WHERE day = :day
!! parameter

-- case: a table as a parameter
SELECT * FROM IDENTIFIER('s.x')
!! identifier

-- case: a table as an argument
SELECT * FROM score(TABLE(s.x))
!! table-argument

-- case: a name in double quotes
SELECT * FROM "s".x
!! quotes

-- case: files
SELECT * FROM parquet.`/data/x`
!! files

-- case: a name with a dot
SELECT * FROM `s.x`.y
!! name
