"""The broker's Kafka API: one handler per API key, behind KafkaApi.handle.

Handlers use message values (highwater_wire.kafka.messages), partitions and the purgatory, and
neither sockets nor the wire format.
"""
