-- I19: a log is compacted by records above every high watermark that was told by then.
-- Those of one instant count, too. Before any was told nothing is examined.
WITH told AS (
  SELECT *, CASE kind WHEN 'became_leader' THEN high_watermark
      WHEN 'high_watermark_advanced' THEN e.offset END AS told
  FROM {events} e WHERE kind IN ('became_leader', 'high_watermark_advanced', 'log_compacted')
), known AS (
  SELECT *, max(told) OVER (
      PARTITION BY run_id, topic, coalesce(topic_id, ''), partition ORDER BY ts_ns
      RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS committed
  FROM told
), examined AS (
  SELECT * FROM known WHERE kind = 'log_compacted' AND committed >= 0
), findings AS (
  SELECT run_id, 'I19' AS invariant, topic, partition, dirty_end AS offset, node AS broker,
    'COMPACTED_UNCOMMITTED' AS wording, node, committed AS high_watermark
  FROM examined
  WHERE dirty_end > committed
)
