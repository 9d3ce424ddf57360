-- C00: traces are whole: no event is missing, there twice, or without details that checks need.
-- Each start of a node numbers its events from 0; a start that lived before the run is declared
-- with the number from which its trace is the run's. Each seq sets one bit of a word of 32 bits, and
-- bits are counted, without a sort; only starts that are not whole are looked at event by event.
-- The lost end of a killed node's trace leaves no gap, and is not found.
WITH examined AS (
  SELECT * FROM {events}
), own AS (
  SELECT /*+ BROADCAST(b) */ e.run_id, e.node, e.incarnation, e.seq, coalesce(b.from_seq, 0) AS due
  FROM examined e LEFT JOIN {trace_begins} b
    ON b.run_id = e.run_id AND b.node = e.node AND b.incarnation = e.incarnation
  WHERE b.from_seq IS NULL OR e.seq >= b.from_seq
), words AS (
  SELECT run_id, node, incarnation, min(due) AS due, count(*) AS events, min(seq) AS first, max(seq) AS last,
    bit_count(bit_or(shiftleft(CAST(1 AS BIGINT), CAST(seq & 31 AS INT)))) AS different
  FROM own
  GROUP BY run_id, node, incarnation, shiftright(seq, 5)
), broken AS (
  SELECT run_id, node, incarnation
  FROM words
  GROUP BY run_id, node, incarnation
  HAVING min(first) <> min(due) OR sum(different) <> sum(events)
    OR max(last) <> min(due) + sum(events) - 1
), steps AS (
  SELECT /*+ BROADCAST(b) */ e.run_id, e.node, e.incarnation, e.seq, e.due, coalesce(lag(e.seq)
    OVER (PARTITION BY e.run_id, e.node, e.incarnation ORDER BY e.seq), e.due - 1) AS previous
  FROM own e JOIN broken b
    ON b.run_id = e.run_id AND b.node = e.node AND b.incarnation = e.incarnation
), needing AS (
  SELECT *, concat_ws(', ',
    CASE WHEN high_watermark IS NULL AND kind IN ('became_leader', 'log_truncated')
      THEN 'high_watermark' END,
    CASE WHEN from_offset IS NULL AND kind = 'log_truncated' THEN 'from_offset' END,
    CASE WHEN reason IS NULL AND kind IN ('log_truncated', 'group_state_changed')
      THEN 'reason' END,
    CASE WHEN isr IS NULL
      AND kind IN ('became_leader', 'high_watermark_advanced', 'isr_changed', 'isr_written')
      THEN 'isr' END,
    CASE WHEN leader IS NULL AND kind = 'leader_elected' THEN 'leader' END,
    CASE WHEN end_offset IS NULL AND kind = 'log_appended' THEN 'end_offset' END,
    CASE WHEN dirty_end IS NULL AND kind = 'log_compacted' THEN 'dirty_end' END,
    CASE WHEN deleted IS NULL AND kind = 'topics_changed' THEN 'deleted' END,
    CASE WHEN from_state IS NULL AND kind IN ('partition_state_changed',
      'replica_state_changed', 'transition_refused', 'state_change_failed') THEN 'from_state' END,
    CASE WHEN to_state IS NULL AND kind IN ('partition_state_changed',
      'replica_state_changed', 'transition_refused', 'state_change_failed') THEN 'to_state' END,
    CASE WHEN epoch_start_offset IS NULL AND kind = 'group_load_begun'
      THEN 'epoch_start_offset' END,
    CASE WHEN read_up_to IS NULL AND kind = 'group_load_ended' THEN 'read_up_to' END,
    CASE WHEN e.group IS NULL AND kind = 'group_state_changed' THEN 'group' END,
    CASE WHEN (topic IS NULL OR partition IS NULL OR leader_epoch IS NULL) AND kind IN (
      'became_follower', 'became_leader', 'high_watermark_advanced', 'isr_changed', 'isr_written',
      'leader_elected', 'log_appended', 'log_compacted', 'log_start_moved', 'log_truncated')
      THEN 'partition and leader epoch' END,
    CASE WHEN e.offset IS NULL AND kind IN ('became_leader', 'high_watermark_advanced',
      'log_appended', 'log_compacted', 'log_start_moved', 'log_truncated') THEN 'offset' END
  ) AS lacking
  FROM examined e
), findings AS (
  SELECT run_id, 'C00' AS invariant, '' AS topic, -1 AS partition, CASE
    WHEN seq = previous THEN 'TOLD_TWICE'
    WHEN previous = due - 1 THEN 'BEGINS_LATE'
    ELSE 'LEAVES_A_GAP' END AS wording,
    node, incarnation, seq, previous, NULL AS kind, NULL AS lacking
  FROM steps
  WHERE previous <> greatest(seq, -9223372036854775807) - 1
  UNION ALL
  SELECT run_id, 'C00', coalesce(topic, ''), coalesce(partition, -1), 'LACKS_DETAILS',
    node, incarnation, seq, NULL, kind, lacking
  FROM needing
  WHERE lacking <> ''
)
