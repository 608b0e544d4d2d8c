package item

import (
	"fmt"
	"strings"
)

// Probe is one question about the health of a running system. It uses exactly one
// of Unit, Port, Path with its port, and Command.
type Probe struct {
	// Key describes the whole question: "unit nginx.service", "port 443". A result
	// for one key says nothing about another.
	Key string `json:"key"`
	// Unit is a systemd unit that must be active.
	Unit string `json:"unit,omitempty"`
	// Port is a TCP port of the system itself that must answer.
	Port int `json:"port,omitempty"`
	// Path is requested by HTTP at the port, and must be answered with Status. Host
	// is the host name in the request.
	Path   string `json:"path,omitempty"`
	Host   string `json:"host,omitempty"`
	Status int    `json:"status,omitempty"`
	// Command is a program of the site, with arguments, that must exit with 0.
	Command []string `json:"command,omitempty"`
}

// Probes says what a look should find out about a system's health.
type Probes struct {
	Probes []Probe `json:"probes"`
	// Addresses are the system's addresses in the design: a service may listen on
	// only one of them.
	Addresses []string `json:"addresses,omitempty"`
}

// Passed is the result of a probe that passed. Any other result is a sentence
// about what is wrong.
const Passed = "passed"

// UnitProbe asks whether a unit is active.
func UnitProbe(name string) Probe { return Probe{Key: "unit " + name, Unit: name} }

// PortProbe asks whether a TCP port answers.
func PortProbe(port int) Probe { return Probe{Key: fmt.Sprintf("port %d", port), Port: port} }

// HTTPProbe asks for a status at a path.
func HTTPProbe(port int, host, path string, status int) Probe {
	key := fmt.Sprintf("http port %d %s", port, path)
	if host != "" {
		key += " of " + host
	}
	return Probe{Key: fmt.Sprintf("%s with status %d", key, status), Port: port, Path: path, Host: host, Status: status}
}

// CommandProbe asks whether a program exits with 0.
func CommandProbe(command []string) Probe {
	quoted := make([]string, len(command))
	for i, arg := range command {
		quoted[i] = arg
		if i > 0 && (arg == "" || strings.ContainsAny(arg, " \t\n\"'`")) {
			quoted[i] = fmt.Sprintf("%q", arg)
		}
	}
	return Probe{Key: "command " + strings.Join(quoted, " "), Command: command}
}
