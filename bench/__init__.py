"""Measures Highwater, and Apache Kafka beside it: `python -m bench --help`. Not in the wheel.

summary.py        min, median, max; ratios
measures.py       what is measured through a client; knows nothing of what answers
systems.py        what a measured system can do, and Highwater as one
apache_kafka/     Apache Kafka as one: jars by Maven, an image, containers
plan.py           what is measured, how often, and the targets
rounds.py         the measuring itself, systems taking turns
report.py         tables, JSON, Markdown

planted_containers.py   how often, and how fast, planted bugs are caught in containers
"""
