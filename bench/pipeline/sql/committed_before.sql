-- I4, I11: what leaders had committed, asked of later leaders and of members that cut their logs.
CREATE VIEW gone AS
SELECT run_id, topic FROM events WHERE kind = 'topic_deleted'
UNION
SELECT run_id, unnest(CAST(detail -> '$.deleted' AS VARCHAR[])) FROM events
WHERE kind = 'topics_changed'
UNION
SELECT run_id, topic FROM events WHERE kind = 'became_leader' AND topic_id <> ''
GROUP BY run_id, topic HAVING min(topic_id) < max(topic_id);

CREATE VIEW own AS
SELECT *, if(node >= 1000, 'controller-', 'broker-') || node || '-' || incarnation || '.jsonl' AS file,
  if(g.run_id IS NULL, '', e.topic_id) AS life
FROM events e LEFT JOIN gone g USING (run_id, topic)
WHERE "partition" IS NOT NULL AND leader_epoch IS NOT NULL AND topic IS NOT NULL
  AND (g.run_id IS NULL OR topic_id <> '');

CREATE VIEW commits AS SELECT * FROM own WHERE kind = 'high_watermark_advanced';

-- The first of an epoch, at place 1, counts as earlier than every cut in it.
CREATE VIEW told AS
SELECT * EXCLUDE (isr), CAST(detail -> '$.isr' AS INTEGER[]) AS isr,
  row_number() OVER (PARTITION BY run_id, topic, "partition", life, leader_epoch
    ORDER BY ts_ns, file, seq) AS place
FROM own
WHERE kind IN ('became_leader', 'high_watermark_advanced', 'isr_changed', 'isr_written');

CREATE VIEW judged AS
SELECT row_number() OVER (ORDER BY run_id, file, seq) AS number, * FROM own WHERE kind IN ('became_leader', 'log_truncated');

CREATE VIEW before_each AS
SELECT j.number, max(c."offset") AS up_to
FROM judged j JOIN commits c USING (run_id, topic, "partition", life)
WHERE c.leader_epoch < j.leader_epoch GROUP BY ALL;

CREATE VIEW before_cuts AS
SELECT j.number, arg_max(t.isr, t.place) AS isr,
  max(t."offset") FILTER (t.kind = 'high_watermark_advanced') AS up_to
FROM judged j JOIN told t USING (run_id, topic, "partition", life, leader_epoch)
WHERE j.kind = 'log_truncated' AND (t.ts_ns < j.ts_ns OR t.place = 1)
GROUP BY ALL;

CREATE VIEW findings AS
SELECT run_id, 'I4', topic, "partition", "offset", node, ''
FROM judged JOIN before_each b USING (number)
WHERE kind = 'became_leader' AND "offset" < b.up_to
UNION ALL
SELECT run_id, 'I11', topic, "partition", "offset", node, ''
FROM judged j JOIN before_cuts c USING (number) LEFT JOIN before_each b USING (number)
WHERE list_contains(c.isr, node) AND "offset" < CAST(detail ->> '$.from_offset' AS BIGINT)
  AND "offset" < greatest(c.up_to, b.up_to, 0);

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM judged j WHERE j.run_id = u.run_id) FROM runs u;
