"""Apache Kafka 3.9.1 with ZooKeeper, as a measured system beside Highwater.

jars.py     the released jars, by Maven, kept in .cache/
system.py   an image of ZooKeeper's Java runtime and the jars; three brokers of it
"""
