-- The processes whose histories may lack lines, each with its promised groups: highwater_checker's
-- incomplete.py. is_of_any: it may be a member of any group, or commit for it.
WITH found AS (
  SELECT run_id, replace(substr(file, 9), '.jsonl', '') AS process
  FROM {quarantine}
  WHERE file LIKE 'history/%.jsonl' AND file NOT LIKE 'history/.%'
    AND file NOT LIKE 'history/%.%.%.jsonl' AND reason NOT LIKE 'torn: %'
  UNION
  SELECT run_id, explode(incomplete) AS process FROM {runs}
)
SELECT f.run_id, f.process, m.group_id,
  m.group_id IS NULL AND NOT coalesce(array_contains(r.consumers, split_part(f.process, '.', 1)), false)
  AND NOT EXISTS (
    SELECT 1 FROM {operations} o
    WHERE o.run_id = f.run_id AND o.process = f.process AND o.function = 'send'
  ) AS is_of_any
FROM found f
JOIN {runs} r ON r.run_id = f.run_id
LEFT JOIN {group_members} m
  ON m.run_id = f.run_id AND m.client = split_part(f.process, '.', 1)
