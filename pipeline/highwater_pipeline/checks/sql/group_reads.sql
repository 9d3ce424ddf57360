-- I9, of groups: a group's members together read every committed record of its topic; in a compacted
-- topic at least those without a newer one of their key. What each of them read is compared with the
-- logs by the check of reads. A run with a group that read nothing counts as not examined. Members
-- with incomplete histories may have read any record.
WITH read AS (
  SELECT DISTINCT m.run_id, m.group_id, o.topic, o.partition, o.offset
  FROM {operations} o JOIN {group_members} m
    ON m.run_id = o.run_id AND m.client = split_part(o.process, '.', 1)
  WHERE o.function = 'poll' AND o.type = 'ok' AND o.is_unmatched IS NULL
), judged AS (
  SELECT DISTINCT run_id FROM {group_members}
), silent AS (
  SELECT DISTINCT m.run_id
  FROM {group_members} m
  WHERE NOT EXISTS (
    SELECT 1 FROM read r WHERE r.run_id = m.run_id AND r.group_id = m.group_id
  )
), examined AS (
  SELECT * FROM read r WHERE NOT EXISTS (SELECT 1 FROM silent s WHERE s.run_id = r.run_id)
), asked AS (
  SELECT DISTINCT m.run_id, m.group_id, m.topic
  FROM {group_members} m JOIN {runs} r ON r.run_id = m.run_id
  WHERE m.to_the_end AND coalesce(r.to_the_end, true) AND NOT EXISTS (
    SELECT 1 FROM {incomplete} i
    WHERE i.run_id = m.run_id AND (i.is_of_any OR i.group_id = m.group_id)
  )
), held AS (
  SELECT h.run_id, a.group_id, h.topic, h.partition, h.offset, h.broker, h.key,
    coalesce(h.value, '') AS value
  FROM {records} h
  JOIN asked a ON a.run_id = h.run_id AND a.topic = h.topic
  JOIN {replicas} l
    ON l.run_id = h.run_id AND l.topic = h.topic AND l.partition = h.partition
    AND l.broker = h.broker
  WHERE l.damage IS NULL AND h.offset >= l.log_start_offset AND h.offset < l.high_watermark
), newest AS (
  SELECT h.run_id, h.topic, h.partition, h.broker, h.key, max(h.offset) AS offset
  FROM {records} h
  JOIN {runs} u ON u.run_id = h.run_id
  JOIN {replicas} l
    ON l.run_id = h.run_id AND l.topic = h.topic AND l.partition = h.partition
    AND l.broker = h.broker
  WHERE l.damage IS NULL AND h.offset < l.high_watermark AND h.key IS NOT NULL
    AND array_contains(u.compacted, h.topic)
  GROUP BY h.run_id, h.topic, h.partition, h.broker, h.key
), findings AS (
  SELECT h.run_id, 'unseen' AS invariant, h.topic, h.partition, h.offset, h.broker,
    'NEVER_READ' AS wording, h.value
  FROM held h
  WHERE NOT EXISTS (
    SELECT 1 FROM read r
    WHERE r.run_id = h.run_id AND r.group_id = h.group_id AND r.topic = h.topic
      AND r.partition = h.partition AND r.offset = h.offset
  ) AND NOT EXISTS (
    SELECT 1 FROM newest n
    WHERE n.run_id = h.run_id AND n.topic = h.topic AND n.partition = h.partition
      AND n.broker = h.broker AND n.key = h.key AND n.offset > h.offset
  )
)
