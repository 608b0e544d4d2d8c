package rule

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// discoveries: may Slipway discover machines this way in a network?
var discoveries = []Rule{
	{
		Code: "discovery-ranges", Severity: site.SeverityError,
		What:  "The ranges to discover machines in are of hosts, written with their first addresses, and have at most 65,536 addresses together.",
		Why:   "A sweep of more takes hours and looks like an attack; and Slipway should ask only the addresses that you mean.",
		Wrong: `site: discovery: ranges: ["10.9.0.0/8"]`,
		Right: `site: discovery: ranges: ["10.9.0.0/24"]`,
		Site:  discoveryRanges,
	},
	{
		Code: "discovery-pace", Severity: site.SeverityError,
		What:  "Machines are discovered every ten minutes at most.",
		Why:   "A sweep takes minutes, and whoever watches the network takes it for an attack.",
		Wrong: `site: discovery: {ranges: ["10.9.0.0/24"], every: "60s"}`,
		Right: `site: discovery: {ranges: ["10.9.0.0/24"], every: "1h"}`,
		Site: func(s *site.Site) []site.Finding {
			const least = 10 * time.Minute
			if s.Discovery == nil || s.Discovery.Every == 0 || time.Duration(s.Discovery.Every) >= least {
				return nil
			}
			return []site.Finding{wrong("site.discovery.every", fmt.Sprintf("every is %s", plainly(s.Discovery.Every)), "Write at least \"10m\".")}
		},
	},
	{
		Code: "discovery-credential", Severity: site.SeverityError,
		What:  "The credential to look at discovered machines with is an entry in `credentials`.",
		Why:   "Slipway does not know what the name stands for, so it looks at no machine.",
		Wrong: `site: discovery: {ranges: ["10.9.0.0/24"], credential: "ilo"}`,
		Right: `site: discovery: {ranges: ["10.9.0.0/24"], credential: "bmc"}`,
		Site: func(s *site.Site) []site.Finding {
			if s.Discovery == nil {
				return nil
			}
			return refer("site.discovery.credential", "credentials", s.Discovery.Credential, s.Credentials)
		},
	},
}

func discoveryRanges(s *site.Site) []site.Finding {
	if s.Discovery == nil {
		return nil
	}
	const path = "site.discovery.ranges"
	var ranges []netip.Prefix
	for _, text := range s.Discovery.Ranges {
		r, err := netip.ParsePrefix(text)
		if err != nil || r != r.Masked() {
			return []site.Finding{wrong(path, fmt.Sprintf("%q is not a range with its first address", text), meant(text))}
		}
		ranges = append(ranges, r)
	}
	if err := site.CheckRanges(ranges); err != nil {
		return []site.Finding{wrong(path, err.Error(), "Name the ranges that the management controllers are in.")}
	}
	return nil
}

// discoveryCredential is the credential for looking at discovered machines.
func discoveryCredential(s *site.Site) []string {
	if s.Discovery == nil {
		return nil
	}
	return slices.DeleteFunc([]string{s.Discovery.Credential}, func(name string) bool { return name == "" })
}
