-- Order: an acks=all record lies after those acknowledged, or sent by its client, before its send.
-- Each life of a topic has its order; acknowledgements of which the life is not known are left out.
-- A send is two moments of its partition, its beginning and its end. At each moment the highest
-- offset acknowledged so far is known; at equal times a beginning comes before an end. Of a client
-- with one request in flight, records that were sent once lie in the order of its operations; of
-- an idempotent client, all of its records (I20).
WITH examined AS (
  SELECT /*+ SHUFFLE_HASH(b) */ o.run_id, o.topic, o.partition, coalesce(o.life, '') AS life,
    o.offset, o.process, o.operation_id, o.line, o.time_ns, b.time_ns AS invoked_ns, o.value,
    o.tries, o.max_in_flight, coalesce(o.is_idempotent, false) AS is_idempotent, o.process || '.jsonl' AS file,
    o.process || chr(39) || 's send ' || o.operation_id AS operation
  FROM {operations} o LEFT JOIN {operations} b
    ON b.run_id = o.run_id AND b.process = o.process AND b.operation_id = o.operation_id
    AND b.function = 'send' AND b.type = 'invoke'
  WHERE o.function = 'send' AND o.type = 'ok' AND coalesce(o.acks, -1) = -1
    AND coalesce(o.life, '') <> '?' AND o.is_unmatched IS NULL
), moments AS (
  SELECT *, invoked_ns AS at_ns, 0 AS is_end FROM examined WHERE invoked_ns IS NOT NULL
  UNION ALL
  SELECT *, time_ns, 1 FROM examined
), so_far AS (
  SELECT m.*, max(CASE WHEN is_end = 1 THEN m.offset END) OVER (
    PARTITION BY run_id, topic, partition, life ORDER BY at_ns, is_end
  ) AS highest
  FROM moments m
), beside AS (
  SELECT /*+ BROADCAST(l) */ l.*, f.value AS first_value, row_number() OVER (
    PARTITION BY l.run_id, l.process, l.operation_id ORDER BY f.time_ns, f.file, f.line
  ) AS place
  FROM so_far l JOIN examined f
    ON f.run_id = l.run_id AND f.topic = l.topic AND f.partition = l.partition
    AND f.life = l.life AND f.offset = l.highest AND f.time_ns < l.invoked_ns
  WHERE l.is_end = 0 AND l.offset <= l.highest
), sent AS (
  SELECT e.*, coalesce(max(e.offset) OVER (
    PARTITION BY run_id, topic, partition, life, process ORDER BY operation_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ), -1) AS highest
  FROM examined e
  WHERE is_idempotent OR (max_in_flight = 1 AND tries = 1)
), findings AS (
  SELECT run_id, 'realtime-send' AS invariant, topic, partition, b.offset, operation,
    'BELOW_ACKNOWLEDGED' AS wording, value, first_value, highest AS first_offset, NULL AS highest
  FROM beside b
  WHERE place = 1
  UNION ALL
  SELECT run_id, CASE WHEN is_idempotent THEN 'I20' ELSE 'nonmonotonic-send' END, topic, partition, s.offset, operation, 'BELOW_SENT', value,
    NULL, NULL, highest
  FROM sent s
  WHERE s.offset <= highest
)
