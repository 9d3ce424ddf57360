"""The messages of proto/highwater_wire/v1/inspect.proto. Written by scripts/generate-proto."""

import highwater_wire.v1.common_pb2
from highwater_wire.messages import define_messages

define_messages(
    globals(),
    b'\n\x1fhighwater_wire/v1/inspect.proto\x12\x0chighwater.v1\x1a\x1ehighwater_w'
    b'ire/v1/common.proto"\x10\n\x0eInspectRequest"\xe7\x04\n\x0cNodeSnapshot\x12\x17\n\x07no'
    b'de_id\x18\x01 \x01(\x05R\x06nodeId\x12\x12\n\x04kind\x18\x02 \x01(\tR\x04kind\x12 \n\x0bincarnation\x18\x03 \x01(\x03'
    b'R\x0bincarnation\x12\x16\n\x06preset\x18\x04 \x01(\tR\x06preset\x12)\n\x10controller_epoch\x18\x05 '
    b'\x01(\x05R\x0fcontrollerEpoch\x12!\n\x0cbroker_epoch\x18\x06 \x01(\x03R\x0bbrokerEpoch\x12+\n\x11a'
    b'ctive_controller\x18\x07 \x01(\x08R\x10activeController\x12#\n\rcontroller_id\x18\x08 '
    b'\x01(\x05R\x0ccontrollerId\x12!\n\x0clive_brokers\x18\t \x03(\x05R\x0bliveBrokers\x129\n\x08repl'
    b'icas\x18\n \x03(\x0b2\x1d.highwater.v1.ReplicaSnapshotR\x08replicas\x120\n\x05tasks'
    b'\x18\x0b \x03(\x0b2\x1a.highwater.v1.TaskSnapshotR\x05tasks\x12%\n\x0eresident_bytes\x18'
    b'\x0c \x01(\x03R\rresidentBytes\x121\n\x08counters\x18\r \x03(\x0b2\x15.highwater.v1.Counte'
    b'rR\x08counters\x12P\n\x13unanswered_commands\x18\x0e \x03(\x0b2\x1f.highwater.v1.Unan'
    b'sweredCommandR\x12unansweredCommands\x12\x14\n\x05build\x18\x0f \x01(\tR\x05build"i\n\x11U'
    b'nansweredCommand\x12\x1b\n\tbroker_id\x18\x01 \x01(\x05R\x08brokerId\x12\x18\n\x07request\x18\x02 \x01'
    b'(\tR\x07request\x12\x1d\n\nwaiting_ms\x18\x03 \x01(\x03R\twaitingMs"\xc1\x04\n\x0fReplicaSnapsh'
    b'ot\x12E\n\x0ftopic_partition\x18\x01 \x01(\x0b2\x1c.highwater.v1.TopicPartitionR\x0et'
    b'opicPartition\x12\x12\n\x04role\x18\x02 \x01(\tR\x04role\x12\x16\n\x06leader\x18\x03 \x01(\x05R\x06leader\x12!\n'
    b'\x0cleader_epoch\x18\x04 \x01(\x05R\x0bleaderEpoch\x12)\n\x10controller_epoch\x18\x05 \x01(\x05R\x0f'
    b"controllerEpoch\x12'\n\x0fpartition_epoch\x18\x06 \x01(\x03R\x0epartitionEpoch\x12%\n\x0e"
    b'high_watermark\x18\x07 \x01(\x03R\rhighWatermark\x12(\n\x10log_start_offset\x18\x08 \x01('
    b'\x03R\x0elogStartOffset\x12$\n\x0elog_end_offset\x18\t \x01(\x03R\x0clogEndOffset\x12\x10\n\x03i'
    b'sr\x18\n \x03(\x05R\x03isr\x12+\n\x11assigned_replicas\x18\x0b \x03(\x05R\x10assignedReplicas\x128'
    b'\n\tfollowers\x18\x0c \x03(\x0b2\x1a.highwater.v1.FollowerViewR\tfollowers\x129\n\x0b'
    b'epoch_cache\x18\r \x03(\x0b2\x18.highwater.v1.EpochEntryR\nepochCache\x12\x19\n\x08t'
    b'opic_id\x18\x0e \x01(\tR\x07topicId"|\n\x0cFollowerView\x12\x1b\n\tbroker_id\x18\x01 \x01(\x05R\x08b'
    b'rokerId\x12$\n\x0elog_end_offset\x18\x02 \x01(\x03R\x0clogEndOffset\x12)\n\x11last_caught'
    b'_up_ms\x18\x03 \x01(\x03R\x0elastCaughtUpMs"R\n\nEpochEntry\x12!\n\x0cleader_epoch\x18\x01'
    b' \x01(\x05R\x0bleaderEpoch\x12!\n\x0cstart_offset\x18\x02 \x01(\x03R\x0bstartOffset"8\n\x0cTask'
    b'Snapshot\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x14\n\x05count\x18\x02 \x01(\x05R\x05count"3\n\x07Counte'
    b'r\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x14\n\x05value\x18\x02 \x01(\x03R\x05value".\n\x11WatchTraceReq'
    b'uest\x12\x19\n\x08from_seq\x18\x01 \x01(\x03R\x07fromSeq"\x1f\n\tTraceLine\x12\x12\n\x04json\x18\x01 \x01(\x0cR\x04'
    b'json"\x91\x01\n\x13SetFailPointRequest\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x125\n\x06action\x18\x02'
    b' \x01(\x0e2\x1d.highwater.v1.FailPointActionR\x06action\x12\x14\n\x05count\x18\x03 \x01(\x05R\x05'
    b'count\x12\x19\n\x08delay_ms\x18\x04 \x01(\x05R\x07delayMs"5\n\x14SetFailPointResponse\x12\x1d\n\n'
    b'error_code\x18\x01 \x01(\x05R\terrorCode*e\n\x0fFailPointAction\x12\x19\n\x15FAIL_POINT'
    b'_ACTION_OFF\x10\x00\x12\x1b\n\x17FAIL_POINT_ACTION_DELAY\x10\x01\x12\x1a\n\x16FAIL_POINT_ACT'
    b'ION_EXIT\x10\x022\xf0\x01\n\x07Inspect\x12D\n\x08Snapshot\x12\x1c.highwater.v1.InspectReq'
    b'uest\x1a\x1a.highwater.v1.NodeSnapshot\x12H\n\nWatchTrace\x12\x1f.highwater.v'
    b'1.WatchTraceRequest\x1a\x17.highwater.v1.TraceLine0\x01\x12U\n\x0cSetFailPoi'
    b'nt\x12!.highwater.v1.SetFailPointRequest\x1a".highwater.v1.SetFail'
    b'PointResponseb\x06proto3'
)
