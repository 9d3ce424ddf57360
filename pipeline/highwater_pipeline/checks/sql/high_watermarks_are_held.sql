-- I4: a replica's log starts above its high watermark, or ends below it.
WITH examined AS (
  SELECT * FROM {replicas} WHERE high_watermark >= 0 AND damage IS NULL
), findings AS (
  SELECT run_id, 'I4' AS invariant, topic, partition, log_start_offset AS offset,
    broker, 'STARTS_ABOVE_HIGH_WATERMARK' AS wording, high_watermark
  FROM examined
  WHERE log_start_offset > high_watermark
  UNION ALL
  SELECT run_id, 'I4', topic, partition, log_end_offset, broker, 'ENDS_BELOW_HIGH_WATERMARK',
    high_watermark
  FROM examined
  WHERE log_end_offset < high_watermark
)
