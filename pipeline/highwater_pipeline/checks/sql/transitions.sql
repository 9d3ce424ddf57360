-- I12: a controller changed a state as no table has it, or would have.
-- A change that cannot be made as things are (an election finds nobody) is sound, but not the new
-- start of a replica that leads.
WITH sound (from_state, to_state) AS (
  VALUES ('NonExistentPartition', 'NewPartition'), ('NewPartition', 'OnlinePartition'),
    ('OnlinePartition', 'OnlinePartition'), ('OfflinePartition', 'OnlinePartition'),
    ('NewPartition', 'OfflinePartition'), ('OnlinePartition', 'OfflinePartition'),
    ('OfflinePartition', 'OfflinePartition'), ('OfflinePartition', 'NonExistentPartition'),
    ('NonExistentReplica', 'NewReplica'), ('NewReplica', 'OnlineReplica'),
    ('OnlineReplica', 'OnlineReplica'), ('OfflineReplica', 'OnlineReplica'),
    ('ReplicaDeletionIneligible', 'OnlineReplica'), ('NewReplica', 'OfflineReplica'),
    ('OnlineReplica', 'OfflineReplica'), ('OfflineReplica', 'OfflineReplica'),
    ('ReplicaDeletionIneligible', 'OfflineReplica'), ('OfflineReplica', 'ReplicaDeletionStarted'),
    ('ReplicaDeletionStarted', 'ReplicaDeletionSuccessful'),
    ('OfflineReplica', 'ReplicaDeletionIneligible'),
    ('ReplicaDeletionStarted', 'ReplicaDeletionIneligible'),
    ('ReplicaDeletionSuccessful', 'NonExistentReplica')
), examined AS (
  SELECT *, kind IN ('partition_state_changed', 'replica_state_changed') AS is_made
  FROM {events}
  WHERE kind IN ('partition_state_changed', 'replica_state_changed', 'transition_refused',
    'state_change_failed')
), judged AS (
  SELECT DISTINCT run_id FROM examined
), findings AS (
  SELECT e.run_id, 'I12' AS invariant, coalesce(e.topic, '') AS topic,
    coalesce(e.partition, -1) AS partition,
    CASE WHEN e.is_made THEN 'WRONG_TRANSITION' ELSE 'WRONG_TRANSITION_TRIED' END AS wording,
    e.node, e.from_state, e.to_state
  FROM examined e LEFT JOIN sound s ON s.from_state = e.from_state AND s.to_state = e.to_state
  WHERE e.from_state IS NOT NULL AND e.to_state IS NOT NULL AND CASE
    WHEN e.is_made THEN s.to_state IS NULL
    ELSE e.kind = 'transition_refused' OR e.to_state = 'NewReplica'
  END
)
