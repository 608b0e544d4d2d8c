package item

import (
	"fmt"
	"strings"
)

// Probe is one question to a system that runs: is it healthy? Exactly one of Unit,
// Port, Path with its port, and Command is asked for.
type Probe struct {
	// Key is all that is asked, in words: "unit nginx.service", "port 443". What was
	// seen of a key says nothing of another one.
	Key string `json:"key"`
	// Unit is a unit of systemd that is to be active.
	Unit string `json:"unit,omitempty"`
	// Port is a TCP port of the system itself that is to answer.
	Port int `json:"port,omitempty"`
	// Path is asked for by HTTP at the port, and is to be answered with Status. Host
	// is the name that is asked for.
	Path   string `json:"path,omitempty"`
	Host   string `json:"host,omitempty"`
	Status int    `json:"status,omitempty"`
	// Command is a program of the site's with its arguments that is to end with 0.
	Command []string `json:"command,omitempty"`
}

// Probes is what a look is to find out of a system's health.
type Probes struct {
	Probes []Probe `json:"probes"`
	// Addresses are those that the design gives the system: a service may listen at
	// one of them alone.
	Addresses []string `json:"addresses,omitempty"`
}

// Passed is what is told of a probe that is as it should be. All else that is told
// is a sentence on what is wrong.
const Passed = "passed"

// UnitProbe asks for a unit to be active.
func UnitProbe(name string) Probe { return Probe{Key: "unit " + name, Unit: name} }

// PortProbe asks for a TCP port to answer.
func PortProbe(port int) Probe { return Probe{Key: fmt.Sprintf("port %d", port), Port: port} }

// HTTPProbe asks for a status at a path.
func HTTPProbe(port int, host, path string, status int) Probe {
	key := fmt.Sprintf("http port %d %s", port, path)
	if host != "" {
		key += " of " + host
	}
	return Probe{Key: fmt.Sprintf("%s with status %d", key, status), Port: port, Path: path, Host: host, Status: status}
}

// CommandProbe asks for a program to end with 0.
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
