package start

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"
)

// Settings are the agent's settings from the kernel's command line and the medium of this boot: words that start
// with "slipway.".
type Settings struct {
	// Daemon is where the daemon listens for agents, HOST:PORT; empty if the network says so.
	Daemon string
	// CA is the SHA-256 of the certificate that verifies the daemon, over its DER form.
	CA []byte
	// Token is the token with which the machine was started.
	Token string
	// Address is the machine's address with its prefix length; invalid if DHCP provides it. Gateway and DNS go with
	// it. MAC names the port; empty for the first one with a link.
	Address netip.Prefix
	Gateway netip.Addr
	DNS     []netip.Addr
	MAC     string
	// PCI is the port's PCI address, as an alternative to MAC.
	PCI string
}

// Parse reads a kernel's command line and the words of a medium. The command line takes precedence, because it may
// be signed. Other words on the command line are ignored. An unknown word for the agent is an error, because the
// agent would otherwise do something else than requested.
func Parse(line, medium string) (Settings, error) {
	return parse(words{text: line, where: "on the kernel's command line", foreign: true}, words{text: medium, where: "on the medium"})
}

// words are the words of one source, which may contain foreign words.
type words struct {
	text, where string
	foreign     bool
}

// parse reads the words of several sources. The first source takes precedence.
func parse(all ...words) (s Settings, err error) {
	set := map[string]bool{}
	for _, from := range all {
		were := maps.Clone(set)
		for _, word := range strings.Fields(from.text) {
			name, ok := strings.CutPrefix(word, "slipway.")
			if !ok && from.foreign {
				continue
			}
			name, value, _ := strings.Cut(name, "=")
			if !ok {
				return s, fmt.Errorf("%q %s does not begin with \"slipway.\"", word, from.where)
			}
			if were[name] {
				continue
			}
			if err := s.set(name, value); err != nil {
				return s, fmt.Errorf("slipway.%s %s: %w", name, from.where, err)
			}
			set[name] = true
		}
	}
	switch {
	case s.Daemon != "" && s.CA == nil:
		return s, fmt.Errorf("slipway.daemon needs slipway.ca beside it: without it anybody could answer as the daemon")
	case s.Gateway.IsValid() && !s.Address.IsValid():
		return s, fmt.Errorf("slipway.gateway needs slipway.ip beside it")
	}
	return s, nil
}

// OverNetwork reports whether the agent was booted over the network, which says where the daemon is.
func (s Settings) OverNetwork() bool { return s.Daemon == "" }

// told adds what the network says: where the daemon is, and its certificate. Anything else is refused.
func (s Settings) told(answer string) (Settings, error) {
	is, err := parse(words{text: answer, where: "in the answer of the network"})
	switch {
	case err != nil:
		return s, err
	case is.Daemon == "" || is.Token != "" || is.Address.IsValid() || is.MAC+is.PCI != "" || is.DNS != nil:
		return s, errors.New("it does not name the daemon (slipway.daemon and slipway.ca), or says more than that")
	}
	s.Daemon, s.CA = is.Daemon, is.CA
	return s, nil
}

func (s *Settings) set(name, value string) (err error) {
	switch name {
	case "daemon":
		s.Daemon = value
		if host, port, err := net.SplitHostPort(value); err != nil || host == "" || port == "" {
			return fmt.Errorf("%q is not HOST:PORT", value)
		}
	case "ca":
		digest, ok := strings.CutPrefix(value, "sha256:")
		if s.CA, err = hex.DecodeString(digest); err != nil || !ok || len(s.CA) != 32 {
			return fmt.Errorf("%q is not sha256: and 64 hex digits", value)
		}
	case "token":
		s.Token = value
	case "ip":
		s.Address, err = netip.ParsePrefix(value)
		if err != nil || !s.Address.Addr().Is4() {
			return fmt.Errorf("%q is not an IPv4 address with the length of its network, such as 10.1.0.7/24", value)
		}
	case "gateway":
		if s.Gateway, err = netip.ParseAddr(value); err != nil || !s.Gateway.Is4() {
			return fmt.Errorf("%q is not an IPv4 address", value)
		}
	case "dns":
		for text := range strings.SplitSeq(value, ",") {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return fmt.Errorf("%q is not an IP address", text)
			}
			s.DNS = append(s.DNS, a)
		}
	case "mac":
		mac, err := net.ParseMAC(value)
		if err != nil || len(mac) != 6 {
			return fmt.Errorf("%q is not a MAC address", value)
		}
		s.MAC = mac.String()
	case "pci":
		s.PCI = value
	default:
		return fmt.Errorf("the agent does not know it")
	}
	return nil
}
