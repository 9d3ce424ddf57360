"""Measures Highwater, and Apache Kafka beside it: `python -m bench --help`. Not in the wheel.

summary.py        min, median, max; ratios
measures.py       measurements through a client, of any system
systems.py        the interface of a measured system, and Highwater as one
apache_kafka/     Apache Kafka as a system: jars by Maven, an image, containers
targets.py        the measures, their repetitions, and the targets
rounds.py         the measuring, systems in turns
report.py         tables, JSON, Markdown

planted_containers.py   how often, and how fast, planted bugs are caught in containers
"""
