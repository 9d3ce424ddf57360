# Python with the nodes' third-party packages, in a virtual environment; made from wheels that
# the host fetched (wheels/, chosen by locks/node.txt), so the build needs no network.
ARG BASE
FROM ${BASE} AS installed
COPY wheels/ /wheels/
RUN python3 -m venv /opt/highwater \
    && /opt/highwater/bin/pip install --quiet --no-index --no-deps --no-compile \
        --no-cache-dir --disable-pip-version-check /wheels/*.whl \
    && rm -rf /opt/highwater/lib/python3*/site-packages/pip* \
        /opt/highwater/lib/python3*/site-packages/setuptools* /opt/highwater/bin/pip* \
    && /opt/highwater/bin/python -m compileall -q --invalidation-mode unchecked-hash -j 0 \
        /opt/highwater/lib

FROM ${BASE}
COPY --from=installed /opt/highwater /opt/highwater
RUN useradd --uid 1000 --user-group --no-create-home --home-dir /var/lib/highwater highwater \
    && install --directory --owner=highwater --group=highwater /var/lib/highwater
