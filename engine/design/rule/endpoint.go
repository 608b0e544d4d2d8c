package rule

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// schemes are those that an endpoint of each kind may have.
var schemes = map[site.EndpointKind]string{
	site.BMC: "redfish+https",
	site.OS:  "ssh",
}

// endpoints objects to URLs that no driver can or should use, and to one that
// two nodes have.
func endpoints(s *site.Site) []site.Finding {
	var found []site.Finding
	taken := claims{}
	for _, n := range nodes(s) {
		for _, kind := range keys(n.Endpoints) {
			e, path := n.Endpoints[kind], "endpoints."+string(kind)
			if e.URL == "" {
				continue
			}
			u, err := url.Parse(e.URL)
			if f, bad := objection(kind, u, err); bad {
				found = append(found, on(n, path+".url", f))
				continue
			}
			taken.add(n, path+".url", strings.TrimSuffix(u.Redacted(), "/"))
			if f, bad := unproven(kind, e); bad {
				found = append(found, on(n, path+".url", f))
			}
		}
	}
	return append(found, taken.twice("duplicate-endpoint", "the endpoint", "Two nodes would act on one machine.")...)
}

// objection is what is wrong with an endpoint's URL.
func objection(kind site.EndpointKind, u *url.URL, err error) (site.Finding, bool) {
	const why = "No driver could reach the machine by it."
	if err != nil || u.Hostname() == "" || !goodPort(u) {
		return site.Finding{
			Code: "invalid-url", Message: fmt.Sprintf("the URL of endpoints.%s needs a host, and a port from 1 to 65535 if any", kind),
			Why: why, Fix: "Write " + example(kind) + ".",
		}, true
	}
	if u.User != nil {
		return site.Finding{
			Code: "credential-in-url", Message: "the URL names an account",
			Why: "Accounts and passwords do not belong into Git.", Fix: "Name a credential instead; its value is on the bootstrap host.",
		}, true
	}
	if u.Scheme == "redfish+http" {
		why := "Over plain HTTP the password is readable on the wire, and nothing proves which machine answers."
		return site.Finding{Code: "endpoint-scheme", Message: "a BMC is not spoken to over plain HTTP", Why: why, Fix: "Use redfish+https."}, true
	}
	if want := schemes[kind]; u.Scheme != want {
		return site.Finding{
			Code: "endpoint-scheme", Message: fmt.Sprintf("%q is no scheme for endpoints.%s", u.Scheme, kind),
			Why: why, Fix: "Write " + example(kind) + ".",
		}, true
	}
	return site.Finding{}, false
}

func goodPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	p, err := strconv.Atoi(u.Port())
	return err == nil && p >= 1 && p <= 65535
}

func example(kind site.EndpointKind) string {
	if kind == site.OS {
		return "ssh://192.0.2.11"
	}
	return "redfish+https://192.0.2.11/redfish/v1/Systems/1"
}

// unproven objects to an SSH endpoint whose host key nobody pinned.
func unproven(kind site.EndpointKind, e site.Endpoint) (site.Finding, bool) {
	if kind != site.OS || len(e.Trust.HostKeys) > 0 {
		return site.Finding{}, false
	}
	return site.Finding{
		Code: "host-key-missing", Severity: site.SeverityWarning,
		Message: "the endpoint has no trust.hostKeys",
		Why:     "An SSH server that proves nothing is refused, so nothing is learned through this endpoint.",
		Fix:     "Add the host's public key, as `ssh-keyscan` prints it and you have checked it.",
	}, true
}
