-- Duplicates and aborted reads: a value lies in a log once, unless it was sent more than once.
-- Each value in the replica with the most committed is looked at; of equal ones, in that on the
-- lowest broker. A value that was sent again (tries above 1), or for which that is unknown (tries
-- 0), may lie there twice, unless its producer is idempotent (I20). One whose send failed for certain may not lie there at all.
WITH chosen AS (
  SELECT run_id, topic, partition, broker, row_number() OVER (
    PARTITION BY run_id, topic, partition ORDER BY high_watermark DESC, broker
  ) AS place
  FROM {replicas}
  WHERE damage IS NULL AND high_watermark >= 0
    AND topic NOT IN ('__consumer_offsets', '__transaction_state')
), examined AS (
  SELECT /*+ BROADCAST(c) */ r.run_id, r.topic, r.partition, r.broker,
    coalesce(r.value, '') AS value, array_sort(array_agg(r.offset)) AS offsets
  FROM {records} r JOIN chosen c
    ON c.run_id = r.run_id AND c.topic = r.topic AND c.partition = r.partition
    AND c.broker = r.broker
  WHERE c.place = 1
  GROUP BY r.run_id, r.topic, r.partition, r.broker, coalesce(r.value, '')
), sends AS (
  SELECT run_id, process, operation_id, value, type, tries, line,
    coalesce(is_idempotent, false) AS is_idempotent, process || '.jsonl' AS file,
    process || chr(39) || 's send ' || operation_id AS operation
  FROM {operations}
  WHERE function = 'send' AND is_unmatched IS NULL
), failed AS (
  SELECT *, row_number() OVER (PARTITION BY run_id, value ORDER BY file DESC, line DESC) AS place
  FROM sends
  WHERE type = 'fail'
), repeated AS (
  SELECT x.*
  FROM examined x
  WHERE size(x.offsets) > 1 AND NOT EXISTS (
    SELECT 1 FROM failed f WHERE f.run_id = x.run_id AND f.value = x.value
  )
), known AS (
  -- The last send of a value tells how often it was sent; one without an outcome counts as later.
  SELECT s.*, row_number() OVER (
    PARTITION BY run_id, value
    ORDER BY type <> 'ok' DESC, file DESC, type = 'invoke' DESC, line DESC
  ) AS place
  FROM sends s
  WHERE type <> 'fail' AND EXISTS (
    SELECT 1 FROM repeated r WHERE r.run_id = s.run_id AND r.value = s.value
  ) AND NOT EXISTS (
    SELECT 1 FROM sends e
    WHERE s.type = 'invoke' AND e.type <> 'invoke' AND e.run_id = s.run_id
      AND e.process = s.process AND e.operation_id = s.operation_id
  )
), findings AS (
  SELECT x.run_id, 'aborted-read' AS invariant, x.topic, x.partition, get(x.offsets, 0) AS offset,
    x.broker, f.operation, 'ABORTED_READ' AS wording, x.value, x.offsets
  FROM examined x JOIN failed f ON f.run_id = x.run_id AND f.value = x.value
  WHERE f.place = 1
  UNION ALL
  SELECT r.run_id, CASE WHEN k.is_idempotent THEN 'I20' ELSE 'duplicate' END, r.topic, r.partition, get(r.offsets, 1), r.broker, k.operation,
    CASE WHEN k.is_idempotent THEN 'REPEATED' ELSE 'DUPLICATE' END, r.value, r.offsets
  FROM repeated r JOIN known k ON k.run_id = r.run_id AND k.value = r.value
  WHERE k.place = 1 AND (k.tries = 1 OR k.is_idempotent)
)
