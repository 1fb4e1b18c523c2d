-- Queries over s.o (id, Amount, ts, items, address), s.c (id, name) and tables without a schema (u.a, u.b).
-- A case is a title, a query, and a line for each column of the result, `name <- its inputs`; `?` is unknown.

-- case: plain columns
SELECT o.id, amount, name FROM s.o o JOIN s.c USING (id)
=> id <- s.o.id | amount <- s.o.Amount | name <- s.c.name

-- case: expressions
SELECT amount * 2 AS twice, concat(name, ts) AS text FROM s.o JOIN s.c ON o.id = c.id
=> twice <- s.o.Amount | text <- s.o.ts s.c.name

-- case: a star
SELECT * FROM s.c
=> id <- s.c.id | name <- s.c.name

-- case: a star without some
SELECT * EXCEPT (items, address) FROM s.o
=> id <- s.o.id | Amount <- s.o.Amount | ts <- s.o.ts

-- case: the column of USING
SELECT id FROM s.o JOIN s.c USING (id)
=> id <- s.o.id s.c.id

-- case: aggregates and windows
SELECT id, count(*) AS n, max(amount) OVER (PARTITION BY ts) AS m, 1 AS one FROM s.o GROUP BY ALL
=> id <- s.o.id | n <- | m <- s.o.Amount s.o.ts | one <-

-- case: CTEs and subqueries
WITH x AS (SELECT id, sum(amount) AS total FROM s.o GROUP BY id) SELECT total, y.name FROM x JOIN (SELECT * FROM s.c) y
=> total <- s.o.Amount | name <- s.c.name

-- case: unions
SELECT id, ts AS x FROM s.o UNION ALL SELECT id, name FROM s.c
=> id <- s.o.id s.c.id | x <- s.o.ts s.c.name

-- case: fields of structs
SELECT s.o.address.city AS city, address.zip FROM s.o
=> city <- s.o.address | zip <- s.o.address

-- case: generators
SELECT e, explode(items) AS f FROM s.o LATERAL VIEW explode(items) t AS e
=> e <- s.o.items | f <- s.o.items

-- case: lambdas
SELECT transform(items, i -> i + amount) AS q FROM s.o
=> q <- s.o.Amount s.o.items

-- case: a scalar subquery
SELECT (SELECT max(name) FROM s.c WHERE c.id = o.id) AS m FROM s.o
=> m <- s.c.name

-- case: an alias is used further on
SELECT id AS a, a + 1 AS b FROM s.o
=> a <- s.o.id | b <- s.o.id

-- case: pivot
SELECT * FROM (SELECT id, amount, ts FROM s.o) PIVOT (sum(amount) FOR ts IN (1 AS one))
=> id <- s.o.id | one <- s.o.Amount

-- case: values and functions are no inputs
SELECT t.a, r.id FROM VALUES (1) AS t(a), range(3) AS r
=> a <- | id <-

-- case: one table without a schema
SELECT x, y + z AS w FROM u.a
=> x <- u.a.x | w <- u.a.y u.a.z

-- case: qualified columns of tables without a schema
SELECT a.x, b.y FROM u.a JOIN u.b USING (id)
=> x <- u.a.x | y <- u.b.y

-- case: a column of either of two tables without a schema
SELECT x, a.y FROM u.a JOIN u.b
=> x <- ? | y <- u.a.y

-- case: a column that the table with a schema has
SELECT amount, z FROM s.o JOIN u.a
=> amount <- s.o.Amount | z <- ?

-- case: a column through a star without a schema
WITH x AS (SELECT * FROM u.a) SELECT x.b, c.name FROM x JOIN s.c
=> b <- ? | name <- s.c.name

-- case: an alias that may be a column
SELECT x AS a, a + 1 AS b FROM u.a
=> a <- ? | b <- ?

-- case: a column of the subquery, or of the query around it
SELECT (SELECT max(x) FROM u.b) AS m FROM u.a
=> m <- ?

-- case: a column that is not there
SELECT nope, id FROM s.o
=> nope <- ? | id <- s.o.id

-- case: a star without a schema
SELECT * FROM u.a
=> ?

-- case: a star of one of two
SELECT a.*, o.id FROM u.a JOIN s.o
=> ?

-- case: the fields of a struct
SELECT address.* FROM s.o
=> ?

-- case: a star without a schema in a union
SELECT * FROM s.c UNION ALL SELECT * FROM u.a
=> id <- ? | name <- ?
