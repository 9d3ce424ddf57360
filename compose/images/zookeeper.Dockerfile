# ZooKeeper, one server. BASE is the official image, or one made from Debian's packages with a
# Java runtime and libzookeeper-java (harness/highwater/images/base.py).
ARG BASE
FROM ${BASE}

COPY zookeeper/ /opt/zookeeper/
RUN getent passwd 1000 >/dev/null || useradd --uid 1000 --user-group --no-create-home zookeeper; \
    mkdir -p /var/lib/zookeeper \
    && /opt/zookeeper/record-classes \
    && rm -rf /var/lib/zookeeper/* /tmp/* \
    && chown 1000:1000 /var/lib/zookeeper

USER 1000:1000
WORKDIR /var/lib/zookeeper
EXPOSE 2181
# Nobody restarts it with the official image's entry point: that one rewrites the configuration.
ENTRYPOINT []
CMD ["/opt/zookeeper/start"]
