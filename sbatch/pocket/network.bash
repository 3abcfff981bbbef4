# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The network of a pocket cluster: one switch, a cable to each machine, an uplink to the host.
# The switch is a bridge in a network namespace of its own. There it meets no firewall rule of the host (Docker's, say, which would
# drop what is bridged), its ports can bear the plain names of the machines, and nothing but the uplink shows on the host.

readonly burst=128kb # above the 64 KiB that a sender hands over at once; small against any transfer worth shaping

netns() { echo "$POCKET_NAME-$1"; }            # the namespace of a machine, or of the switch
on_switch() { ip -n "$(netns switch)" "$@"; }
address_of() {                                 # n1 .. n200, ctl and host are known by their last byte
  case $1 in
    n*) echo "$(<"$POCKET_DIR/subnet").${1#n}" ;;
    ctl) echo "$(<"$POCKET_DIR/subnet").253" ;;
    host) echo "$(<"$POCKET_DIR/subnet").254" ;;
  esac
}

# A subnet is free when the host knows no way there but its default route.
subnet_is_free() { [[ -z $(ip -4 route show match "$1.0/24" | grep -v '^default' || true) ]]; }

# The uplink's name says which subnet it serves. The kernel lets a name exist once, so that two clusters that start at the same
# moment cannot take the same subnet.
create_switch() {
  local subnet
  ip netns add "$(netns switch)"
  on_switch link set lo up
  on_switch link add switch type bridge
  on_switch link set switch up
  for subnet in 10.{77..250}.0 198.18.{0..250}; do
    subnet_is_free "$subnet" || continue
    ip link add "pk-$subnet" type veth peer name uplink netns "$(netns switch)" 2>/dev/null || continue
    echo "$subnet" >"$POCKET_DIR/subnet"
    on_switch link set uplink master switch up
    ip addr add "$(address_of host)/24" dev "pk-$subnet"
    ip link set "pk-$subnet" up
    return
  done
  die "no free subnet in 10.77-250.0.0/24 and 198.18.0.0/16"
}

# The uplink goes with its other end, shortly after the namespace.
remove_switch() {
  [[ ! -e /run/netns/$(netns switch) ]] || ip netns del "$(netns switch)"
  [[ ! -s $POCKET_DIR/subnet ]] ||
    wait_until 10 "the network device of the uplink to vanish" not test -e "/sys/class/net/pk-$(<"$POCKET_DIR/subnet")"
}

# plug MACHINE: a fresh network namespace and a cable to the switch. The hardware address stays the same over restarts, as a real
# machine's does: the others' ARP tables remain right. No IPv6, so that there is one address to find.
plug() {
  local machine=$1 address mac
  address=$(address_of "$machine")
  # shellcheck disable=SC2046,SC2086  # four words are wanted
  mac=$(printf '02:00:%02x:%02x:%02x:%02x' ${address//./ })
  ip netns add "$(netns "$machine")"
  on_switch link add "$machine" type veth peer name eth0 address "$mac" netns "$(netns "$machine")"
  ip -n "$(netns "$machine")" -batch - <<END
link set lo up
addr add $address/24 dev eth0
link set eth0 addrgenmode none
link set eth0 up
END
  on_switch link set "$machine" master switch up
  apply_rate "$machine"
}

# unplug MACHINE: its namespace goes, with whatever still lives there. Its connections were cut before and linger without a process;
# they are dropped, so that the kernel need not keep the namespace until they time out.
unplug() {
  local machine=$1 ns
  ns=$(netns "$machine")
  [[ -e /run/netns/$ns ]] || return 0
  ip netns pids "$ns" | xargs -r kill -KILL 2>/dev/null || true
  if [[ -e /run/netns/$(netns switch) ]]; then on_switch link del "$machine" 2>/dev/null || true; fi
  nsenter --net="/run/netns/$ns" ss -K -H >/dev/null 2>&1 || true
  ip netns del "$ns"
}

# How MACHINE sees its cable; no-in and no-out for one that looks whole and is not.
link_state() {
  case $(ip -n "$(netns "$1")" link show eth0 2>/dev/null) in
    *"state UP"*) cat "$POCKET_DIR/cut.$1" 2>/dev/null || echo up ;;
    *) echo down ;;
  esac
}
link_is() { [[ $(link_state "$1") == "$2" ]]; }

set_cable() { # MACHINE up|down
  on_switch link set "$1" "$2"
  wait_until 5 "the link of $1 to be $2" link_is "$1" "$2"
}

# cut_one_way MACHINE in|out: the cable looks whole, yet packets to (in) or from (out) the machine vanish.
cut_one_way() {
  case $2 in
    in) tc -n "$(netns switch)" qdisc replace dev "$1" root blackhole ;;
    out) tc -n "$(netns "$1")" qdisc replace dev eth0 root blackhole ;;
  esac
  echo "no-$2" >"$POCKET_DIR/cut.$1"
}

# apply_rate MACHINE: shapes both directions to the recorded rate, or leaves them free. Undoes one-way cuts.
apply_rate() {
  local rate device
  rm -f "$POCKET_DIR/cut.$1"
  rate=$(rate_of "$1")
  for device in "$(netns switch) $1" "$(netns "$1") eth0"; do
    if [[ $rate == none ]]; then
      tc -n "${device% *}" qdisc del dev "${device#* }" root 2>/dev/null || true # there may be nothing to delete
    else
      tc -n "${device% *}" qdisc replace dev "${device#* }" root tbf rate "$rate" burst "$burst" latency 50ms
    fi
  done
}
rate_of() { cat "$POCKET_DIR/rate.$1" 2>/dev/null || echo none; }
