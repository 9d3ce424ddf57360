-- Duplicates: what each value's sends allow, beside how often it lies in one replica.
CREATE VIEW ranked AS
SELECT *, row_number() OVER (
  PARTITION BY run_id, topic, "partition" ORDER BY high_watermark DESC, broker) AS place
FROM replicas
WHERE damage IS NULL AND high_watermark >= 0;

CREATE VIEW held AS
SELECT r.run_id, r.topic, r."partition", r.broker, ifnull(r."value", '') AS "value",
  list(r."offset" ORDER BY r."offset") AS offsets
FROM records r
JOIN ranked USING (run_id, topic, "partition", broker)
WHERE place = 1
GROUP BY ALL;

CREATE VIEW sends AS
SELECT *, process || '''s send ' || operation_id AS operation,
  CASE "type" WHEN 'ok' THEN 0 WHEN 'info' THEN 1 ELSE 2 END AS outcome
FROM operations o
WHERE "function" = 'send' AND "type" <> 'fail' AND NOT ("type" = 'invoke' AND EXISTS (
  SELECT 1 FROM operations e
  WHERE e.run_id = o.run_id AND e.process = o.process AND e.operation_id = o.operation_id
    AND e."function" = 'send' AND e."type" <> 'invoke'));

CREATE VIEW known AS
SELECT * FROM sends
QUALIFY row_number() OVER (
  PARTITION BY run_id, "value"
  ORDER BY outcome > 0 DESC, process || '.jsonl' DESC, outcome DESC, line DESC) = 1;

CREATE VIEW failed AS
SELECT *, process || '''s send ' || operation_id AS operation FROM operations
WHERE "function" = 'send' AND "type" = 'fail'
QUALIFY row_number() OVER (
  PARTITION BY run_id, "value" ORDER BY process || '.jsonl' DESC, line DESC) = 1;

CREATE VIEW findings AS
SELECT h.run_id, CASE WHEN f.run_id IS NOT NULL THEN 'aborted-read' ELSE 'duplicate' END,
  h.topic, h."partition", offsets[CASE WHEN f.run_id IS NOT NULL THEN 1 ELSE 2 END], h.broker,
  CASE WHEN f.run_id IS NOT NULL THEN f.operation ELSE k.operation END
FROM held h
LEFT JOIN failed f ON f.run_id = h.run_id AND f."value" = h."value"
LEFT JOIN known k ON k.run_id = h.run_id AND k."value" = h."value"
WHERE f.run_id IS NOT NULL OR (len(offsets) > 1 AND k.tries = 1);

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM held h WHERE h.run_id = u.run_id) FROM runs u;
