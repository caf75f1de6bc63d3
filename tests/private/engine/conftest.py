"""Fixtures of tests of Spark."""

from spark_tasks import events as events
from spark_tasks import phases as phases
from written_sources import engine as engine
from written_sources import server as server
