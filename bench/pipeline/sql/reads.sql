-- I9: what each process read first at each place of a life, and of those that go on against each
-- replica. A record that is not there may have a newer one of its key.
CREATE VIEW consumers AS SELECT run_id, unnest(consumers) AS client FROM runs;

CREATE VIEW readers AS
SELECT run_id, client FROM consumers UNION SELECT run_id, client FROM group_members;

CREATE VIEW reads AS
SELECT o.* REPLACE (ifnull(life, '') AS life),
  process || '''s poll ' || operation_id AS operation
FROM operations o JOIN readers r
  ON r.run_id = o.run_id AND r.client = split_part(o.process, '.', 1)
WHERE "function" = 'poll' AND "type" = 'ok';

CREATE VIEW firsts AS
SELECT run_id, process, topic, "partition", "offset", life, arg_min("value", line) AS "value"
FROM reads WHERE life <> '?' GROUP BY ALL;

CREATE VIEW places AS
SELECT run_id, process, topic, "partition", "offset",
  arg_min(key, line) FILTER (NOT ifnull(is_over, false)) AS key,
  arg_min("value", line) FILTER (NOT ifnull(is_over, false)) AS "value",
  arg_min(operation, line) FILTER (NOT ifnull(is_over, false)) AS operation
FROM reads GROUP BY ALL;

CREATE VIEW whole AS
SELECT * FROM replicas WHERE damage IS NULL AND high_watermark >= 0;

CREATE VIEW clients AS
SELECT run_id, unnest(last_readers) AS process, unnest(last_topics) AS topic FROM runs;

CREATE VIEW last_ones AS
SELECT DISTINCT run_id, topic, process FROM clients ANTI JOIN incomplete USING (run_id, process);

CREATE VIEW findings AS
SELECT run_id, 'I9' AS invariant, topic, "partition", "offset", -1 AS broker, operation
FROM reads r JOIN firsts p USING (run_id, process, topic, "partition", "offset", life)
WHERE r."value" <> p."value"
UNION ALL
SELECT run_id, 'I9', topic, "partition", "offset", -1, operation
FROM reads WHERE high_watermark BETWEEN 0 AND "offset"
UNION ALL
SELECT p.run_id, 'I9', p.topic, p."partition", p."offset", w.broker, operation
FROM places p JOIN whole w USING (run_id, topic, "partition")
LEFT JOIN (SELECT * EXCLUDE (key), true AS held FROM records) r
  USING (run_id, topic, "partition", broker, "offset")
LEFT JOIN newest n USING (run_id, topic, "partition", broker, key)
WHERE p."value" IS NOT NULL AND p."offset" >= w.log_start_offset
  AND if(r.held, ifnull(r."value", '') <> p."value", ifnull(n.newest, -1) <= p."offset")
UNION ALL
SELECT r.run_id, 'unseen', r.topic, r."partition", r."offset", r.broker, ''
FROM records r
JOIN whole w USING (run_id, topic, "partition", broker)
JOIN last_ones l ON l.run_id = r.run_id AND l.topic = r.topic
JOIN runs u ON u.run_id = r.run_id AND ifnull(u.to_the_end, true)
LEFT JOIN newest n ON n.run_id = r.run_id AND n.topic = r.topic AND n."partition" = r."partition"
  AND n.broker = r.broker AND n.key = r.key
WHERE r."offset" >= w.log_start_offset AND r."offset" < w.high_watermark
  AND ifnull(n.newest, -1) <= r."offset" AND NOT EXISTS (
  SELECT 1 FROM places p
  WHERE p.run_id = r.run_id AND p.process = l.process AND p.topic = r.topic
    AND p."partition" = r."partition" AND p."offset" = r."offset");

CREATE VIEW silent AS
SELECT run_id FROM consumers c WHERE NOT EXISTS (
  SELECT 1 FROM reads r
  WHERE r.run_id = c.run_id AND split_part(r.process, '.', 1) = c.client);

CREATE VIEW examined AS
SELECT run_id, if(run_id IN (SELECT run_id FROM silent), 0,
  (SELECT count(*) FROM places p WHERE p.run_id = u.run_id)) FROM runs u;
