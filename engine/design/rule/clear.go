package rule

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// secrets: is there anything in the design that nobody may read?
var secrets = []Rule{{
	Code: "clear-secret", Severity: site.SeverityError,
	What:  "No text of the design is a password, a token, a private key or the hash of a password.",
	Why:   "Whoever can read the repository can use it, for as long as it is valid: what was pushed once stays in the history.",
	Wrong: `nodes: "n1": system: files: "/etc/backup.conf": content: "user = backup\npassword = calvin-7"`,
	Right: `nodes: "n1": system: files: "/etc/backup.conf": content: "user = backup\npasswordFile = /run/backup.password"`,
	Node: func(_ *site.Site, n *site.Node) (found []site.Finding) {
		eachText(n, func(path, text string) { found = append(found, refuseSecret(path, text)...) })
		return found
	},
	Site: func(s *site.Site) (found []site.Finding) {
		eachSiteText(s, func(path, text string) { found = append(found, refuseSecret(path, text)...) })
		return found
	},
}}

// eachText visits the texts of a node in which a secret could be. A single
// value goes with its name, as in "password = …".
func eachText(n *site.Node, visit func(path, text string)) {
	for _, name := range keys(n.Labels) {
		visit("labels."+name, name+"="+n.Labels[name])
	}
	for _, name := range keys(n.BIOS.Attributes) {
		visit("bios.attributes."+name, fmt.Sprintf("%s=%v", name, n.BIOS.Attributes[name]))
	}
	for _, name := range keys(n.Kernel.Parameters) {
		visit("kernel.parameters."+name, fmt.Sprintf("%s=%v", name, n.Kernel.Parameters[name]))
	}
	for _, kind := range keys(n.Endpoints) {
		visit("endpoints."+string(kind)+".trust.ca", n.Endpoints[kind].Trust.CA)
	}
	eachSystem(func(path string, x site.System) []site.Finding {
		for _, name := range keys(x.Sysctl) {
			visit(path+".sysctl."+name, fmt.Sprintf("%s=%v", name, x.Sysctl[name]))
		}
		eachContent(path, x.Files, x.Units, visit)
		return nil
	})(nil, n)
	for _, kind := range keys(n.Extensions) {
		for _, name := range keys(n.Extensions[kind]) {
			eachLeaf("extensions."+kind+"."+name, name, n.Extensions[kind][name], visit)
		}
	}
}

// eachLeaf visits the values in one that encoding/json has read. What is in a
// list is at the list's path.
func eachLeaf(path, name string, value any, visit func(path, text string)) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range keys(v) {
			eachLeaf(path+"."+key, key, v[key], visit)
		}
	case []any:
		for _, item := range v {
			eachLeaf(path, name, item, visit)
		}
	default:
		visit(path, fmt.Sprintf("%s=%v", name, v))
	}
}

func eachSiteText(s *site.Site, visit func(path, text string)) {
	for _, rack := range keys(s.Racks) {
		for _, name := range keys(s.Racks[rack].Labels) {
			visit("racks."+rack+".labels."+name, name+"="+s.Racks[rack].Labels[name])
		}
	}
	for _, key := range keys(s.Drivers) {
		for _, module := range keys(s.Drivers[key].Modules) {
			path, p := "drivers."+key+".modules."+module+".parameters.", s.Drivers[key].Modules[module].Parameters
			for _, name := range keys(p) {
				visit(path+name, fmt.Sprintf("%s=%v", name, p[name]))
			}
		}
	}
	for _, key := range keys(s.BootActions) {
		a := s.BootActions[key]
		eachContent("bootActions."+key, a.Files, a.Units, visit)
		visit("bootActions."+key+".run", strings.Join(a.Run, "\n"))
	}
}

func eachContent(path string, files map[string]site.File, units map[string]site.Unit, visit func(path, text string)) {
	for _, name := range keys(files) {
		if c := files[name].Content; c != nil {
			visit(path+".files."+name+".content", *c)
		}
	}
	for _, name := range keys(units) {
		if c := units[name].Content; c != nil {
			visit(path+".units."+name+".content", *c)
		}
	}
}

// refuseSecret objects to a secret in a text, and does not repeat it.
func refuseSecret(path, text string) []site.Finding {
	what := secretIn(text)
	if what == "" {
		return nil
	}
	return []site.Finding{wrong(path, fmt.Sprintf("%s holds what looks like %s", path, what),
		"Take it out, replace it wherever it is valid, and keep the new one on the bootstrap host. If it is none, suppress the finding with the reason.")}
}

// What secrets look like by themselves.
var (
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`)
	// accessKey is the id of an AWS key (IAM User Guide, unique identifiers);
	// beside it is the secret part.
	accessKey = regexp.MustCompile(`\b(AKIA|ASIA)[A-Z2-7]{16}\b`)
	// cryptHash is the hash of a password (crypt(5)).
	cryptHash = regexp.MustCompile(`\$(1|2[abxy]?|5|6|7|y|gy|md5|sha1|apr1)\$[./A-Za-z0-9=,$]{20,}`)
	webToken  = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.`)
	inURL     = regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@$<{]+:[^\s/@$<{*]+@`)
	// assignment is a name and its value: "password: x", "API_KEY=x".
	assignment = regexp.MustCompile(`(?im)^[^#;\n]*?([a-z0-9_.-]*(password|passwd|passphrase|secret|token|api[_-]?key|secret[_-]?key))["']?[ \t]*(:=|=|:)[ \t]*["']?([^\s"',;]+)`)
)

// secretIn says what kind of secret a text holds; nothing where it holds none.
func secretIn(text string) string {
	switch {
	case privateKey.MatchString(text):
		return "a private key"
	case accessKey.MatchString(text):
		return "an access key"
	case cryptHash.MatchString(text):
		return "the hash of a password"
	case webToken.MatchString(text):
		return "a token"
	case inURL.MatchString(text):
		return "a URL with a password"
	}
	for _, m := range assignment.FindAllStringSubmatch(text, -1) {
		whole, name, value := strings.ToLower(m[1]), strings.ToLower(m[2]), m[4]
		if !strings.HasSuffix(whole, "nopasswd") && isValue(name, value) { // NOPASSWD is of sudoers(5)
			return fmt.Sprintf("a password or token (%s)", m[1])
		}
	}
	return ""
}

// isValue says whether what is assigned can be a secret itself. A password may
// be any word; other names are common enough for words that are none, so that
// their values must have a digit and some length.
func isValue(name, value string) bool {
	word := strings.ToLower(value)
	switch {
	case strings.ContainsAny(value[:1], "$<{%/@*-!") || strings.Contains(value, "://"):
		return false // it stands for a value, a file, or nothing
	case strings.Trim(word, "x.*") == "" || noPassword[word]:
		return false
	case strings.HasPrefix(name, "pass"):
		return len(value) >= 4
	}
	return len(value) >= 8 && strings.ContainsAny(value, "0123456789")
}

// noPassword are values of a password that are none: of settings, and of
// nsswitch.conf(5).
var noPassword = map[string]bool{
	"none": true, "null": true, "true": true, "false": true, "required": true, "optional": true, "prompt": true,
	"disabled": true, "enabled": true, "empty": true, "files": true, "compat": true, "systemd": true, "sssd": true,
	"requisite": true, "sufficient": true, "include": true, "unset": true,
}
