-- I14: a fetched offset is the last one acknowledged before, or one committed since.
-- A commit whose outcome is not known may take effect at any time (ended is null). Every group
-- begins with nothing, -1, committed before the run. Anything may have been committed for a group
-- of a process with an incomplete history.
WITH told AS (
  SELECT *, lag(type) OVER in_order = 'invoke' AS is_matched, lag(time_ns) OVER in_order AS begun,
    lead(type) OVER in_order IS NULL AS is_open,
    process || chr(39) || 's ' || function || ' ' || operation_id AS operation
  FROM {operations}
  WHERE function IN ('commit', 'fetch_committed')
  WINDOW in_order AS (PARTITION BY run_id, process, operation_id ORDER BY line)
), examined AS (
  SELECT run_id, process, line, value, topic, partition, t.offset, begun, time_ns AS ended, operation
  FROM told t
  WHERE function = 'fetch_committed' AND type = 'ok' AND is_matched AND NOT EXISTS (
    SELECT 1 FROM {incomplete} i
    WHERE i.run_id = t.run_id AND (i.is_of_any OR i.group_id = t.value)
  )
), judged AS (
  SELECT DISTINCT run_id FROM {operations} WHERE function = 'commit'
), commits AS (
  SELECT run_id, value, topic, partition, t.offset,
    CASE type WHEN 'invoke' THEN time_ns ELSE begun END AS begun,
    CASE type WHEN 'ok' THEN time_ns END AS ended
  FROM told t
  WHERE function = 'commit'
    AND (type IN ('ok', 'info') AND is_matched OR type = 'invoke' AND is_open)
  UNION ALL
  SELECT DISTINCT run_id, value, topic, partition, -1, -1, -1 FROM examined
), moments AS (
  SELECT *, begun AS at_ns, 0 AS is_end, NULL AS acknowledged FROM examined
  UNION ALL
  SELECT run_id, NULL, NULL, value, topic, partition, NULL, NULL, NULL, NULL, ended, 1, begun
  FROM commits
  WHERE ended IS NOT NULL
), fetches AS (
  SELECT *, max(acknowledged) OVER (
    PARTITION BY run_id, value, topic, partition ORDER BY at_ns, is_end
  ) AS last_begun
  FROM moments
), unexplained AS (
  SELECT *
  FROM fetches f
  WHERE is_end = 0 AND NOT EXISTS (
    SELECT 1 FROM commits c
    WHERE c.run_id = f.run_id AND c.value = f.value AND c.topic = f.topic
      AND c.partition = f.partition AND c.offset = f.offset AND c.begun <= f.ended
      AND coalesce(c.ended >= f.last_begun, true)
  )
), findings AS (
  SELECT u.run_id, 'I14' AS invariant, u.topic, u.partition, u.operation,
    'OFFSET_LOST' AS wording, u.value AS group, u.offset AS fetched,
    array_sort(array_agg(DISTINCT c.offset)) AS offsets
  FROM unexplained u LEFT JOIN commits c
    ON c.run_id = u.run_id AND c.value = u.value AND c.topic = u.topic
    AND c.partition = u.partition AND c.begun <= u.ended
    AND coalesce(c.ended >= u.last_begun, true)
  GROUP BY u.run_id, u.process, u.line, u.topic, u.partition, u.operation, u.value, u.offset
)
