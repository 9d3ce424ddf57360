"""The messages of proto/highwater_wire/v1/common.proto. Written by scripts/generate-proto."""

from highwater_wire.messages import define_messages

define_messages(
    globals(),
    b'\n\x1ehighwater_wire/v1/common.proto\x12\x0chighwater.v1"D\n\x0eTopicParti'
    b'tion\x12\x14\n\x05topic\x18\x01 \x01(\tR\x05topic\x12\x1c\n\tpartition\x18\x02 \x01(\x05R\tpartition"2\n\x08'
    b'Endpoint\x12\x12\n\x04host\x18\x01 \x01(\tR\x04host\x12\x12\n\x04port\x18\x02 \x01(\x05R\x04port"\xae\x02\n\x0fBrokerE'
    b'ndpoints\x12\x1b\n\tbroker_id\x18\x01 \x01(\x05R\x08brokerId\x12!\n\x0cbroker_epoch\x18\x02 \x01(\x03R'
    b'\x0bbrokerEpoch\x12.\n\x06client\x18\x03 \x01(\x0b2\x16.highwater.v1.EndpointR\x06client'
    b'\x12?\n\x0fclient_external\x18\x04 \x01(\x0b2\x16.highwater.v1.EndpointR\x0eclientExt'
    b'ernal\x128\n\x0breplication\x18\x05 \x01(\x0b2\x16.highwater.v1.EndpointR\x0breplicat'
    b'ion\x120\n\x07control\x18\x06 \x01(\x0b2\x16.highwater.v1.EndpointR\x07control"Z\n\x0bTop'
    b'icResult\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name\x12\x1d\n\nerror_code\x18\x02 \x01(\x05R\terrorCode\x12'
    b'\x18\n\x07message\x18\x03 \x01(\tR\x07messageb\x06proto3'
)
