"""The HTTP door: health, telemetry, the status page, and the runs, schedules and sources as JSON.

Every part takes what it needs from the runtime; `app` puts the parts together and `server` listens.
"""
