-- I6: the ISR is a non-empty part of the assignment, and the leader is in it.
-- Each different state of a run is looked at once. The leader is the node that shows itself as
-- leader in the highest leader epoch of the look; of several such nodes, the lowest.
WITH leaders AS (
  SELECT *, row_number() OVER (
    PARTITION BY run_id, topic, partition, look ORDER BY leader_epoch DESC, node
  ) AS place
  FROM {replica_looks}
  WHERE role = 'leader'
), examined AS (
  SELECT DISTINCT run_id, topic, partition, node AS leader, leader_epoch, array_sort(isr) AS isr,
    assigned_replicas
  FROM leaders
  WHERE place = 1
), findings AS (
  SELECT run_id, 'I6' AS invariant, topic, partition, leader AS broker, wording,
    leader, leader_epoch, isr, assigned_replicas
  FROM examined CROSS JOIN (
    VALUES ('EMPTY_ISR'), ('STRANGER_IN_ISR'), ('LEADER_NOT_IN_ISR'), ('TWICE_IN_ISR')
  ) AS problems (wording)
  WHERE CASE wording
    WHEN 'EMPTY_ISR' THEN size(isr) = 0
    WHEN 'STRANGER_IN_ISR' THEN size(array_except(isr, assigned_replicas)) > 0
    WHEN 'LEADER_NOT_IN_ISR' THEN NOT array_contains(isr, leader)
    WHEN 'TWICE_IN_ISR' THEN size(array_distinct(isr)) < size(isr)
  END
)
