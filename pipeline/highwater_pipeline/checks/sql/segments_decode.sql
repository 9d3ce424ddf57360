-- I3: the log of a replica that a verdict needs did not decode.
WITH examined AS (
  SELECT * FROM {replicas} WHERE high_watermark >= 0
), findings AS (
  SELECT run_id, 'I3' AS invariant, topic, partition, coalesce(damage_offset, -1) AS offset, broker,
    'DAMAGED' AS wording, damage
  FROM examined
  WHERE damage IS NOT NULL
)
