package secret

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Use names what sends a secret, in the header line "use:" of its file.
type Use string

// The uses. Those of drivers are the schemes of their endpoints.
const (
	Redfish Use = "redfish" // logs in to management controllers
	SSH     Use = "ssh"     // logs in to installed systems
	Libvirt Use = "libvirt" // logs in to hypervisors
	Git     Use = "git"     // reads and writes the repository
	GitHub  Use = "github"  // uses GitHub's API, and its Git with the same token
	Webhook Use = "webhook" // verifies the webhooks that GitHub sends
	Notify  Use = "notify"  // signs notifications
	Traces  Use = "traces"  // sends traces to a collector
	Vault   Use = "vault"   // logs in to a server of secrets
	Account Use = "account" // sets it as the password of accounts of installed systems
	File    Use = "file"    // puts it into files of installed systems, as it is
)

// usual are the ports of each use for a file without a "ports:" line.
var usual = map[Use][]uint16{
	Redfish: {443}, SSH: {22}, Libvirt: {22, 16514}, Git: {22, 443}, GitHub: {443}, Webhook: {443}, Notify: {443}, Traces: {443, 4318}, Account: {22}, File: {22}, Vault: {443, 8200},
}

// Request asks for a secret, and says what sends it where.
type Request struct {
	Name string // of the credential
	Use  Use
	// Host is compared as written: an address, or a name, which is not resolved.
	Host string
	Port uint16
	// Of says which password of a derived credential is asked for. It is zero for others.
	Of Of
}

// Of says which password of a derived credential is asked for.
type Of struct {
	site.Derived
	// Machine is the UUID that it is derived from.
	Machine string
}

// For returns the request for the credential of a URL: of an endpoint, with a scheme such as
// "redfish+https", of a repository or of a server.
func For(name string, use Use, u *url.URL) (Request, error) {
	r := Request{Name: name, Use: use, Host: u.Hostname()}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return r, fmt.Errorf("credential %q: %q is not a port: use a number from 1 to 65535", name, text)
		}
		r.Port = uint16(port)
		return r, nil
	}
	r.Port = site.DefaultPort(u.Scheme)
	return r, nil
}

// Source provides the values of credentials.
type Source interface {
	// Get refuses a use, a host and a port that the credential is not for.
	Get(Request) (Value, error)
}

// ForEndpoint returns the request for the credential of an endpoint. The scheme before "+" names
// the driver that sends it.
func ForEndpoint(name, endpoint string) (Request, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return Request{}, fmt.Errorf("credential %q: the endpoint is not a URL", name)
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	return For(name, Use(scheme), u)
}

// portRange is a range of ports, both ends included.
type portRange struct{ first, last uint16 }

const whichUse = "write what sends the secret: redfish, ssh, libvirt, git, github, webhook, notify, traces, vault, account or file"

var (
	errUse  = errors.New("is not a use: " + whichUse)
	errPort = errors.New("is neither a port nor a range such as 8000-8100, from 1 to 65535")
)

func parseUses(list string) (uses []Use, err error) {
	for i, item := range items(list) {
		if _, ok := usual[Use(item)]; !ok {
			return nil, fmt.Errorf("item %d of \"use\" %w", i+1, errUse)
		}
		uses = append(uses, Use(item))
	}
	return uses, nil
}

func parsePorts(list string) (ports []portRange, err error) {
	for i, item := range items(list) {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		f, ferr := strconv.ParseUint(first, 10, 16)
		l, lerr := strconv.ParseUint(last, 10, 16)
		if ferr != nil || lerr != nil || f == 0 || l < f {
			return nil, fmt.Errorf("item %d of \"ports\" %w", i+1, errPort)
		}
		ports = append(ports, portRange{uint16(f), uint16(l)})
	}
	return ports, nil
}

// items splits a list at commas and spaces.
func items(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// allow says why a request may not use a file's secret, or returns nil. Without a "use:" line it
// allows any use but files of systems. Without "ports:" it allows the use's usual ports, or any
// port if "use:" is missing too.
func (f *file) allow(r Request) error {
	place, isFile := f.path, false
	switch {
	case f.elsewhere != "":
		place += " on " + f.elsewhere
	case f.sealed != "":
		place += fmt.Sprintf(" with `slipway secret edit %s`", f.sealed)
	default:
		isFile = true
	}
	at := func(line int) string {
		if isFile {
			return fmt.Sprintf("%s:%d", place, line)
		}
		return place
	}
	if !f.hosts.allow(r.Host) {
		return fmt.Errorf("%w: %q may not be sent to %q: if it is for that host, add it to \"hosts:\" in %s",
			ErrHost, r.Name, r.Host, at(f.lines["hosts"]))
	}
	if len(f.uses) == 0 && r.Use == File {
		return fmt.Errorf("%w: %q has no \"use:\" line, and is put into files of systems only where it says so: if it is for that, add the line \"use: file\" to %s", ErrUse, r.Name, place)
	}
	if len(f.uses) > 0 && !slices.Contains(f.uses, r.Use) {
		return fmt.Errorf("%w: %q is for %s, and may not be sent by %s: if it is for that too, add %s to \"use:\" in %s",
			ErrUse, r.Name, joined(f.uses), r.Use, r.Use, at(f.lines["use"]))
	}
	switch {
	case len(f.ports) > 0 && !slices.ContainsFunc(f.ports, func(p portRange) bool { return p.first <= r.Port && r.Port <= p.last }):
		return fmt.Errorf("%w: %q may not be sent to port %d of %q: if it is for that port, add it to \"ports:\" in %s",
			ErrPort, r.Name, r.Port, r.Host, at(f.lines["ports"]))
	case len(f.ports) == 0 && len(f.uses) > 0 && !slices.Contains(usual[r.Use], r.Port):
		return fmt.Errorf("%w: %q may not be sent to port %d of %q, which is not the usual one of %s: if it is for that port, add the line \"ports: %d\" to %s",
			ErrPort, r.Name, r.Port, r.Host, r.Use, r.Port, place)
	}
	return nil
}

func joined(uses []Use) string {
	var words []string
	for _, u := range uses {
		words = append(words, string(u))
	}
	return strings.Join(words, ", ")
}
