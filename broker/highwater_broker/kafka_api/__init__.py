"""The broker's Kafka API: one handler per API key, behind KafkaApi.handle.

Handlers know message values (highwater_wire.kafka.messages), partitions and the purgatory; they
know neither sockets nor the wire format.
"""
