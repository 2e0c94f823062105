"""placeholder"""

COMMANDS: tuple[object, ...] = ()
