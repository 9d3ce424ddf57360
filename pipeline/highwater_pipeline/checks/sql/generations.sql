-- I21: a partition has one owner in a generation, and nobody commits for an older generation.
-- Lines of one group are in the order of time, then as their files have them. A commit belongs to
-- the generation in which its process was last assigned something. Two processes with one key are
-- one static member, started again. A process with an incomplete history may have been assigned a
-- newer generation.
WITH deleted AS (
  SELECT DISTINCT e.run_id, e.group AS group_id FROM {events} e
  WHERE kind = 'group_state_changed' AND reason = 'GROUP_ID_NOT_FOUND'
), judged AS (
  SELECT DISTINCT run_id FROM {operations} WHERE function = 'assigned'
), told AS (
  SELECT run_id, value AS group_id, process, function = 'assigned' AS is_assigned, type, topic,
    partition, generation, coalesce(key, '') AS key,
    process || chr(39) || 's ' || function || ' ' || operation_id AS operation,
    lead(type) OVER (
      PARTITION BY run_id, process, operation_id, function ORDER BY time_ns, line
    ) AS outcome,
    row_number() OVER (
      PARTITION BY run_id, value ORDER BY time_ns, process || '.jsonl', line
    ) AS place
  FROM {operations} o
  WHERE function IN ('assigned', 'commit') AND NOT EXISTS (
    SELECT 1 FROM deleted d WHERE d.run_id = o.run_id AND d.group_id = o.value
  )
), of_members AS (
  SELECT *,
    max(CASE WHEN is_assigned THEN generation END)
      OVER (PARTITION BY run_id, group_id ORDER BY place) AS newest,
    max_by(generation, CASE WHEN is_assigned THEN place END) OVER own AS own_generation,
    max_by(key, CASE WHEN is_assigned THEN place END) OVER own AS own_key
  FROM told
  WINDOW own AS (PARTITION BY run_id, group_id, process ORDER BY place)
), examined AS (
  SELECT * FROM of_members
  WHERE is_assigned OR type = 'ok' AND own_generation IS NOT NULL
), beside AS (
  SELECT *,
    max_by(process, CASE WHEN is_assigned THEN place END) OVER before AS owner,
    max_by(key, CASE WHEN is_assigned THEN place END) OVER before AS owner_key
  FROM of_members
  WHERE topic <> ''
  WINDOW before AS (
    PARTITION BY run_id, group_id, own_generation, topic, partition ORDER BY place
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  )
), wrong AS (
  SELECT *, CASE
    WHEN is_assigned AND owner <> process AND (key = '' OR owner_key <> key) THEN 'TWO_OWNERS'
    WHEN type = 'invoke' AND outcome = 'ok' AND own_generation < newest THEN 'OUTDATED_COMMIT'
    WHEN type = 'invoke' AND outcome = 'ok' AND owner <> process
      AND own_key <> '' AND owner_key = own_key THEN 'REPLACED_COMMIT'
  END AS wording
  FROM beside
), findings AS (
  SELECT run_id, 'I21' AS invariant, topic, partition, operation, wording, group_id AS group,
    own_generation AS generation, process, owner AS first, newest, owner AS successor
  FROM wrong w
  WHERE wording IS NOT NULL AND (wording = 'TWO_OWNERS' OR NOT EXISTS (
    SELECT 1 FROM {incomplete} i WHERE i.run_id = w.run_id AND i.process = w.process
  ))
)
