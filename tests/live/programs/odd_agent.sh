#!/usr/bin/env bash
# In place of the interpreter of an agent: says odd things over its link, which --link names, and waits for the end.
version=$ODD_VERSION
while [ $# -gt 0 ]; do
    [ "$1" = --link ] && link=$2
    shift
done
exec 3<&"$link" 4>&"$link"
cat >&4 <<END
garbage
{"type":"from","node":"n0","message":{"type":"dance"}}
{"type":"from","node":"n7","message":{"type":"proof","job":7,"clean":true}}
{"type":"from","node":"n0","message":{"type":"error","text":"no way to n5"}}
{"type":"from","hops":2,"node":"n0","message":{"type":"agenthello","node":"n0","slots":1,"pid":1,"version":$version,"colour":"red"}}
{"type":"from","node":"n0","number":1,"message":{"type":"proof","job":3,"clean":true,"colour":"red"}}
END
while read -r line <&3; do
    echo "told $line" >&2
    case $line in *shutdown*) exit 0 ;; esac
done
