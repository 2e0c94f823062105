"""Gate: after one worker is told to wait, no worker of the fleet calls that provider for that organisation until it may."""
