package rule

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// labelRules: can software on the nodes use the labels unchanged?
var labelRules = []Rule{{
	Code: "label-name", Severity: site.SeverityError,
	What:  `The name of a label has at most 63 letters, digits, '.', '_' and '-', after a DNS name and "/" if wanted; its value is empty or of that form too.`,
	Why:   "Kubernetes and most other readers of labels take no other form; a node that joins with such a label is refused.",
	Wrong: `nodes: "n1": labels: "power feed": "A"`,
	Right: `nodes: "n1": labels: "example.org/power-feed": "A"`,
	Node: func(_ *site.Site, n *site.Node) []site.Finding {
		return refuseLabels("labels", n.Labels)
	},
	Site: func(s *site.Site) (found []site.Finding) {
		for _, key := range keys(s.Racks) {
			found = append(found, refuseLabels("racks."+key+".labels", s.Racks[key].Labels)...)
		}
		return found
	},
}}

// labelPart matches a label's name after its prefix, or its value (Kubernetes,
// Labels and Selectors: Syntax and character set).
var labelPart = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

func refuseLabels(path string, labels map[string]string) []site.Finding {
	var found []site.Finding
	for _, name := range keys(labels) {
		if !labelName(name) {
			found = append(found, wrong(path+"."+name, fmt.Sprintf("%q cannot be the name of a label", name),
				"Use at most 63 letters, digits, '.', '_' and '-', beginning and ending with a letter or digit."))
		}
		if value := labels[name]; value != "" && !labelPart.MatchString(value) {
			found = append(found, wrong(path+"."+name, fmt.Sprintf("%q cannot be the value of the label %s", cutShort(value), name),
				"Use at most 63 letters, digits, '.', '_' and '-', beginning and ending with a letter or digit, or nothing."))
		}
	}
	return found
}

func labelName(name string) bool {
	prefix, rest, has := strings.Cut(name, "/")
	if !has {
		return labelPart.MatchString(name)
	}
	return len(prefix) <= 253 && domainName.MatchString(prefix) && strings.ToLower(prefix) == prefix && labelPart.MatchString(rest)
}

// cutShort limits the length of a text in a message.
func cutShort(text string) string { return site.Shorten(text, 80) }
