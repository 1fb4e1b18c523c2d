-- mode: replace-partition
-- partition_by: day
-- group: sales
-- doc: One row per order, by the day in its number; of an order that was corrected, the latest version
SELECT
    to_date(substring(order_id, 5, 8), 'yyyyMMdd') AS day,
    order_id,
    max_by(customer_id, version) AS customer_id,
    max_by(amount, version) AS amount,
    max_by(country, version) AS country
FROM (
    SELECT *, struct(ingestion_date, amount, customer_id, country) AS version
    FROM lakehouse.sales
    WHERE order_id LIKE 'ORD-20%'
)
GROUP BY to_date(substring(order_id, 5, 8), 'yyyyMMdd'), order_id
