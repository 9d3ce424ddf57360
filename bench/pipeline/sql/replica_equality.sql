-- I3: the batches of each replica as lists, compared by place with those of the lowest broker. Of a
-- compacted topic records are compared, and one that is not there may have a newer one of its key,
-- or no value.
CREATE VIEW ranges AS
SELECT r.run_id, r.topic, r."partition", min(r.broker) AS reference,
  max(r.log_start_offset) AS start_offset, min(r.high_watermark) AS end_offset,
  any_value(ifnull(list_contains(u.compacted, r.topic), false)) AS is_compacted
FROM replicas r JOIN runs u USING (run_id)
WHERE r.damage IS NULL AND r.high_watermark >= 0 GROUP BY ALL;

CREATE VIEW batches AS
SELECT run_id, topic, "partition", broker, base_offset, max("offset") + 1 AS next_offset,
  any_value(leader_epoch) AS leader_epoch, any_value(batch_crc) AS batch_crc
FROM records GROUP BY ALL;

CREATE VIEW logs AS
SELECT r.run_id, r.topic, r."partition", r.broker, g.reference,
  ifnull((
    SELECT list((b.base_offset, b.next_offset, b.leader_epoch, b.batch_crc) ORDER BY b.base_offset)
    FROM batches b
    WHERE b.run_id = r.run_id AND b.topic = r.topic AND b."partition" = r."partition"
      AND b.broker = r.broker AND b.base_offset >= g.start_offset
      AND b.next_offset <= g.end_offset), []) AS batches
FROM replicas r JOIN ranges g USING (run_id, topic, "partition")
WHERE r.damage IS NULL AND r.high_watermark >= 0 AND NOT g.is_compacted;

CREATE VIEW pairs AS
SELECT f.run_id, f.topic, f."partition", f.broker, number,
  e.batches[number] AS expected, f.batches[number] AS found
FROM logs f
JOIN logs e ON e.run_id = f.run_id AND e.topic = f.topic AND e."partition" = f."partition"
  AND e.broker = f.reference AND f.broker <> f.reference,
LATERAL (SELECT unnest(range(1, greatest(len(e.batches), len(f.batches)) + 1)) AS number);

CREATE VIEW followers AS
SELECT r.run_id, r.topic, r."partition", r.broker, g.reference, g.start_offset, g.end_offset
FROM replicas r JOIN ranges g USING (run_id, topic, "partition")
WHERE r.damage IS NULL AND r.high_watermark >= 0 AND g.is_compacted AND r.broker <> g.reference;

CREATE VIEW beside AS
SELECT f.run_id, f.topic, f."partition", f.broker, r."offset", any_value(r.key) AS key,
  any_value((r.leader_epoch, r.key, r."value")) FILTER (r.broker = f.reference) AS expected,
  any_value((r.leader_epoch, r.key, r."value")) FILTER (r.broker = f.broker) AS found,
  any_value(f.reference) AS reference
FROM followers f JOIN records r
  ON r.run_id = f.run_id AND r.topic = f.topic AND r."partition" = f."partition"
  AND r.broker IN (f.broker, f.reference)
  AND r."offset" >= f.start_offset AND r."offset" < f.end_offset
GROUP BY ALL;

CREATE VIEW findings AS
SELECT run_id, 'I3', topic, "partition", min("offset"), broker, ''
FROM beside b
WHERE expected IS DISTINCT FROM found AND NOT (
  (expected IS NULL OR found IS NULL) AND (coalesce(expected, found)[3] IS NULL OR EXISTS (
    SELECT 1 FROM newest n
    WHERE n.run_id = b.run_id AND n.topic = b.topic AND n."partition" = b."partition"
      AND n.broker IN (b.broker, b.reference) AND n.key = b.key AND n.newest > b."offset")))
GROUP BY run_id, topic, "partition", broker
UNION ALL
SELECT run_id, 'I3', topic, "partition", least(expected[1], found[1]), broker, ''
FROM pairs WHERE expected IS DISTINCT FROM found
QUALIFY row_number() OVER (PARTITION BY run_id, topic, "partition", broker ORDER BY number) = 1;

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM pairs p WHERE p.run_id = u.run_id)
  + (SELECT count(*) FROM beside b WHERE b.run_id = u.run_id) FROM runs u;
