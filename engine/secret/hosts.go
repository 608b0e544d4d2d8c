package secret

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// hosts are the hosts that a credential may be sent to. A host is compared as
// written in an endpoint and never resolved: whoever controls DNS must not
// decide where a password goes.
type hosts struct {
	networks []netip.Prefix
	names    []string // in lower case, without a final dot
	suffixes []string // ".example.org"
}

// hostName matches a host name. Unlike RFC 1123 it allows the underscore, which
// internal names have.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)

var errHostItem = errors.New("is neither an IP address, a network as 192.0.2.0/24, a host name nor *.SUFFIX")

// add adds one item of a hosts line.
func (h *hosts) add(item string) error {
	if p, err := netip.ParsePrefix(item); err == nil {
		h.networks = append(h.networks, p.Masked())
		return nil
	}
	if a, err := netip.ParseAddr(item); err == nil {
		a = a.Unmap().WithZone("")
		h.networks = append(h.networks, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	suffix, wild := strings.CutPrefix(item, "*.")
	name := canonical(suffix)
	switch {
	case !hostName.MatchString(name):
		return errHostItem
	case wild:
		h.suffixes = append(h.suffixes, "."+name)
	default:
		h.names = append(h.names, name)
	}
	return nil
}

// parse adds a list of hosts.
func (h *hosts) parse(list string) error {
	for i, item := range items(list) {
		if err := h.add(item); err != nil {
			return fmt.Errorf("item %d of \"hosts\" %w", i+1, err)
		}
	}
	return nil
}

func (h *hosts) empty() bool { return len(h.networks)+len(h.names)+len(h.suffixes) == 0 }

// allow reports whether the credential may be sent to a host.
func (h *hosts) allow(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap().WithZone("")
		for _, n := range h.networks {
			if n.Contains(a) {
				return true
			}
		}
		return false
	}
	host = canonical(host)
	for _, n := range h.names {
		if n == host {
			return true
		}
	}
	for _, s := range h.suffixes {
		if strings.HasSuffix(host, s) && len(host) > len(s) {
			return true
		}
	}
	return false
}

// canonical returns a host name in the form for comparing: DNS ignores case
// (RFC 4343), and a final dot only says that the name is complete.
func canonical(name string) string {
	return strings.TrimSuffix(strings.ToLower(name), ".")
}
