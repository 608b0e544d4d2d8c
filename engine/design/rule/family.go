package rule

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// families: does an image use the settings for each family?
var families = []Rule{
	{
		Code: "unknown-family", Severity: site.SeverityError,
		What:  "A family of operating systems that the design names is the family of one of its images.",
		Why:   "Slipway never reads settings for another family: the packages, files and accounts are missing on every node.",
		Wrong: `nodes: "n1": families: {debian: packages: chrony: {}, debain: packages: curl: {}}`,
		Right: `nodes: "n1": families: debian: packages: {chrony: {}, curl: {}}`,
		Node: func(s *site.Site, n *site.Node) (found []site.Finding) {
			for _, family := range keys(n.Families) {
				found = append(found, refuseFamily(s, "families."+family, family)...)
			}
			return found
		},
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Drivers) {
				for _, family := range keys(s.Drivers[key].Packages) {
					found = append(found, refuseFamily(s, "drivers."+key+".packages."+family, family)...)
				}
			}
			return found
		},
	},
	{
		Code: "family-unused", Severity: site.SeverityNote,
		What: "A node with settings for families has settings for the family of its image.",
		Why:  "None of it is applied to the node; often somebody changed the image and forgot the families.",
		Wrong: `images: rocky9: {family: "rhel", url: "https://images.example.org/rocky9.iso", sha256: "` + someDigest + `"}
nodes: {"n1": families: rhel: packages: chrony: {}, "n2": image: "rocky9"}`,
		Right: `images: rocky9: {family: "rhel", url: "https://images.example.org/rocky9.iso", sha256: "` + someDigest + `"}
nodes: {"n1": families: {debian: packages: chrony: {}, rhel: packages: chrony: {}}, "n2": image: "rocky9"}`,
		Node: familyUnused,
	},
}

// imageFamilies returns the families of a site's images. It returns false when
// one of them has another finding.
func imageFamilies(s *site.Site) (map[string]bool, bool) {
	known := map[string]bool{}
	for key, i := range s.Images {
		if i.Family == "" && stated(s, "images."+key+".family") {
			return nil, false
		}
		if i.Family != "" {
			known[i.Family] = true
		}
	}
	return known, true
}

func refuseFamily(s *site.Site, path, family string) []site.Finding {
	known, ok := imageFamilies(s)
	if !ok || known[family] {
		return nil
	}
	f := wrong(path, fmt.Sprintf("no image has the family %q%s", family, didYouMean(family, known)),
		fmt.Sprintf("Set family: %q of the images that are of it.", family))
	if len(known) > 0 {
		f.Fix = "Use the family of an image: " + strings.Join(keys(known), ", ") + "."
	}
	return []site.Finding{f}
}

// familyUnused leaves nodes with an unknown family to refuseFamily.
func familyUnused(s *site.Site, n *site.Node) []site.Finding {
	known, ok := imageFamilies(s)
	image := s.Images[n.Image]
	if !ok || image == nil || len(n.Families) == 0 {
		return nil
	}
	for family := range n.Families {
		if family == image.Family || !known[family] {
			return nil
		}
	}
	is := "has no family"
	if image.Family != "" {
		is = "is of the family " + image.Family
	}
	return []site.Finding{wrong("families",
		fmt.Sprintf("the image %s %s, and the node has settings for %s only", n.Image, is, strings.Join(keys(n.Families), ", ")),
		"Say it for the image's family, or choose another image.")}
}
