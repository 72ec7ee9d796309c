#!/bin/sh
# What the image of pipeline/Dockerfile does: `executor` is how Spark on Kubernetes starts an executor, with all it has
# to know in SPARK_…, as in Spark's own image; everything else is a command of stampede-pipeline.
# Rule: no option of Spark is decided here, they are passed on as the driver gave them.
set -eu
[ "${1-}" = executor ] || exec stampede-pipeline "$@"

home=$(python3 -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
# SPARK_JAVA_OPT_0, _1 and so on: an option of Java each, which may have blanks in it.
set --
n=0
while option=$(printenv "SPARK_JAVA_OPT_$n"); do
  set -- "$@" "$option"
  n=$((n + 1))
done
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$home/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
