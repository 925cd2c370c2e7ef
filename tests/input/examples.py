"""How many examples Hypothesis draws: `TASKQ_PROPERTY_EXAMPLES` makes the run longer."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: For each property that costs some milliseconds of a database.
EXAMPLES = int(os.environ.get("TASKQ_PROPERTY_EXAMPLES", "40"))

few = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
many = settings(max_examples=3 * EXAMPLES, suppress_health_check=list(HealthCheck))
