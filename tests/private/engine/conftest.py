"""Fixtures of tests of Spark."""

from spark_tasks import phases as phases
