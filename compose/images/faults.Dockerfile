# What joins a node's network namespace for a second: in_namespace.py loads nft rules and exchanges
# canaries; other entry points: tcp_in_namespace.py lists connections and breaks them, packet_queue.py
# holds packets back as long as a link is slow or narrow.
ARG BASE
FROM ${BASE}
COPY *.py /highwater/faults/links/
ENV PYTHONPATH=/
ENTRYPOINT ["python3", "/highwater/faults/links/in_namespace.py"]
