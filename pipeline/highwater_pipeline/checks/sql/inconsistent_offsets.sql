-- Inconsistent offsets: two clients, or one twice, report different values at one offset.
-- Producers with acks=all and all consumers report. The first report of an offset is a producer's,
-- then the files' names and their lines decide. Each life of a topic has its offsets; reports of
-- which the life is not known are left out. Few offsets differ, and only those are sorted:
-- they are found by 64-bit hashes.
WITH told AS (
  SELECT run_id, topic, partition, o.offset, value, function, process || '.jsonl' AS file, line,
    coalesce(life, '') AS life, process || chr(39) || 's ' || function || ' ' || operation_id AS operation
  FROM {operations} o
  WHERE type = 'ok' AND (function = 'poll' OR (function = 'send' AND coalesce(acks, -1) = -1))
    AND coalesce(life, '') <> '?' AND is_unmatched IS NULL
), examined AS (
  SELECT run_id, topic, partition, life, t.offset,
    min(xxhash64(value)) < max(xxhash64(value)) AS differs
  FROM told t
  GROUP BY run_id, topic, partition, life, t.offset
), beside AS (
  SELECT /*+ BROADCAST(e) */ t.*, first_value(t.value) OVER in_order AS first_value,
    first_value(t.operation) OVER in_order AS first
  FROM told t JOIN examined e
    ON e.run_id = t.run_id AND e.topic = t.topic AND e.partition = t.partition
    AND e.life = t.life AND e.offset = t.offset
  WHERE e.differs
  WINDOW in_order AS (
    PARTITION BY t.run_id, t.topic, t.partition, t.life, t.offset
    ORDER BY t.function DESC, t.file, t.line
  )
), findings AS (
  SELECT run_id, 'inconsistent-offsets' AS invariant, topic, partition, b.offset, operation,
    'TOLD_OTHERWISE' AS wording, value, first, first_value
  FROM beside b
  WHERE value <> first_value
)
