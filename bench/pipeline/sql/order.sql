-- Order: every pair of sends of a topic's life is looked at.
CREATE VIEW acknowledged AS
SELECT o.* EXCLUDE (life), ifnull(o.life, '') AS life, o.process || '''s send ' || o.operation_id AS operation, b.time_ns AS invoked_ns
FROM operations o
LEFT JOIN operations b ON b.run_id = o.run_id AND b.process = o.process
  AND b.operation_id = o.operation_id AND b."function" = 'send' AND b."type" = 'invoke'
WHERE o."function" = 'send' AND o."type" = 'ok' AND (o.acks = -1 OR o.acks IS NULL)
  AND ifnull(o.life, '') <> '?' AND o.is_unmatched IS NULL;

CREATE VIEW findings AS
SELECT run_id, 'realtime-send' AS invariant, topic, "partition", "offset", -1, operation
FROM acknowledged late
WHERE EXISTS (
  SELECT 1 FROM acknowledged first
  WHERE first.run_id = late.run_id AND first.topic = late.topic AND first.life = late.life
    AND first."partition" = late."partition" AND first.time_ns < late.invoked_ns
    AND first."offset" >= late."offset")
UNION ALL
SELECT run_id, 'nonmonotonic-send', topic, "partition", "offset", -1, operation
FROM acknowledged late
WHERE max_in_flight = 1 AND tries = 1 AND ("offset" < 0 OR EXISTS (
  SELECT 1 FROM acknowledged first
  WHERE first.run_id = late.run_id AND first.topic = late.topic AND first.life = late.life
    AND first."partition" = late."partition" AND first.process = late.process
    AND first.tries = 1 AND first.operation_id < late.operation_id
    AND first."offset" >= late."offset"));

CREATE VIEW examined AS
SELECT run_id, (SELECT count(*) FROM acknowledged a WHERE a.run_id = u.run_id) FROM runs u;
