package rule

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var images = []Rule{
	{
		Code: "unknown-placeholder", Severity: site.SeverityError,
		What:  "The URL of an image has no placeholder but {node} and {generation}.",
		Why:   "Slipway would ask the server for it as it is written.",
		Wrong: `images: debian12: url: "https://images.example.org/{role}.iso"`,
		Right: `images: debian12: url: "https://images.example.org/{node}/{generation}.iso"`,
		Site:  placeholders,
	},
	{
		Code: "image-url", Severity: site.SeverityError,
		What: "The URL of an image is an http or https URL with a host and without an account. An installation medium may also be a file:// URL " +
			"with an absolute path, which names a file of the daemon's host.",
		Why:   "Slipway fetches the image from there, and uses no other protocol and no login.",
		Wrong: `images: debian12: url: "nfs://images.example.org/debian.iso"`,
		Right: `images: debian12: url: "http://images.example.org/debian.iso"`,
		Site:  imageURLs,
	},
	{
		Code: "image-digest", Severity: site.SeverityError, Firm: true,
		What: "An image has the digest of every file that is installed from it: `sha256` for all nodes or `digests` for single ones, and " +
			"`digests` alone where its URL has {node} or {generation}.",
		Why:   "Slipway installs only files whose digest the design gives, and one digest cannot fit the different files that such a URL names.",
		Wrong: "images: debian12: url: \"https://images.example.org/{node}.iso\"\nnodes: \"n1\": generation: 1",
		Right: "images: debian12: {\n\turl: \"https://images.example.org/{node}.iso\"\n\tdigests: n1: \"" + someDigest + "\"\n}\nnodes: \"n1\": generation: 1",
		Site:  imagesWithoutDigest,
		Node:  nodeWithoutDigest,
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
		What:  "A node with a generation names its machine by UUID, serial number or MAC address.",
		Why:   "An installation erases a machine; it is only done to one that the design names.",
		Wrong: `nodes: "n1": {generation: 1, identity: _ @unset()}`,
		Right: `nodes: "n1": {generation: 1, identity: uuid: "4c4c4544-0000-4000-8000-0000000000aa"}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if !states(n, "generation") || states(n, "identity.uuid") || states(n, "identity.serial") || states(n, "identity.mac") || n.Moved.Known() || !isWhole(n) && n.IsVirtual() {
				return nil
			}
			return []site.Finding{wrong("generation",
				fmt.Sprintf("the node %s has a generation and no identity", n.Name),
				"Set identity.uuid, identity.serial or identity.mac; the status proposes what the machine reports.")}
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
		switch {
		case text == "":
		case err == nil && u.Scheme == "file":
			found = append(found, fileURL(key, s.Images[key], u)...)
		case err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https":
			found = append(found, wrong("images."+key+".url",
				fmt.Sprintf("an image is fetched from an http or https URL with a host and without an account, not from %q", text),
				"Write https://images.example.org/debian12.iso."))
		}
	}
	return found
}

// fileURL finds what is wrong with an image at a file URL. The daemon reads the
// file, and its artifact store takes only media for physical machines.
func fileURL(key string, i *site.Image, u *url.URL) []site.Finding {
	path := "images." + key + ".url"
	switch {
	case i.Format != "" && i.Format != "iso" && !i.IsDisk():
		return []site.Finding{wrong(path, fmt.Sprintf("the disk image %s cannot be fetched from a file URL: it is fetched for a hypervisor, over http or https", key),
			`Write https://images.example.org/debian12.qcow2, or kind: "disk" where it is for physical machines.`)}
	case u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !strings.HasPrefix(u.Path, "/"):
		return []site.Finding{wrong(path, fmt.Sprintf("the file URL of the image %s is not file:// and an absolute path", key),
			"Write file:///srv/images/debian12.iso, and start the daemon with --artifact-files /srv/images.")}
	}
	return nil
}

// imagesWithoutDigest finds images that no node could install.
func imagesWithoutDigest(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Images) {
		if i := s.Images[key]; i.SHA256 == "" && len(i.Digests) == 0 && !s.Origins.Has("images."+key+".sha256") && !lost(s.Origins, "images."+key+".digests", i.Digests) {
			found = append(found, wrong("images."+key+".url", fmt.Sprintf("the image %s has no digest", key),
				"Write what `sha256sum` prints for the file as sha256."))
		}
	}
	return found
}

// nodeWithoutDigest finds a node that is installed from a file without a digest in
// the design.
func nodeWithoutDigest(s *site.Site, n *site.Node) []site.Finding {
	i := s.Images[n.Image]
	if i == nil || n.Generation == 0 || i.URL == "" || i.For(n.Name, n.Generation).SHA256 != "" {
		return nil
	}
	path := "images." + n.Image
	switch _, ok := i.Digests[n.Name]; {
	case ok, s.Origins.Has(path + ".digests." + n.Name):
		return nil // it is wrong, and already reported
	case !i.PerNode() && (len(i.Digests) == 0 || s.Origins.Has(path+".sha256")):
		return nil // reported at the image
	}
	why := "gives digests of other nodes only"
	if i.PerNode() {
		why = "has a URL with {node} or {generation}, and no digest of the file of " + n.Name
	}
	return []site.Finding{also(s, path+".url", wrong("image", fmt.Sprintf("the image %s %s", n.Image, why),
		fmt.Sprintf("Write images: %s: digests: %q: with what `sha256sum` prints for the file, or use a URL that names one file for all nodes.", n.Image, n.Name)))}
}
