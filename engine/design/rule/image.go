package rule

import (
	"fmt"
	"net/url"
	"regexp"

	"github.com/slipway-gitops/slipway/engine/site"
)

var placeholder = regexp.MustCompile(`\{[^}]*\}?|\}`)

// images objects to images that no BMC could fetch.
func images(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Images) {
		path := "images." + key + ".url"
		text := s.Images[key].URL
		if text == "" {
			continue
		}
		for _, p := range placeholder.FindAllString(text, -1) {
			if p != "{node}" && p != "{generation}" {
				found = append(found, at(s, path, site.Finding{
					Code: "unknown-placeholder", Message: fmt.Sprintf("%s stands for nothing in an image's URL", p),
					Why: "The BMC would ask for it as it is written.", Fix: "Use {node} and {generation}, or neither.",
				}))
			}
		}
		u, err := url.Parse(placeholder.ReplaceAllString(text, "x"))
		if err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			found = append(found, at(s, path, site.Finding{
				Code: "invalid-url", Message: fmt.Sprintf("an image is fetched from an http or https URL with a host and without an account, not from %q", text),
				Why: "The BMC itself fetches the image.", Fix: "Write https://images.example.org/debian12.iso.",
			}))
		}
	}
	return found
}

// installations objects to nodes that are to be installed and cannot be.
func installations(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, n := range nodes(s) {
		if !states(n, "generation") {
			continue
		}
		if !states(n, "image") {
			found = append(found, on(n, "generation", site.Finding{
				Code: "generation-without-image", Message: fmt.Sprintf("the node %s has a generation and no image", n.Name),
				Why: "There is nothing to install.", Fix: "Set `image`, or remove `generation`.",
			}))
		}
		if !states(n, "identity.uuid") && !states(n, "identity.serial") {
			found = append(found, on(n, "generation", site.Finding{
				Code: "generation-without-identity", Message: fmt.Sprintf("the node %s has a generation and no identity", n.Name),
				Why: "An installation erases a machine; it is only done to one that the design names.",
				Fix: "Set identity.uuid or identity.serial; the status proposes what the machine reports.",
			}))
		}
	}
	return found
}
