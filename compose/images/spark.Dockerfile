# A master, a worker and its executors of Spark: what locks/pipeline.txt names, which pip put into
# packages/ on the host (pyspark carries Spark's jars), so the build needs no network. Our own
# packages are not here: whoever submits sends them. Any user may run it (start).
ARG BASE
FROM ${BASE}
COPY packages/ /opt/highwater/packages/
RUN python3 -m compileall -q --invalidation-mode unchecked-hash -j 0 -x /tests/ \
        /opt/highwater/packages \
    && chmod a+w /etc/passwd
COPY spark/ /opt/highwater/

ENV PATH=/opt/highwater/packages/pyspark/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SPARK_HOME=/opt/highwater/packages/pyspark PYTHONPATH=/opt/highwater/packages \
    PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
WORKDIR /tmp
# where a master is told of work, its page, a worker's page
EXPOSE 7077 8080 8081
ENTRYPOINT ["/opt/highwater/start"]
CMD ["spark-class", "org.apache.spark.deploy.master.Master"]
