#!/usr/bin/env bash
# In place of the interpreter of an agent of a launch tree: where things go wrong, by the name of the node.
read -r posting
case $posting in
*'"node":"n1"'*) echo "no disk" >&2 && exit 3 ;;
*'"node":"n2"'*) exec sleep 600 ;;
*'"node":"n3"'*)
    exec "$PYTHON" -c 'import runpy, pliant.protocol
pliant.protocol.VERSION = 99
runpy.run_module("pliant.launch.tree", run_name="__main__")' <<<"$posting"
    ;;
*) exec "$PYTHON" "$@" <<<"$posting" ;;
esac
