-- I6: each state that leaders told of, and what is wrong with it.
CREATE VIEW states AS
SELECT DISTINCT run_id, topic, "partition", node, leader_epoch, list_sort(isr) AS isr,
  assigned_replicas
FROM replica_looks r
WHERE role = 'leader' AND NOT EXISTS (
  SELECT 1 FROM replica_looks o
  WHERE o.run_id = r.run_id AND o.look = r.look AND o.topic = r.topic
    AND o."partition" = r."partition" AND o.role = 'leader'
    AND (o.leader_epoch > r.leader_epoch
      OR (o.leader_epoch = r.leader_epoch AND o.node < r.node)));

CREATE VIEW problems AS
SELECT *, 'empty' AS problem FROM states WHERE len(isr) = 0
UNION ALL
SELECT *, 'stranger' FROM states WHERE EXISTS (
  SELECT 1 FROM (SELECT unnest(isr) AS member)
  WHERE NOT list_contains(assigned_replicas, member))
UNION ALL
SELECT *, 'leader' FROM states WHERE NOT list_contains(isr, node)
UNION ALL
SELECT *, 'twice' FROM states WHERE len(list_distinct(isr)) < len(isr);

CREATE VIEW findings AS
SELECT run_id, 'I6', topic, "partition", -1, -1, '' FROM problems;

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM states r WHERE r.run_id = u.run_id) FROM runs u;
