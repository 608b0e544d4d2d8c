package redfish

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// leadsBy are the names under which resources lead to others. Next links end in
// "@odata.nextLink".
var leadsBy = map[string]bool{"@odata.id": true, "@Redfish.ActionInfo": true, "target": true, "Uri": true}

// makeRelative makes paths of the links of a resource that have a scheme and the
// BMC's own host before their path, as some BMCs have them in all that they send.
// Links to other hosts stay as they are, and are refused when they are followed.
func makeRelative(o object, host string) {
	for name, raw := range o {
		if !bytes.Contains(raw, []byte(`"http`)) {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			continue
		}
		relative, changed := relativeLinks(name, v, host)
		if !changed {
			continue
		}
		if text, err := json.Marshal(relative); err == nil {
			o[name] = text
		}
	}
}

// relativeLinks is a value of a name with its links made paths, and whether any was.
func relativeLinks(name string, v any, host string) (relative any, changed bool) {
	switch v := v.(type) {
	case string:
		if leadsBy[name] || strings.HasSuffix(name, "@odata.nextLink") {
			if path, ok := pathOn(host, v); ok {
				return path, true
			}
		}
	case map[string]any:
		for field, inner := range v {
			r, c := relativeLinks(field, inner, host)
			v[field], changed = r, changed || c
		}
	case []any:
		for i, inner := range v {
			r, c := relativeLinks(name, inner, host)
			v[i], changed = r, changed || c
		}
	}
	return v, changed
}

// pathOn is the path, with its query, that an absolute URI names on a host.
func pathOn(host, uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "https" || u.User != nil || !sameHost(u.Host, host) || u.Path == "" {
		return "", false
	}
	u.Scheme, u.Host = "", ""
	if strings.HasPrefix(u.Path, "//") {
		return "", false // which would name another host by itself
	}
	return u.String(), true
}

// sameHost says whether two hosts of https URIs are one, each with or without its
// port.
func sameHost(a, b string) bool {
	split := func(host string) (name, port string) {
		u := url.URL{Host: host}
		if port = u.Port(); port == "" {
			port = "443"
		}
		return strings.ToLower(u.Hostname()), port
	}
	aName, aPort := split(a)
	bName, bPort := split(b)
	return aName == bName && aPort == bPort
}

// here refuses a link that is not a path on the BMC.
func (c *client) here(link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil
	}
	return refused("the BMC at %s links to %s, which is not its own address, and Slipway sends nothing there; "+
		"if it is the same BMC, correct its host name or write that address into the node's endpoint", c.host, printable(link))
}
