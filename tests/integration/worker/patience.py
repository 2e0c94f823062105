"""How long a message may lie unacknowledged for the impatient app. Apart from it: importing an app changes this process."""

VISIBILITY_SECONDS = 5
