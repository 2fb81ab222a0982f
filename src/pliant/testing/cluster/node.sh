#!/bin/sh
# A node's first process, in namespaces of its own: it gives the node what nodes have of their own, and becomes its sshd.
# node.sh PLACE NAME ADDRESS LINK HEAD SSHD; HEAD is the head's network, as a path.
set -eu
place=$1 name=$2 address=$3 link=$4 head=$5 sshd=$6

echo "$name" >/proc/sys/kernel/hostname
echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/default/disable_ipv6 || true # it would only announce itself to all others

ip link add eth0 type veth peer name "$link" netns "$head"
nsenter --net="$head" ip link set "$link" master br0 up
ip -batch - <<BATCH
link set lo up
address add $address/16 dev eth0
link set eth0 up
BATCH

# An empty tmpfs in place of $1, in which nothing of the machine's own is seen but the paths listed in "visible".
own() {
    mount -t tmpfs -o mode=1777 own "$place/stage"
    while read -r path; do
        case $path in
        "$1"/*)
            mkdir -p "$place/stage${path#"$1"}"
            mount --bind "$path" "$place/stage${path#"$1"}"
            ;;
        esac
    done <"$place/visible"
    mount --move "$place/stage" "$1"
}
own /tmp
own /dev/shm

mount -t sysfs own /sys # else its network devices are the machine's
mount -t tmpfs -o mode=755 own /run
mkdir /run/sshd

cd /
exec "$sshd" -D -e
