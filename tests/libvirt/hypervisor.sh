# The first process of a hypervisor. It is in new namespaces, and its argument is
# the folder of the hypervisor. It obeys words on standard input, answers each
# with a line, and ends with its input; all that it started ends with it.
set -eu
export LC_ALL=C
folder=$1 capabilities=$2

begin() {
	mount --make-rprivate /
	mount -t proc proc /proc
	mount -t sysfs sysfs /sys
	mkdir -p "$folder"/var/{lib,log,cache}/libvirt "$folder"/var/{run,tmp} "$folder"/var/cache/libvirt/qemu/capabilities "$folder"/run/sshd
	mount --bind "$capabilities" "$folder/var/cache/libvirt/qemu/capabilities"
	for own in etc run var; do mount --rbind "$folder/$own" "/$own"; done
	ip link set lo up
	ip link add br0 type bridge
	ip address add 10.77.0.1/24 dev br0
	ip link set br0 up
}

# Both return when they listen.
start() {
	[ -e /run/virtlogd.pid ] || virtlogd --daemon
	libvirtd --daemon --listen
}

# end SIGNAL: stops libvirtd; guests go on.
end() {
	libvirtd=$(cat /run/libvirtd.pid)
	kill "-$1" "$libvirtd"
	timeout 20 tail --pid="$libvirtd" -s 0.02 -f /dev/null
	rm -f /run/libvirtd.pid
}

# As when the power fails and comes back: every other process is killed, and /run
# is empty.
reboot() {
	kill -KILL -1
	while kill -0 -1 2>/dev/null; do sleep 0.02; done
	rm -rf /run/libvirt /run/*.pid
	start
}

# obey COMMAND: answers with what came of it.
obey() {
	set +e
	said=$(
		set -e
		"$@" 2>&1
	)
	code=$?
	set -e
	if [ $code = 0 ]; then echo ok; else echo "$* ended with $code: ${said//$'\n'/ }"; fi
}

obey begin
while read -r word; do
	case $word in
	start | reboot) obey "$word" ;;
	stop) obey end TERM ;;
	kill) obey end KILL ;;
	*) echo "$word is not a word of a hypervisor" ;;
	esac
done
