# A controller or a broker: one image, told apart by the command
# (python -m highwater_controller, python -m highwater_broker). DEPS is node-deps.Dockerfile's.
# Run it with an init process (--init, init: true): that is PID 1, forwards signals and reaps.
ARG DEPS
FROM ${DEPS}

COPY packages/ /opt/highwater/packages/
RUN python3 -c "import glob; \
open(glob.glob('/opt/highwater/lib/python3*/site-packages')[0] + '/highwater.pth', 'w') \
.write('/opt/highwater/packages\n')" \
    && /opt/highwater/bin/python -m compileall -q --invalidation-mode unchecked-hash -j 0 \
        /opt/highwater/packages

# The image's tag, which its nodes tell.
ARG BUILD=""
ENV HIGHWATER_BUILD=${BUILD}
ENV PATH=/opt/highwater/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1 \
    GRPC_VERBOSITY=ERROR
USER highwater
WORKDIR /var/lib/highwater
VOLUME /var/lib/highwater
# client, replication, client as the host reaches it, control, metrics
EXPOSE 9092 9093 9094 9095 9404
STOPSIGNAL SIGTERM
CMD ["python", "-c", "raise SystemExit('give a command: python -m highwater_broker')"]
