-- I11: logs that were cut below their high watermark.
CREATE VIEW findings AS
SELECT run_id, 'I11', ifnull(topic, ''), ifnull("partition", -1), "offset", -1, ''
FROM events
WHERE kind = 'log_truncated' AND "offset" < CAST(detail ->> '$.high_watermark' AS BIGINT);

CREATE VIEW examined AS
SELECT run_id, (
  SELECT count(*) FROM events e
  WHERE e.run_id = u.run_id AND kind IN ('log_truncated', 'became_follower'))
FROM runs u;
