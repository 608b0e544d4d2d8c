package site

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// DefaultPort is the port of a URL that names none, by the last part of its
// scheme: "redfish+https" has the port of https. It is 0 for an unknown scheme.
func DefaultPort(scheme string) uint16 {
	switch scheme[strings.LastIndex(scheme, "+")+1:] {
	case "https":
		return 443
	case "http":
		return 80
	case "ssh":
		return 22
	case "tls": // libvirt
		return 16514
	}
	return 0
}

// Plain returns the endpoint's URL in a canonical spelling, for comparison: without
// user and default port, without a slash at the end, the host in lower case or as the
// shortest form of an address. A URL that cannot be parsed is returned unchanged.
func (e Endpoint) Plain() string {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return e.URL
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != strconv.Itoa(int(DefaultPort(u.Scheme))) {
		host += ":" + port
	}
	plain := strings.ToLower(u.Scheme) + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		plain += "?" + u.RawQuery
	}
	return plain
}
