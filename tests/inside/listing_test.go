package inside_test

import (
	"slices"
	"strings"
)

// listing tells all that a person can see of a system, by its own programs. What time
// alone changes is left out, and:
//   - the order of lines and of a group's members, and the last numbers in the files of accounts, and the copies
//     that their programs keep: they depend on what came before by how these work;
//   - the files by which these programs take their locks, /etc/passwd.PID, which one that is
//     killed leaves, and nothing reads;
//   - home folders of accounts that are gone, which Slipway leaves by its documentation;
//   - what dpkg and apt keep for themselves, in whose place they are asked;
//   - what Python compiles for itself, with the times of files in it;
//   - settings of packages that are removed: they are removed, and not purged.
const listing = `
for f in passwd group gshadow; do sort /etc/$f | sed "s|^|$f |"; done
cut -d: -f1,2 /etc/shadow | sed -E 's/:[$].*/:a hash/; s/^/shadow /' | sort
cut -d: -f1 /etc/subuid | sort | sed 's/^/subuid /'
case $(dpkg-query -W -f '${db:Status-Abbrev}' configured 2>/dev/null) in rc*) echo "` + keptSetting + `" ;; esac
homes=$(cut -d: -f6 /etc/passwd | grep ^/home/ | tr '\n' ' ')
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log -o -path /var/cache -o -path /var/spool -o -path /var/backups \
	-o -path /var/lib/slipway-inside -o -path /var/lib/chrony/chrony.drift -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /home -o -path /root/tracer \
	-o -path /etc/passwd -o -path /etc/group -o -path /etc/shadow -o -path /etc/gshadow -o -path /etc/subuid -o -path /etc/subgid -o -path '/etc/*-' -o -path /etc/.pwd.lock \
	-o -path /etc/ld.so.cache -o -name '*.dpkg-dist' -o -path '/etc/passwd.[0-9]*' -o -path '/etc/group.[0-9]*' -o -path '/etc/*shadow.[0-9]*' -o -path '/etc/sub?id.[0-9]*' \) -prune -o -printf '%p %y %m %u:%g %l\n' | sort
[ -z "$homes" ] || find $homes -printf '%p %y %m %u:%g %l\n' | sort
find /etc /srv /opt /usr/local /usr/share/one /usr/share/two /boot/grub $homes -type f ! -path '/etc/*-' ! -path '/etc/passwd' ! -path '/etc/group' ! -path '/etc/shadow' ! -path '/etc/gshadow' \
	! -path '/etc/sub?id' ! -path /etc/ld.so.cache ! -path /etc/.pwd.lock ! -name '*.dpkg-dist' ! -path '*/__pycache__/*' \
	! -path '/etc/passwd.[0-9]*' ! -path '/etc/group.[0-9]*' ! -path '/etc/*shadow.[0-9]*' ! -path '/etc/sub?id.[0-9]*' -print0 2>/dev/null | sort -z | xargs -0 sha256sum
hostname
dpkg-query -W -f 'package ${db:Status-Abbrev} ${Package} ${Version}\n' | grep -v '^package rc'
apt-mark showmanual | sort | sed 's/^/manual /'; apt-mark showhold | sort | sed 's/^/hold /'
apt-cache policy 2>/dev/null | grep -v '^ *release'
systemctl list-unit-files --no-legend --no-pager --plain
for u in before own other serving masked rsyslog; do echo "$u: $(systemctl is-active $u) $(systemctl show -P Description -P LoadState -P NeedDaemonReload $u | tr '\n' ' ')"; done
systemctl --failed --no-legend --plain
for p in ip_forward conf/all/rp_filter conf/lo/rp_filter conf/all/accept_redirects conf/all/log_martians; do echo "$p $(cat /proc/sys/net/ipv4/$p)"; done
ip -o link show | grep -v link-netns | sed 's/^[0-9]*: //; s/ qlen [0-9]*//' | sort
for i in eth1 eth2 br0; do [ ! -e /sys/class/net/$i ] || echo "$i $(cat /sys/class/net/$i/mtu) $(basename "$(readlink /sys/class/net/$i/master)") $(cat /sys/class/net/$i/bridge/stp_state 2>/dev/null) $(grep -E '^(DNS|DOMAINS)=' /run/systemd/netif/links/$(cat /sys/class/net/$i/ifindex) 2>/dev/null | tr '\n' ' ')"; done
ip -o address show | tr -s ' ' | cut -d' ' -f2-4 | sort; ip route; ip -6 route show default
`

func (n *node) listing() string {
	n.t.Helper()
	return n.Does(listing)
}

// keptSetting is a line of systems in which the setting of a package was kept that was
// removed: it is not compared then.
const keptSetting = "kept /etc/configured.conf"

// linesOf are the lines of a listing, with the members of groups in order.
func linesOf(listing string) []string {
	lines := strings.Split(listing, "\n")
	for i, line := range lines {
		if at := strings.LastIndexByte(line, ':'); at >= 0 && (strings.HasPrefix(line, "group ") || strings.HasPrefix(line, "gshadow ")) {
			members := strings.Split(line[at+1:], ",")
			slices.Sort(members)
			lines[i] = line[:at+1] + strings.Join(members, ",")
		}
	}
	return lines
}

// difference is what two listings differ in; empty where they tell the same.
func difference(got, want string) string {
	var out []string
	g, w := linesOf(got), linesOf(want)
	if slices.Contains(g, keptSetting) || slices.Contains(w, keptSetting) {
		of := func(line string) bool { return strings.Contains(line, "/etc/configured.conf") }
		g, w = slices.DeleteFunc(g, of), slices.DeleteFunc(w, of)
	}
	for _, line := range g {
		if !slices.Contains(w, line) {
			out = append(out, "is:       "+line)
		}
	}
	for _, line := range w {
		if !slices.Contains(g, line) {
			out = append(out, "is to be: "+line)
		}
	}
	return strings.Join(out, "\n")
}
