package libvirt

import (
	"net"
	"net/url"
	"strings"
)

// address says where a machine is: on which hypervisor, and under which name.
type address struct {
	transport string // unix, tls or ssh
	host      string // with port, for tls and ssh
	user      string // for ssh
	socket    string // the path of libvirt's socket; empty for the default ones
	driver    string // libvirt's connection URI, such as qemu:///system
	domain    string
	site      string
}

// form is the form of an endpoint.
const form = "libvirt+unix:///system, libvirt+tls://HOST/system or libvirt+ssh://USER@HOST/system, with ?domain=NODE&site=SITE"

// drivers maps the path of an endpoint to a libvirt driver. The test driver is a hypervisor in libvirt's memory.
var drivers = map[string]string{"/system": "qemu:///system", "/test/default": "test:///default"}

// parse reads an endpoint's URL.
func parse(endpoint string) (address, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return address{}, refused("the endpoint %q is not a URL; it has to be of the form %s", endpoint, form)
	}
	_, transport, _ := strings.Cut(u.Scheme, "+")
	q := u.Query()
	a := address{transport: transport, socket: q.Get("socket"), driver: drivers[u.Path], domain: q.Get("domain"), site: q.Get("site")}
	if _, has := u.User.Password(); has {
		return a, refused("the endpoint of %s holds a password, which does not belong in Git; name a credential instead", u.Host)
	}
	switch {
	case u.Scheme == Scheme+"+tcp":
		return a, refused("the endpoint at %s has no TLS, and anybody on its network could take the machines over; use %s+tls or %s+ssh", u.Host, Scheme, Scheme)
	case a.driver == "" || a.domain == "" || a.site == "":
		return a, refused("the endpoint %q is not of the form %s", endpoint, form)
	case u.Scheme == Scheme+"+unix" && u.Host == "" && u.User == nil:
		return a, nil
	case u.Scheme == Scheme+"+tls" && u.Hostname() != "" && u.User == nil && a.socket == "":
		a.host = withPort(u, "16514")
		return a, nil
	case u.Scheme == Scheme+"+ssh" && u.Hostname() != "":
		a.host, a.user = withPort(u, "22"), u.User.Username()
		return a, nil
	}
	return a, refused("the endpoint %q is not of the form %s", endpoint, form)
}

func withPort(u *url.URL, usual string) string {
	if p := u.Port(); p != "" {
		usual = p
	}
	return net.JoinHostPort(u.Hostname(), usual)
}

// hypervisor is the address without the machine.
func (a address) hypervisor() address {
	a.domain, a.site = "", ""
	return a
}

// String names the hypervisor for people.
func (a address) String() string {
	if a.transport == "unix" {
		return "the hypervisor of this host"
	}
	host, _, _ := net.SplitHostPort(a.host)
	return host
}
