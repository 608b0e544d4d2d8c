package rule

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The limits of a role's health. Slipway checks all of it at once, within
// seconds.
const (
	mostUnits     = 32
	mostPorts     = 32
	mostRequests  = 16
	mostArguments = 32
)

// healthRules: can Slipway find a system healthy?
var healthRules = []Rule{
	{
		Code: "health-unit", Severity: site.SeverityError,
		What:  "A unit of a role's health has a name and a type.",
		Why:   "systemd knows no unit with another name, so the nodes of the role would never be healthy, and everything that waits for them would wait forever.",
		Wrong: `roles: storage: health: units: ["nginx"]`,
		Right: `roles: storage: health: units: ["nginx.service"]`,
		Site: eachHealth(func(at string, h *site.Health) (found []site.Finding) {
			for _, name := range h.Units {
				kind := strings.TrimPrefix(path.Ext(name), ".")
				switch {
				case !slices.Contains(unitTypes, kind) || len(name) == len(kind)+1 || len(name) > 255:
					found = append(found, wrong(at+".units", fmt.Sprintf("%q is not a name and the type of a unit%s", name, DidYouMean(kind, unitTypes)),
						"Write a name and, after a dot, one of: "+strings.Join(unitTypes, ", ")+"."))
				case strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n*?[]/"):
					found = append(found, wrong(at+".units", fmt.Sprintf("%q is not the name of one unit", name), "Name each unit by itself, without patterns."))
				}
			}
			return found
		}),
	},
	{
		Code: "health-probes", Severity: site.SeverityError,
		What:  "A role's health asks for something, for each thing once, and for no more than can be looked at in a few seconds.",
		Why:   "A health that asks for nothing makes nothing wait. Slipway asks each node for all of it at every look, so it has to be quick.",
		Wrong: `roles: storage: health: ports: [443, 443]`,
		Right: `roles: storage: health: ports: [443, 80]`,
		Site: eachHealth(func(at string, h *site.Health) (found []site.Finding) {
			if !h.Asks() {
				return []site.Finding{wrong(at, "the health asks for nothing", "Name units, ports, requests or a command, or take the health out.")}
			}
			for _, l := range []struct {
				what      string
				have, may int
			}{
				{"units", len(h.Units), mostUnits}, {"ports", len(h.Ports), mostPorts},
				{"http", len(h.HTTP), mostRequests}, {"command", len(h.Command), mostArguments},
			} {
				if l.have > l.may {
					found = append(found, wrong(at+"."+l.what, fmt.Sprintf("%s has %d entries", l.what, l.have), fmt.Sprintf("Use at most %d; a command can look at more.", l.may)))
				}
			}
			for _, name := range repeated(h.Units) {
				found = append(found, wrong(at+".units", fmt.Sprintf("the unit %s is named twice", name), "Remove one."))
			}
			ports := make([]string, len(h.Ports))
			for i, port := range h.Ports {
				ports[i] = fmt.Sprint(port)
			}
			for _, port := range repeated(ports) {
				found = append(found, wrong(at+".ports", fmt.Sprintf("the port %s is named twice", port), "Remove one."))
			}
			return found
		}),
	},
	{
		Code: "health-command", Severity: site.SeverityError,
		What:  "The command of a role's health is a program by its whole path, with each argument by itself, and has no secret.",
		Why:   "No shell runs it: a shell line would be read as the name of a file. And everybody on the machine can read the arguments of a running program.",
		Wrong: `roles: storage: health: command: ["/usr/bin/curl -f http://localhost/"]`,
		Right: `roles: storage: health: command: ["/usr/bin/curl", "-f", "http://localhost/"]`,
		Site: eachHealth(func(at string, h *site.Health) (found []site.Finding) {
			if len(h.Command) == 0 {
				return nil
			}
			at += ".command"
			switch program := h.Command[0]; {
			case strings.ContainsAny(program, " \t\n|&;<>()$`\"'*?"):
				found = append(found, wrong(at, fmt.Sprintf("%q is a shell command line, and no shell runs it", program), "Write the program and each of its arguments as a text of its own, or put the line into a script on the node."))
			case !strings.HasPrefix(program, "/") || path.Clean(program) != program || program == "/":
				found = append(found, wrong(at, fmt.Sprintf("%q is not the whole path of a program", program), "Write the path from / on, such as \"/usr/local/bin/check\"."))
			case isShell(program) && len(h.Command) > 1 && strings.HasPrefix(h.Command[1], "-") && strings.Contains(h.Command[1], "c"):
				found = append(found, wrong(at, fmt.Sprintf("%s %s runs a line of a shell from the design", program, h.Command[1]), "Put the line into a script on the node (system.files), and name the script."))
			}
			for i, arg := range h.Command {
				name, value, assigns := strings.Cut(arg, "=")
				switch {
				case strings.ContainsFunc(arg, func(r rune) bool { return r == 0 || r == '\n' || r == '\r' }):
					found = append(found, wrong(at, fmt.Sprintf("argument %d has more than one line", i), "Write it in one line, or put it into a file on the node."))
				case strings.HasPrefix(arg, "-") && cleartext.NamesSecret(name) && (assigns && value != "" || !assigns && i+1 < len(h.Command)):
					found = append(found, wrong(at, fmt.Sprintf("the command is given what looks like a secret (%s)", name), "Have the program read it from a file on the node that the user nobody may read, or look at something that needs none."))
				}
			}
			return found
		}),
	},
}

// isShell reports whether a program is one of the usual shells.
func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"}, path.Base(program))
}

// eachHealth checks the health of each role.
func eachHealth(check func(at string, h *site.Health) []site.Finding) func(*site.Site) []site.Finding {
	return func(s *site.Site) (found []site.Finding) {
		for _, key := range keys(s.Roles) {
			if h := s.Roles[key].Health; h != nil {
				found = append(found, check("roles."+key+".health", h)...)
			}
		}
		return found
	}
}
