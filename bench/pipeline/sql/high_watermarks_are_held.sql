-- I4: HW <= LEO of every replica that was read.
CREATE VIEW whole AS
SELECT * FROM replicas WHERE damage IS NULL AND high_watermark >= 0;

CREATE VIEW findings AS
SELECT run_id, 'I4', topic, "partition", log_end_offset, -1, ''
FROM whole WHERE high_watermark > log_end_offset;

CREATE VIEW examined AS
SELECT u.run_id, count(w.run_id) FROM runs u LEFT JOIN whole w USING (run_id) GROUP BY ALL;
