-- I22: members of groups get each record that they commit, and none again.
-- A process is a member from what it was assigned first; an operation that assigns partitions ends
-- the term of the one before. A member goes on where it was assigned, reset to, or read last.
-- Of a group's partition each promised record is asked for once: at the first commit above it, in
-- the order of time, then as the files have them. None is where others than members commit, or
-- where a member's history is incomplete: any record may have been delivered to it.
WITH members AS (
  SELECT DISTINCT run_id, process FROM {operations} WHERE function = 'assigned'
), judged AS (
  SELECT DISTINCT run_id FROM members
), told AS (
  SELECT o.*, function = 'assigned' AND operation_id IS DISTINCT FROM lag(operation_id) OVER (
    PARTITION BY run_id, process, function ORDER BY time_ns, line
  ) AS begins_term
  FROM {operations} o
  WHERE (function IN ('assigned', 'reset') OR function = 'poll' AND type = 'ok'
      OR function = 'commit' AND type = 'invoke')
    AND EXISTS (
      SELECT 1 FROM members m WHERE m.run_id = o.run_id AND m.process = o.process
    )
), in_terms AS (
  SELECT *, count(CASE WHEN begins_term THEN 1 END) OVER (
    PARTITION BY run_id, process ORDER BY time_ns, line
  ) AS term
  FROM told
), of_members AS (
  SELECT t.run_id, process, function, topic, partition, t.offset, value,
    process || chr(39) || 's ' || function || ' ' || operation_id AS operation,
    max(CASE WHEN begins_term THEN value END) OVER (PARTITION BY run_id, process, term) AS group_id,
    lag(
      CASE function WHEN 'poll' THEN least(t.offset, 9223372036854775806) + 1 ELSE t.offset END
    ) OVER (
      PARTITION BY run_id, process, term, topic, partition, function = 'commit'
      ORDER BY time_ns, line
    ) AS next_offset,
    row_number() OVER (
      PARTITION BY run_id, topic, partition ORDER BY time_ns, process || '.jsonl', line
    ) AS place
  FROM in_terms t
  WHERE term > 0
), reads AS (
  SELECT * FROM of_members WHERE function = 'poll'
), delivered AS (
  SELECT run_id, group_id, topic, partition, r.offset, min(place) AS place
  FROM reads r
  GROUP BY run_id, group_id, topic, partition, r.offset
), of_others AS (
  SELECT DISTINCT run_id, value AS group_id, topic, partition
  FROM {operations} o
  WHERE function = 'commit' AND NOT EXISTS (
    SELECT 1 FROM members m WHERE m.run_id = o.run_id AND m.process = o.process
  )
), commits AS (
  SELECT * FROM of_members c
  WHERE function = 'commit' AND NOT EXISTS (
    SELECT 1 FROM of_others o
    WHERE o.run_id = c.run_id AND o.group_id = c.group_id AND o.topic = c.topic
      AND o.partition = c.partition
  ) AND NOT EXISTS (
    SELECT 1 FROM {incomplete} i
    WHERE i.run_id = c.run_id AND (i.is_of_any OR i.group_id = c.group_id)
  )
), places AS (
  SELECT DISTINCT run_id, group_id, topic, partition FROM commits
), held AS (
  SELECT r.run_id, r.topic, r.partition, r.offset, max_by(coalesce(value, ''), r.broker) AS value
  FROM {records} r JOIN {replicas} l
    ON l.run_id = r.run_id AND l.topic = r.topic AND l.partition = r.partition
    AND l.broker = r.broker AND l.damage IS NULL AND l.high_watermark >= 0
  WHERE EXISTS (
    SELECT 1 FROM places p
    WHERE p.run_id = r.run_id AND p.topic = r.topic AND p.partition = r.partition
  )
  GROUP BY r.run_id, r.topic, r.partition, r.offset
), promised AS (
  SELECT DISTINCT s.run_id, s.topic, s.partition, s.offset, s.value
  FROM {operations} s JOIN held h
    ON h.run_id = s.run_id AND h.topic = s.topic AND h.partition = s.partition
    AND h.offset = s.offset AND h.value = s.value
  WHERE s.function = 'send' AND s.type = 'ok' AND s.is_unmatched IS NULL
    AND coalesce(s.acks, -1) = -1 AND coalesce(s.life, '') = ''
), moments AS (
  SELECT p.run_id, p.group_id, p.topic, p.partition, o.offset AS record_offset, o.value,
    NULL AS place, NULL AS operation, NULL AS committed
  FROM places p JOIN promised o
    ON o.run_id = p.run_id AND o.topic = p.topic AND o.partition = p.partition
  UNION ALL
  SELECT run_id, group_id, topic, partition, greatest(c.offset, -9223372036854775807) - 1, NULL,
    place, operation, c.offset
  FROM commits c
), asked AS (
  SELECT m.run_id, m.group_id, m.topic, m.partition, record_offset, m.value,
    min(place) OVER above AS asked_place, min_by(operation, place) OVER above AS operation,
    min_by(committed, place) OVER above AS committed
  FROM moments m
  WINDOW above AS (PARTITION BY run_id, group_id, topic, partition ORDER BY record_offset DESC)
), owed AS (
  SELECT * FROM asked WHERE value IS NOT NULL AND asked_place IS NOT NULL
), examined AS (
  SELECT run_id FROM reads
  UNION ALL
  SELECT run_id FROM owed
), findings AS (
  SELECT run_id, 'I22' AS invariant, topic, partition, r.offset, operation,
    'DELIVERED_AGAIN' AS wording, value, process, next_offset, NULL AS group, NULL AS committed
  FROM reads r
  WHERE r.offset < next_offset AND NOT EXISTS (
    SELECT 1 FROM {incomplete} i WHERE i.run_id = r.run_id AND i.process = r.process
  )
  UNION ALL
  SELECT o.run_id, 'I22', o.topic, o.partition, o.record_offset, o.operation,
    'NOT_DELIVERED', o.value, NULL, NULL, o.group_id, o.committed
  FROM owed o LEFT JOIN delivered d
    ON d.run_id = o.run_id AND d.group_id = o.group_id AND d.topic = o.topic
    AND d.partition = o.partition AND d.offset = o.record_offset
  WHERE coalesce(d.place > o.asked_place, true)
)
