# The node image with planted bugs beside it, for tests of what the checks catch: a container runs
# python -m highwater_planted BUG highwater_broker. The node's own code is the same.
ARG NODE
FROM ${NODE}
COPY packages/ /opt/highwater/packages/
ARG BUILD=""
ENV HIGHWATER_BUILD=${BUILD}
