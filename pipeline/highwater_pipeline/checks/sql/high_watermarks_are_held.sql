-- I4: a replica's log ends below its high watermark.
WITH examined AS (
  SELECT * FROM {replicas} WHERE high_watermark >= 0 AND damage IS NULL
), findings AS (
  SELECT run_id, 'I4' AS invariant, topic, partition, log_end_offset AS offset,
    broker, 'ENDS_BELOW_HIGH_WATERMARK' AS wording, high_watermark
  FROM examined
  WHERE log_end_offset < high_watermark
)
