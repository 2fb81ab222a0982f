#!/bin/sh
# An agent that begins when there is a file. Python's own loop, so that nothing but this is to be ended.
while [ ! -e "$GO" ]; do sleep 0.05; done
exec "$PYTHON" "$@"
