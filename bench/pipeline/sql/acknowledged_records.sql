-- I1, as a search among the records for each acknowledgement and replica.
CREATE VIEW acknowledged AS
SELECT *, process || '''s send ' || operation_id AS operation
FROM operations
WHERE "function" = 'send' AND "type" = 'ok' AND (acks = -1 OR acks IS NULL)
  AND NOT ifnull(is_over, false) AND is_unmatched IS NULL;

CREATE VIEW owed AS
SELECT a.run_id, a.topic, a."partition", a."offset", r.broker, a.operation, a."value"
FROM acknowledged a, replicas r
WHERE r.run_id = a.run_id AND r.topic = a.topic AND r."partition" = a."partition"
  AND r.damage IS NULL AND r.high_watermark >= 0 AND a."offset" >= r.log_start_offset;

CREATE VIEW findings AS
SELECT run_id, 'I1' AS invariant, topic, "partition", "offset", broker, operation
FROM owed o
WHERE NOT EXISTS (
  SELECT 1 FROM records r
  WHERE r.run_id = o.run_id AND r.topic = o.topic AND r."partition" = o."partition"
    AND r.broker = o.broker AND r."offset" = o."offset" AND ifnull(r."value", '') = o."value")
UNION ALL
SELECT run_id, 'I1', topic, "partition", "offset", -1, operation
FROM acknowledged a JOIN runs u USING (run_id)
WHERE ifnull(u.saw_the_end, true) AND NOT ifnull(u.only_in_sync, false) AND NOT EXISTS (
  SELECT 1 FROM replicas r
  WHERE r.run_id = a.run_id AND r.topic = a.topic AND r."partition" = a."partition"
    AND r.damage IS NULL AND r.high_watermark >= 0);

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM owed o WHERE o.run_id = u.run_id) FROM runs u;
