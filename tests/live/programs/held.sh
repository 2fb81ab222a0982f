#!/bin/sh
# An agent that has read where it belongs, says so by a file, and begins when there is another. The words of the launch
# are one line.
IFS= read -r line
: > "$GO.$$"
while [ ! -e "$GO" ]; do sleep 0.05; done
exec "$PYTHON" "$@" <<END
$line
END
