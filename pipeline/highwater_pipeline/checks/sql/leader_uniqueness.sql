-- I7: an epoch's leader is another one than its first event names, or an epoch was written twice.
-- Events are in the order of their files' names, then as each node wrote them. Each life of a
-- topic, which its id tells, has its epochs; deleted topics without ids are left out. Brokers that
-- looks saw lead, and whose traces do not say so, count too.
WITH gone AS (
  SELECT run_id, topic FROM {events} WHERE kind = 'topic_deleted'
  UNION
  SELECT run_id, explode(deleted) FROM {events} WHERE kind = 'topics_changed'
  UNION
  SELECT run_id, topic FROM {events} WHERE kind = 'became_leader' AND topic_id <> ''
  GROUP BY run_id, topic HAVING min(topic_id) < max(topic_id)
), examined AS (
  SELECT e.run_id, e.topic, e.partition, e.leader_epoch, e.kind, e.seq,
    CASE WHEN e.kind = 'became_leader' THEN e.node ELSE e.leader END AS leader,
    CASE WHEN e.node < 1000 THEN 'broker-' ELSE 'controller-' END
      || e.node || '-' || e.incarnation || '.jsonl' AS file,
    CASE WHEN g.topic IS NULL THEN '' ELSE e.topic_id END AS life
  FROM {events} e LEFT JOIN gone g ON g.run_id = e.run_id AND g.topic = e.topic
  WHERE e.kind IN ('became_leader', 'leader_elected')
    AND e.topic IS NOT NULL AND e.partition IS NOT NULL AND e.leader_epoch IS NOT NULL
    AND (g.topic IS NULL OR e.topic_id <> '')
), led AS (
  SELECT *, first_value(leader) OVER (
    PARTITION BY run_id, topic, partition, life, leader_epoch ORDER BY file, seq
  ) AS first
  FROM examined
  WHERE leader IS NOT NULL
), seen AS (
  SELECT DISTINCT r.run_id, r.topic, r.partition, r.leader_epoch, r.node AS leader,
    CASE WHEN g.topic IS NULL THEN '' ELSE r.topic_id END AS life
  FROM {replica_looks} r LEFT JOIN gone g ON g.run_id = r.run_id AND g.topic = r.topic
  WHERE r.role = 'leader' AND (g.topic IS NULL OR r.topic_id <> '')
), firsts AS (
  SELECT DISTINCT run_id, topic, partition, life, leader_epoch, first FROM led
), seen_beside AS (
  SELECT s.run_id, s.topic, s.partition, s.life, s.leader_epoch, s.leader,
    coalesce(f.first, min(s.leader) OVER (
      PARTITION BY s.run_id, s.topic, s.partition, s.life, s.leader_epoch
    )) AS first
  FROM seen s LEFT JOIN firsts f ON f.run_id = s.run_id AND f.topic = s.topic
    AND f.partition = s.partition AND f.life = s.life AND f.leader_epoch = s.leader_epoch
), findings AS (
  SELECT run_id, 'I7' AS invariant, topic, partition, leader AS broker,
    'TWO_LEADERS' AS wording, first, leader, leader_epoch
  FROM led
  WHERE leader <> first
  UNION ALL
  SELECT run_id, 'I7', topic, partition, leader, 'TWO_LEADERS', first, leader, leader_epoch
  FROM seen_beside s
  WHERE leader <> first AND NOT EXISTS (
    SELECT 1 FROM led l
    WHERE l.run_id = s.run_id AND l.topic = s.topic AND l.partition = s.partition
      AND l.life = s.life AND l.leader_epoch = s.leader_epoch AND l.leader = s.leader
      AND l.leader <> l.first
  )
  UNION ALL
  SELECT run_id, 'I7', topic, partition, -1, 'WRITTEN_TWICE', NULL, NULL, leader_epoch
  FROM examined
  WHERE kind = 'leader_elected'
  GROUP BY run_id, topic, partition, life, leader_epoch
  HAVING count(*) > 1
)
