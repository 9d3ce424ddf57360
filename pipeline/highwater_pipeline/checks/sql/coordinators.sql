-- I14: groups without a leadership, a leadership without groups, and loads that stopped early.
-- Of each start of a broker and each offsets partition, in the order of its trace. What must follow
-- an event is asked of the next one, where there is one; a high watermark may rise between. A leader
-- that begins closed leads from the ISR on that it writes next.
WITH of_groups AS (
  SELECT * FROM {events}
  WHERE topic = '__consumer_offsets' AND partition IS NOT NULL AND kind <> 'high_watermark_advanced'
), opened AS (
  SELECT run_id, node, incarnation, partition, seq,
    kind = 'isr_changed' AND lag(kind = 'became_leader' AND NOT coalesce(is_open, true))
      OVER (PARTITION BY run_id, node, incarnation, partition ORDER BY seq) AS opens
  FROM of_groups
  WHERE kind IN ('became_leader', 'became_follower', 'replica_stopped', 'isr_changed')
), own AS (
  SELECT e.run_id, e.node, e.incarnation, e.topic, e.partition, e.seq, e.leader_epoch,
    e.epoch_start_offset, e.read_up_to,
    CASE WHEN coalesce(o.opens, false) THEN 'became_leader'
      WHEN e.kind = 'became_leader' AND NOT coalesce(e.is_open, true) THEN 'began_closed'
      ELSE e.kind END AS kind
  FROM of_groups e LEFT JOIN opened o
    ON o.run_id = e.run_id AND o.node = e.node AND o.incarnation = e.incarnation
      AND o.partition = e.partition AND o.seq = e.seq
), examined AS (
  SELECT * FROM own WHERE kind = 'group_load_ended'
), judged AS (
  SELECT DISTINCT run_id FROM {events} WHERE kind = 'group_load_begun'
), last_seqs AS (
  SELECT *,
    coalesce(max(CASE WHEN kind = 'became_leader' THEN seq END) OVER before, -1) AS led,
    coalesce(max(CASE WHEN kind IN ('became_follower', 'replica_stopped', 'began_closed') THEN seq
      END) OVER before, -1) AS resigned,
    coalesce(max(CASE WHEN kind = 'group_load_begun' THEN seq END) OVER before, -1) AS begun,
    coalesce(max(CASE WHEN kind = 'group_load_ended' THEN seq END) OVER before, -1) AS ended,
    coalesce(max(CASE WHEN kind = 'group_unloaded' THEN seq END) OVER before, -1) AS unloaded,
    max_by(epoch_start_offset, CASE WHEN kind = 'group_load_begun' THEN seq END) OVER before
      AS least,
    lead(kind) OVER (PARTITION BY run_id, node, incarnation, partition ORDER BY seq) AS next
  FROM own
  WINDOW before AS (
    PARTITION BY run_id, node, incarnation, partition ORDER BY seq
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  )
), wrong AS (
  SELECT *, CASE
    WHEN kind = 'became_leader' AND begun <= unloaded AND next <> 'group_load_begun'
      OR kind = 'group_unloaded' AND led > resigned AND next <> 'replica_stopped'
      THEN 'LEADS_WITHOUT_GROUPS'
    WHEN kind IN ('became_follower', 'began_closed') AND begun > unloaded
      AND next <> 'group_unloaded'
      OR kind = 'replica_stopped' AND begun > unloaded THEN 'KEEPS_GROUPS'
    WHEN kind = 'group_load_begun' AND led <= resigned
      OR kind = 'group_load_ended' AND begun <= greatest(ended, unloaded)
      THEN 'LOADED_WITHOUT_LEADING'
    WHEN kind = 'group_load_ended' AND read_up_to < least THEN 'LOAD_STOPPED_EARLY'
  END AS wording
  FROM last_seqs
), findings AS (
  SELECT run_id, 'I14' AS invariant, topic, partition, node AS broker, wording, leader_epoch,
    coalesce(read_up_to, -1) AS end_offset
  FROM wrong
  WHERE wording IS NOT NULL
)
