-- I9 and nonmonotonic-poll: a consumer is refused its offset, or goes back, though the logs of the
-- leaders of that time had that place. highwater_checker's going_on.py and leaders_logs.py say why
-- each cause is one. Few consumers leave their places: only their partitions' events are looked at.
-- Times are decimals, since a file may have any number.
WITH members AS (
  SELECT DISTINCT run_id, process FROM {operations} WHERE function = 'assigned'
), told AS (
  SELECT o.run_id, o.process, o.line, o.topic, o.partition, o.function, o.offset, o.value,
    CAST(o.time_ns AS DECIMAL(38, 0)) AS time_ns,
    o.process || chr(39) || 's ' || o.function || ' ' || o.operation_id AS operation,
    o.function <> 'poll' OR o.type = 'ok' AS is_known,
    o.function = 'poll' AND o.type = 'ok' AS is_read,
    o.function = 'assigned' AND o.operation_id IS DISTINCT FROM lag(o.operation_id) OVER (
      PARTITION BY o.run_id, o.process, o.function ORDER BY o.line
    ) AS begins_term
  FROM {operations} o
  WHERE (o.function IN ('assigned', 'reset') OR o.function = 'poll'
      AND (o.type = 'ok' OR o.error = 'OFFSET_OUT_OF_RANGE'))
    AND NOT EXISTS (
      SELECT 1 FROM {incomplete} i WHERE i.run_id = o.run_id AND i.process = o.process
    )
), in_terms AS (
  SELECT *, count(CASE WHEN begins_term THEN 1 END) OVER (
    PARTITION BY run_id, process ORDER BY line
  ) AS term
  FROM told
), examined AS (
  SELECT run_id FROM told WHERE is_read
), judged AS (
  SELECT DISTINCT run_id FROM examined
), numbered AS (
  SELECT *, count(CASE WHEN is_known THEN 1 END) OVER (
    PARTITION BY run_id, process, term, topic, partition ORDER BY line
  ) - CASE WHEN is_known THEN 1 ELSE 0 END AS earlier
  FROM in_terms
), placed AS (
  SELECT n.*, coalesce(k.time_ns, 0) AS since_ns, coalesce(
    CASE WHEN k.is_read THEN least(k.offset, 9223372036854775806) + 1 ELSE k.offset END, -1
  ) AS next_offset
  FROM numbered n LEFT JOIN numbered k
    ON k.run_id = n.run_id AND k.process = n.process AND k.term = n.term AND k.topic = n.topic
    AND k.partition = n.partition AND k.is_known AND k.earlier + 1 = n.earlier
), refusals AS (
  SELECT *, NOT is_known AND p.offset >= greatest(next_offset, 0) AS is_refused,
    count(CASE WHEN function = 'reset' THEN 1 END) OVER (
      PARTITION BY run_id, process, topic, partition ORDER BY line
    ) - CASE WHEN function = 'reset' THEN 1 ELSE 0 END AS resets
  FROM placed p
), in_order AS (
  SELECT *, count(CASE WHEN is_refused THEN 1 END) OVER (
    PARTITION BY run_id, process, topic, partition, resets ORDER BY line
  ) AS refused
  FROM refusals
), departures AS (
  SELECT d.run_id, d.process, d.line, d.topic, d.partition, d.operation, d.value, d.is_read,
    d.offset AS read_offset, CASE WHEN d.is_refused THEN d.offset ELSE next_offset END AS offset,
    CAST(r.start_wall_ns AS DECIMAL(38, 0)) + since_ns AS since_ns,
    CAST(r.start_wall_ns AS DECIMAL(38, 0)) + time_ns + 100000000 AS to_ns,
    CASE WHEN d.is_read THEN 10100000000 ELSE 1100000000 END AS kept_ns
  FROM in_order d JOIN {runs} r ON r.run_id = d.run_id
  WHERE is_refused
    OR d.function = 'reset' AND refused = 0 AND next_offset >= 0
    OR d.is_read AND d.offset < next_offset AND NOT EXISTS (
      SELECT 1 FROM members m
      WHERE m.run_id = d.run_id AND m.process = d.process AND d.term > 0
    )
), places AS (
  SELECT DISTINCT run_id, topic, partition FROM departures
), gone AS (
  SELECT run_id, topic FROM {events} WHERE kind = 'topic_deleted'
  UNION
  SELECT run_id, explode(deleted) FROM {events} WHERE kind = 'topics_changed'
  UNION
  SELECT run_id, topic FROM {events} WHERE kind = 'became_leader' AND topic_id <> ''
  GROUP BY run_id, topic HAVING min(topic_id) < max(topic_id)
), starts AS (
  SELECT e.run_id, e.topic, e.partition, e.offset AS start_offset, e.ts_ns
  FROM {events} e JOIN places p
    ON p.run_id = e.run_id AND p.topic = e.topic AND p.partition = e.partition
  WHERE e.kind = 'log_start_moved' AND e.offset IS NOT NULL
), untold AS (
  SELECT l.run_id, l.topic, l.partition
  FROM {replicas} l LEFT JOIN (
    SELECT run_id, topic, partition, max(start_offset) AS start_offset FROM starts
    GROUP BY run_id, topic, partition
  ) s ON s.run_id = l.run_id AND s.topic = l.topic AND s.partition = l.partition
  WHERE l.damage IS NULL AND l.high_watermark >= 0
  GROUP BY l.run_id, l.topic, l.partition
  HAVING max(l.log_start_offset) > max(greatest(coalesce(s.start_offset, 0), 0))
), of_leaders AS (
  SELECT e.run_id, e.node, e.incarnation, e.seq, e.kind, e.topic, e.partition, e.offset,
    e.end_offset, e.ts_ns
  FROM {events} e JOIN places p
    ON p.run_id = e.run_id AND p.topic = e.topic AND p.partition = e.partition
  WHERE e.kind IN ('became_leader', 'became_follower', 'replica_stopped', 'log_appended')
), led AS (
  SELECT * FROM of_leaders WHERE kind = 'became_leader'
), ended AS (
  SELECT t.run_id, t.node, t.incarnation, t.seq, t.topic, t.partition,
    min(e.seq) AS end_seq, min_by(e.ts_ns, e.seq) AS to_ns
  FROM led t JOIN of_leaders e
    ON e.run_id = t.run_id AND e.node = t.node AND e.incarnation = t.incarnation
    AND e.topic = t.topic AND e.partition = t.partition
  WHERE e.seq > t.seq AND e.kind <> 'log_appended'
  GROUP BY t.run_id, t.node, t.incarnation, t.seq, t.topic, t.partition
), stopped AS (
  SELECT t.run_id, t.node, t.incarnation, t.seq,
    min(e.seq) AS end_seq, min_by(e.ts_ns, e.seq) AS to_ns
  FROM led t JOIN {events} e
    ON e.run_id = t.run_id AND e.node = t.node AND e.incarnation = t.incarnation
  WHERE e.kind = 'node_stopped' AND e.seq > t.seq
  GROUP BY t.run_id, t.node, t.incarnation, t.seq
), begun AS (
  SELECT run_id, node, incarnation, min_by(ts_ns, seq) AS ts_ns
  FROM {events}
  GROUP BY run_id, node, incarnation
), begun_again AS (
  SELECT t.run_id, t.node, t.incarnation, min_by(e.ts_ns, e.incarnation) AS to_ns
  FROM led t JOIN begun e ON e.run_id = t.run_id AND e.node = t.node
  WHERE e.incarnation > t.incarnation
  GROUP BY t.run_id, t.node, t.incarnation
), terms AS (
  SELECT t.run_id, t.node, t.incarnation, t.seq, t.topic, t.partition, t.offset AS begin_offset,
    t.ts_ns AS from_ns, least(e.end_seq, s.end_seq) AS end_seq, CASE
      WHEN e.end_seq < coalesce(s.end_seq, 9223372036854775807) THEN e.to_ns
      WHEN s.end_seq IS NOT NULL THEN s.to_ns
      ELSE b.to_ns
    END AS to_ns
  FROM led t
  LEFT JOIN ended e
    ON e.run_id = t.run_id AND e.node = t.node AND e.incarnation = t.incarnation AND e.seq = t.seq
    AND e.topic = t.topic AND e.partition = t.partition
  LEFT JOIN stopped s
    ON s.run_id = t.run_id AND s.node = t.node AND s.incarnation = t.incarnation AND s.seq = t.seq
  LEFT JOIN begun_again b
    ON b.run_id = t.run_id AND b.node = t.node AND b.incarnation = t.incarnation
  WHERE t.offset IS NOT NULL
), reached AS (
  SELECT d.run_id, d.process, d.line, t.node, t.incarnation, t.seq, t.from_ns,
    d.since_ns - d.kept_ns AS kept_from_ns, d.since_ns + 100000000 AS served_ns,
    coalesce(t.from_ns <= d.to_ns, true)
      AND coalesce(t.to_ns >= d.since_ns - d.kept_ns, true) AS leads,
    t.begin_offset >= d.offset AS had_all, (
      d.since_ns IS NULL OR t.from_ns <= d.since_ns + 100000000
    ) AS began_in_time, min(a.ts_ns) AS reached_ns
  FROM departures d JOIN terms t
    ON t.run_id = d.run_id AND t.topic = d.topic AND t.partition = d.partition
  LEFT JOIN of_leaders a
    ON a.run_id = t.run_id AND a.node = t.node AND a.incarnation = t.incarnation
    AND a.topic = t.topic AND a.partition = t.partition AND a.kind = 'log_appended'
    AND a.seq > t.seq AND a.seq < coalesce(t.end_seq, 9223372036854775807)
    AND a.end_offset >= d.offset
  GROUP BY d.run_id, d.process, d.line, t.node, t.incarnation, t.seq, t.from_ns, t.to_ns,
    t.begin_offset, d.offset, d.since_ns, d.kept_ns, d.to_ns
), beside AS (
  SELECT *, began_in_time
      AND (had_all OR reached_ns IS NOT NULL AND coalesce(reached_ns <= served_ns, true)) AS served,
    leads AND NOT had_all
      AND (reached_ns IS NULL OR coalesce(reached_ns > kept_from_ns, true)) AS lacked
  FROM reached
), counted AS (
  SELECT run_id, process, line, count(CASE WHEN leads THEN 1 END) AS led,
    count(CASE WHEN served THEN 1 END) AS servers, count(CASE WHEN lacked THEN 1 END) AS lacking,
    count(CASE WHEN lacked AND served THEN 1 END) AS both
  FROM beside
  GROUP BY run_id, process, line
), findings AS (
  SELECT d.run_id, CASE WHEN d.is_read THEN 'nonmonotonic-poll' ELSE 'I9' END AS invariant,
    d.topic, d.partition, d.offset, d.operation,
    CASE WHEN d.is_read THEN 'READ_BELOW' ELSE 'REFUSED_WITHOUT_CAUSE' END AS wording,
    d.process, CASE WHEN d.is_read THEN d.value END AS value,
    CASE WHEN d.is_read THEN d.read_offset END AS read_offset
  FROM departures d JOIN counted c
    ON c.run_id = d.run_id AND c.process = d.process AND c.line = d.line
  WHERE c.led > 0 AND (c.lacking = 0 OR c.servers = 1 AND c.lacking = 1 AND c.both = 1)
    AND NOT EXISTS (SELECT 1 FROM gone g WHERE g.run_id = d.run_id AND g.topic = d.topic)
    AND NOT EXISTS (
      SELECT 1 FROM untold u
      WHERE u.run_id = d.run_id AND u.topic = d.topic AND u.partition = d.partition
    )
    AND NOT EXISTS (
      SELECT 1 FROM starts s
      WHERE s.run_id = d.run_id AND s.topic = d.topic AND s.partition = d.partition
        AND s.start_offset > d.offset AND coalesce(s.ts_ns <= d.to_ns, true)
    )
)
