-- I11: a replica cuts its log below the high watermark that it has then.
-- A replica may have to truncate once it follows: both events are looked at.
WITH examined AS (
  SELECT * FROM {events} WHERE kind IN ('log_truncated', 'became_follower')
), findings AS (
  SELECT run_id, 'I11' AS invariant, coalesce(topic, '') AS topic,
    coalesce(partition, -1) AS partition, e.offset, 'CUT_BELOW_HIGH_WATERMARK' AS wording,
    node, high_watermark, reason
  FROM examined e
  WHERE kind = 'log_truncated' AND e.offset < high_watermark
)
