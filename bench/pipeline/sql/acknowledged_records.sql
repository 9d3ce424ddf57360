-- I1, as a search among the records for each acknowledgement and replica. One that is not there may
-- have a newer one of its key.
CREATE VIEW acknowledged AS
SELECT *, process || '''s send ' || operation_id AS operation
FROM operations
WHERE "function" = 'send' AND "type" = 'ok' AND (acks = -1 OR acks IS NULL)
  AND NOT ifnull(is_over, false) AND is_unmatched IS NULL;

CREATE VIEW owed AS
SELECT a.run_id, a.topic, a."partition", a."offset", r.broker, a.operation, a."value", a.key
FROM acknowledged a, replicas r
WHERE r.run_id = a.run_id AND r.topic = a.topic AND r."partition" = a."partition"
  AND r.damage IS NULL AND r.high_watermark >= 0 AND a."offset" >= r.log_start_offset;

CREATE VIEW findings AS
SELECT run_id, 'I1' AS invariant, topic, "partition", "offset", broker, operation
FROM owed o
LEFT JOIN (SELECT * EXCLUDE (key), true AS held FROM records) r
  USING (run_id, topic, "partition", broker, "offset")
LEFT JOIN newest n USING (run_id, topic, "partition", broker, key)
WHERE if(r.held, ifnull(r."value", '') <> o."value", ifnull(n.newest, -1) <= "offset")
UNION ALL
SELECT run_id, 'I1', topic, "partition", "offset", -1, operation
FROM acknowledged a JOIN runs u USING (run_id)
WHERE ifnull(u.saw_the_end, true) AND NOT ifnull(u.only_in_sync, false) AND NOT EXISTS (
  SELECT 1 FROM replicas r
  WHERE r.run_id = a.run_id AND r.topic = a.topic AND r."partition" = a."partition"
    AND r.damage IS NULL AND r.high_watermark >= 0);

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM owed o WHERE o.run_id = u.run_id) FROM runs u;
