-- mode: replace-partition
-- partition_by: day
-- group: sales
-- audit: revenue >= 0
-- doc: Revenue by day and country; an order without a country counts for that of its customer
SELECT
    o.day,
    coalesce(o.country, c.country, 'unknown') AS country,
    count(*) AS orders,
    sum(o.amount) AS revenue
FROM silver.orders o
LEFT JOIN silver.customers c ON c.customer_id = o.customer_id
GROUP BY o.day, coalesce(o.country, c.country, 'unknown')
