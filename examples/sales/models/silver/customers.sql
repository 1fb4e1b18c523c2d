-- mode: upsert
-- key: customer_id
-- group: sales
-- doc: Customers with names and countries as reports show them
SELECT customer_id, initcap(trim(name)) AS name, upper(country) AS country
FROM lakehouse.customers
