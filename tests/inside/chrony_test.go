package inside_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// withChrony is Debian 12 with chrony, which systemd-timesyncd cannot be beside.
var withChrony = &fixture{suite: nspawn.Suites[0], clock: "chrony"}

// chrony runs in a container, and leaves the clock of the host alone.
var inContainer = map[string]string{
	"/etc/default/chrony":                            "0644 DAEMON_OPTS=\"-x\"\n",
	"/etc/systemd/system/chrony.service.d/test.conf": "0644 [Unit]\nConditionCapability=\n",
}

// A real chrony takes the time from the servers of the design, and from its own again without them.
func TestProveChrony(t *testing.T) {
	if !proves() {
		t.Skip("needs a system with another time service: set SLIPWAY_PROVE")
	}
	f := withChrony
	f.base(t)
	began, root := time.Now(), nspawn.Layer(t, f.root)
	layFiles(t, root, inContainer)
	n := f.start(t, root, nspawn.Loopback)
	n.Does(wires)
	n.Does("ip -n gw address add 10.1.0.2/24 dev gw0; ip address add 10.1.0.10/24 dev eth0; ip link set eth0 up")
	// A time server at the other end of the wire, with settings of its own.
	n.Does("systemd-run --quiet --unit=server ip netns exec gw /usr/sbin/chronyd -x -d -u root 'local stratum 3' 'allow all' 'cmdport 0' 'bindcmdaddress /' 'pidfile /run/server.pid'")
	n.Says("systemctl is-active chrony", "active")
	before := n.listing()

	design := func(servers ...string) *site.Node {
		return &site.Node{Name: "n1", References: site.References{Family: "debian"}, System: site.System{Time: site.Time{Servers: servers}}}
	}
	const sources = "chronyc -n -c sources | cut -d, -f1-3 | sort"
	pid := func() string { return n.Does("systemctl show -P MainPID chrony") }

	d := design("10.1.0.1")
	n.converges(d)
	n.Comes(sources, "^,*,10.1.0.1") // it is the one that is used
	n.Says(sources, "^,*,10.1.0.1")
	n.Says("chronyc -n -c tracking | cut -d, -f2", "10.1.0.1")
	first := pid()
	n.passAgain(d)
	if again := pid(); again != first {
		t.Errorf("chrony was started again by a second pass: %s, and %s before", again, first)
	}

	// Another server, beside one that does not answer.
	n.converges(design("10.1.0.2", "10.1.0.99"))
	n.Comes(sources, "^,*,10.1.0.2")
	n.Says(sources, "^,*,10.1.0.2\n^,?,10.1.0.99")

	// Somebody else adds a source.
	n.Does("echo 'server 10.1.0.1 iburst' >> /etc/chrony/chrony.conf; systemctl restart chrony")
	n.Comes(sources, "10.1.0.1")
	n.converges(d)
	n.Comes(sources, "^,*,10.1.0.1")
	n.Says(sources, "^,*,10.1.0.1")
	n.Does("sed -i '/^#slipway off: server 10.1.0.1 iburst$/d' /etc/chrony/chrony.conf") // and takes it away

	n.converges(design())
	n.Says(sources, "")
	n.Says("grep -c '^pool 2.debian.pool.ntp.org' /etc/chrony/chrony.conf; systemctl is-active chrony", "1\nactive")
	if after := n.listing(); difference(after, before) != "" {
		t.Errorf("without the design it is not as before:\n%s", difference(after, before))
	}
	t.Logf("in %s", time.Since(began).Round(time.Second))
}
