-- I3: logs that did not decode.
CREATE VIEW findings AS
SELECT run_id, 'I3', topic, "partition", -1, -1, '' FROM replicas
WHERE damage IS NOT NULL AND high_watermark >= 0;

CREATE VIEW examined AS
SELECT run_id, (
  SELECT count(*) FROM replicas r
  WHERE r.run_id = u.run_id AND high_watermark >= 0)
FROM runs u;
