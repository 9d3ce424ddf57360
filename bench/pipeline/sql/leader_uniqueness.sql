-- I7: who is named as an epoch's leader, against the first who is; and epochs that recur. Deleted topics begin anew by id.
CREATE VIEW gone AS
SELECT run_id, topic FROM events WHERE kind = 'topic_deleted'
UNION
SELECT run_id, unnest(CAST(detail -> '$.deleted' AS VARCHAR[])) FROM events
WHERE kind = 'topics_changed';

CREATE VIEW led AS
SELECT * EXCLUDE (leader), CASE kind WHEN 'became_leader' THEN node ELSE CAST(detail ->> '$.leader' AS INTEGER) END
    AS leader,
  CASE WHEN node < 1000 THEN 'broker-' ELSE 'controller-' END || node || '-' || incarnation
    || '.jsonl' AS file, if(g.run_id IS NULL, '', e.topic_id) AS life
FROM events e LEFT JOIN gone g USING (run_id, topic)
WHERE kind IN ('became_leader', 'leader_elected')
  AND topic IS NOT NULL AND "partition" IS NOT NULL AND leader_epoch IS NOT NULL
  AND (g.run_id IS NULL OR topic_id <> '');

CREATE VIEW firsts AS
SELECT run_id, topic, "partition", life, leader_epoch, leader AS first
FROM led
QUALIFY row_number() OVER (
  PARTITION BY run_id, topic, "partition", life, leader_epoch ORDER BY file, seq) = 1;

CREATE VIEW findings AS
SELECT run_id, 'I7', topic, "partition", -1, -1, ''
FROM led JOIN firsts USING (run_id, topic, "partition", life, leader_epoch)
WHERE leader <> first
UNION ALL
SELECT run_id, 'I7', topic, "partition", -1, -1, ''
FROM led WHERE kind = 'leader_elected'
GROUP BY run_id, topic, "partition", life, leader_epoch HAVING count(*) > 1;

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM led l WHERE l.run_id = u.run_id) FROM runs u;
