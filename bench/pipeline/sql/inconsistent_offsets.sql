-- Inconsistent offsets: each that was told, against the first that was told of the place.
CREATE VIEW told AS
SELECT run_id, topic, "partition", "offset", "value",
  process || '''s ' || "function" || ' ' || operation_id AS operation,
  row_number() OVER (ORDER BY "function" DESC, process || '.jsonl', line) AS number
FROM operations
WHERE "type" = 'ok' AND ("function" = 'poll' OR ("function" = 'send' AND ifnull(acks, -1) = -1));

CREATE VIEW places AS
SELECT run_id, topic, "partition", "offset", arg_min("value", number) AS "value"
FROM told GROUP BY ALL;

CREATE VIEW findings AS
SELECT t.run_id, 'inconsistent-offsets', t.topic, t."partition", t."offset", -1, t.operation
FROM told t JOIN places p USING (run_id, topic, "partition", "offset")
WHERE t."value" <> p."value";

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM places p WHERE p.run_id = u.run_id) FROM runs u;
