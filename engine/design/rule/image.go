package rule

import (
	"fmt"
	"net/url"
	"regexp"

	"github.com/slipway-gitops/slipway/engine/site"
)

var images = []Rule{
	{
		Code: "unknown-placeholder", Severity: site.SeverityError,
		What:  "The URL of an image has no placeholder but {node} and {generation}.",
		Why:   "The BMC would ask for it as it is written.",
		Wrong: `images: debian12: url: "https://images.example.org/{role}.iso"`,
		Right: `images: debian12: url: "https://images.example.org/{node}/{generation}.iso"`,
		Site:  placeholders,
	},
	{
		Code: "image-url", Severity: site.SeverityError,
		What:  "The URL of an image is an http or https URL with a host and without an account.",
		Why:   "The BMC itself fetches the image, or the daemon that of a virtual machine.",
		Wrong: `images: debian12: url: "nfs://images.example.org/debian.iso"`,
		Right: `images: debian12: url: "http://images.example.org/debian.iso"`,
		Site:  imageURLs,
	},
	{
		Code: "generation-without-image", Severity: site.SeverityError,
		What:  "A node with a generation has an image.",
		Why:   "There is nothing to install.",
		Wrong: `nodes: "n1": {generation: 1, image: _ @unset()}`,
		Right: `nodes: "n1": {generation: 1, image: "debian12"}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if !states(n, "generation") || states(n, "image") || !isWhole(n) {
				return nil
			}
			return []site.Finding{wrong("generation",
				fmt.Sprintf("the node %s has a generation and no image", n.Name), "Set `image`, or remove `generation`.")}
		},
	},
	{
		Code: "generation-without-identity", Severity: site.SeverityError, Firm: true,
		What:  "A node with a generation names its machine by UUID or serial number.",
		Why:   "An installation erases a machine; it is only done to one that the design names.",
		Wrong: `nodes: "n1": {generation: 1, identity: _ @unset()}`,
		Right: `nodes: "n1": {generation: 1, identity: uuid: "4c4c4544-0000-4000-8000-0000000000aa"}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if !states(n, "generation") || states(n, "identity.uuid") || states(n, "identity.serial") || n.Moved.Known() || !isWhole(n) && n.IsVirtual() {
				return nil
			}
			return []site.Finding{wrong("generation",
				fmt.Sprintf("the node %s has a generation and no identity", n.Name),
				"Set identity.uuid or identity.serial; the status proposes what the machine reports.")}
		},
	},
}

// someDigest is a digest for examples.
const someDigest = "9100babb16941ce0792fe9ad000c14ee47ad36f06ec656db97ef861af1c7f2e8"

var placeholder = regexp.MustCompile(`\{[^}]*\}?|\}`)

func placeholders(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Images) {
		for _, p := range placeholder.FindAllString(s.Images[key].URL, -1) {
			if p != "{node}" && p != "{generation}" {
				found = append(found, wrong("images."+key+".url",
					fmt.Sprintf("%s stands for nothing in an image's URL", p), "Use {node} and {generation}, or neither."))
			}
		}
	}
	return found
}

func imageURLs(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Images) {
		text := s.Images[key].URL
		u, err := url.Parse(placeholder.ReplaceAllString(text, "x"))
		if text != "" && (err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
			found = append(found, wrong("images."+key+".url",
				fmt.Sprintf("an image is fetched from an http or https URL with a host and without an account, not from %q", text),
				"Write https://images.example.org/debian12.iso."))
		}
	}
	return found
}
