package start

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// class is the agent's vendor class identifier, option 60 of DHCP.
const class = "slipway-agent"

// ask asks a port's network where the daemon is, by DHCPINFORM (RFC 2131, section 4.4.3). The question is the same
// whether the daemon or another server assigns the addresses. The answer is in the vendor-specific option of the
// agent's class. Anyone in the network could send it.
func (n *network) ask(ctx context.Context, l net.Interface, own net.IP) error {
	client, err := nclient4.New(l.Name, nclient4.WithTimeout(dhcpTimeout), nclient4.WithRetry(1))
	if err != nil {
		return err
	}
	defer client.Close()
	options := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)), dhcpv4.WithRequestedOptions(dhcpv4.OptionVendorSpecificInformation)}
	if id := machineID(n.uuid); id != nil {
		options = append(options, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, id)))
	}
	question, err := dhcpv4.NewInform(l.HardwareAddr, own.To4(), options...)
	if err != nil {
		return err
	}
	var wrong error
	_, err = client.SendAndRead(ctx, client.RemoteAddr(), question, func(answer *dhcpv4.DHCPv4) bool {
		if answer.MessageType() != dhcpv4.MessageTypeAck || answer.ClassIdentifier() != class {
			return false // from another server
		}
		wrong = n.learn(l.Name, string(answer.Options.Get(dhcpv4.OptionVendorSpecificInformation)))
		return wrong == nil
	})
	if err != nil && wrong != nil {
		return fmt.Errorf("the DHCP server answered, and its answer does not say where the daemon is: %s", printable(wrong.Error()))
	}
	return err
}

// learn keeps what a port's network says about the daemon.
func (n *network) learn(link, words string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	is, err := n.settings.told(words)
	if err != nil {
		return err
	}
	if n.told == nil {
		n.told = map[string]Settings{}
	}
	n.told[link] = is
	n.console.say("The network of the port %s tells that the daemon is at %s, with the certificate sha256:%x.", link, printable(is.Daemon), is.CA)
	return nil
}

// daemon returns the settings for calls over a port, and false before they are known.
func (n *network) daemon(link string) (Settings, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.settings.OverNetwork() {
		return n.settings, true
	}
	is, known := n.told[link]
	return is, known
}

// keep accepts only the daemon that has welcomed the machine until the next boot. Its certificate identifies it.
func (n *network) keep(s Settings) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settings = s
}

// doubt forgets what a port's network said, unless a daemon has welcomed the machine: somebody else may have
// answered.
func (n *network) doubt(link string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.told, link)
}

// machineID is a machine's UUID in the format of option 97 (RFC 4578, section 2.3), with the first three fields in
// SMBIOS byte order; nil if it is not a UUID.
func machineID(uuid string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(b) != 16 {
		return nil
	}
	slices.Reverse(b[0:4])
	slices.Reverse(b[4:6])
	slices.Reverse(b[6:8])
	return append([]byte{0}, b...)
}
