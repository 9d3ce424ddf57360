-- C00: seqs whose predecessor is not there, and seqs that are there again.
CREATE VIEW missteps AS
SELECT DISTINCT run_id, node, incarnation, seq, 0 AS number
FROM events e
WHERE seq > 0 AND NOT EXISTS (
  SELECT 1 FROM events b
  WHERE b.run_id = e.run_id AND b.node = e.node AND b.incarnation = e.incarnation
    AND b.seq = e.seq - 1)
UNION ALL
SELECT run_id, node, incarnation, seq, number
FROM (
  SELECT *, row_number() OVER (PARTITION BY run_id, node, incarnation, seq) AS number FROM events)
WHERE number > 1;

CREATE VIEW findings AS
SELECT run_id, 'C00', '', -1, -1, -1, '' FROM missteps;

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM events e WHERE e.run_id = u.run_id) FROM runs u;
