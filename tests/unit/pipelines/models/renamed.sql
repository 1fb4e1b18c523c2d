-- Queries in which `s.x`, `s.y`, `t.x` and `a.b.c` get the names v_sx, v_sy, v_tx and v_abc.
-- A case is a title, a query, and `=> the query with new names`.

-- case: an alias is added
SELECT id FROM s.x WHERE id > 1
=> SELECT id FROM v_sx AS x WHERE id > 1

-- case: an alias is kept
SELECT o.id FROM s.x o JOIN s.y AS p USING (id)
=> SELECT o.id FROM v_sx o JOIN v_sy AS p USING (id)

-- case: qualified columns
SELECT s.x.id, x.name, s.x.address.city, s.x.* FROM s.x ORDER BY s.x.id
=> SELECT x.id, x.name, x.address.city, x.* FROM v_sx AS x ORDER BY x.id

-- case: a column of another alias that looks like the table
SELECT s.x.id FROM s.y AS s
=> SELECT s.x.id FROM v_sy AS s

-- case: an alias hides the name of the table, so the path is one of fields
SELECT s.x.id FROM s.x AS s
=> SELECT s.x.id FROM v_sx AS s

-- case: backticks
SELECT `s`.`x`.`id` FROM `s` . `x`
=> SELECT x.`id` FROM v_sx AS x

-- case: the same last name twice
SELECT s.x.id, t.x.id AS other FROM s.x JOIN t.x ON s.x.id = t.x.id
=> SELECT s_x.id, t_x.id AS other FROM v_sx AS s_x JOIN v_tx AS t_x ON s_x.id = t_x.id

-- case: the same last name as an alias next to it
SELECT s.x.id FROM s.x JOIN s.y AS x ON s.x.id = x.id
=> SELECT s_x.id FROM v_sx AS s_x JOIN v_sy AS x ON s_x.id = x.id

-- case: the same last name in another query
SELECT s.x.id FROM s.x WHERE id IN (SELECT t.x.id FROM t.x)
=> SELECT x.id FROM v_sx AS x WHERE id IN (SELECT x.id FROM v_tx AS x)

-- case: correlated
SELECT * FROM s.x WHERE EXISTS (SELECT 1 FROM s.y WHERE s.y.id = s.x.id)
=> SELECT * FROM v_sx AS x WHERE EXISTS (SELECT 1 FROM v_sy AS y WHERE y.id = x.id)

-- case: correlated with the same last name
SELECT * FROM s.x WHERE EXISTS (SELECT 1 FROM t.x WHERE t.x.id = s.x.id)
=> SELECT * FROM v_sx AS s_x WHERE EXISTS (SELECT 1 FROM v_tx AS x WHERE x.id = s_x.id)

-- case: a lateral view after the name
SELECT item FROM s.x LATERAL VIEW explode(s.x.items) t AS item
=> SELECT item FROM v_sx AS x LATERAL VIEW explode(x.items) t AS item

-- case: the alias comes after a sample
SELECT * FROM s.x TABLESAMPLE (10 PERCENT) REPEATABLE (7) WHERE id > 1
=> SELECT * FROM v_sx TABLESAMPLE (10 PERCENT) REPEATABLE (7) AS x WHERE id > 1

-- case: a sample with an alias
SELECT * FROM s.x TABLESAMPLE (5 ROWS) z
=> SELECT * FROM v_sx TABLESAMPLE (5 ROWS) z

-- case: the alias comes before a pivot
SELECT * FROM s.x PIVOT (sum(a) FOR m IN (1, 2))
=> SELECT * FROM v_sx AS x PIVOT (sum(a) FOR m IN (1, 2))

-- case: CTEs
WITH x AS (SELECT * FROM s.x) SELECT x.id FROM x
=> WITH x AS (SELECT * FROM v_sx AS x) SELECT x.id FROM x

-- case: a name of three parts
SELECT a.b.c.id, a.b.c.d.e FROM a.b.c
=> SELECT c.id, c.d.e FROM v_abc AS c

-- case: another case of letters in columns
SELECT S.X.id FROM s.x
=> SELECT x.id FROM v_sx AS x

-- case: comments, texts and other tables stay
SELECT 's.x' AS s /* s.x */ FROM other.x, s.x -- s.x
=> SELECT 's.x' AS s /* s.x */ FROM other.x, v_sx AS x -- s.x

-- case: unions
SELECT id FROM s.x UNION ALL SELECT id FROM s.x
=> SELECT id FROM v_sx AS x UNION ALL SELECT id FROM v_sx AS x

-- case: joins in parentheses
SELECT * FROM (s.x JOIN s.y ON s.x.id = s.y.id)
=> SELECT * FROM (v_sx AS x JOIN v_sy AS y ON x.id = y.id)

-- case: letters beyond ASCII come before
SELECT 'é𝄞' AS `ü`, s.x.id FROM s.x
=> SELECT 'é𝄞' AS `ü`, x.id FROM v_sx AS x

-- case: short and whole names in one query
SELECT x.id FROM s.x WHERE EXISTS (SELECT x.id FROM t.x WHERE x.id = s.x.id)
=> SELECT s_x.id FROM v_sx AS s_x WHERE EXISTS (SELECT x.id FROM v_tx AS x WHERE x.id = s_x.id)

-- case: a column of an alias that together look like the table
SELECT s.x FROM s.x JOIN s.y AS s
=> SELECT s.x FROM v_sx AS x JOIN v_sy AS s
