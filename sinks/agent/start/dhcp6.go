package start

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
)

// lease6 is an address of DHCPv6.
type lease6 struct {
	address netip.Addr
	lasts   time.Duration
	reply   *dhcpv6.Message
}

// dhcp6 is DHCPv6 on a port. The kernel makes the routes, of what routers announce.
type dhcp6 struct {
	*network
	link net.Interface
	had  *lease6
}

// lease requests an address, or renews a lease, and returns for how long it lasts.
func (d *dhcp6) lease(ctx context.Context) (time.Duration, error) {
	client, err := nclient6.New(d.link.Name, nclient6.WithTimeout(dhcpTimeout), nclient6.WithRetry(1))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	had := d.had
	d.had = nil
	var reply *dhcpv6.Message
	if had != nil {
		reply, err = d.renew(ctx, client, had)
	}
	if had == nil || err != nil {
		reply, err = client.RapidSolicit(ctx, d.identify)
	}
	if err != nil {
		return 0, err
	}
	next, err := offered6(reply)
	if err != nil {
		return 0, err
	}
	var dns []netip.Addr
	for _, server := range reply.Options.DNS() {
		if a, ok := netip.AddrFromSlice(server); ok {
			dns = append(dns, a)
		}
	}
	d.had = next
	return next.lasts, d.set(d.link, netip.PrefixFrom(next.address, 128), netip.Addr{}, dns)
}

// renew extends a lease (RFC 8415, section 18.2.4).
func (d *dhcp6) renew(ctx context.Context, client *nclient6.Client, had *lease6) (*dhcpv6.Message, error) {
	question, err := dhcpv6.NewMessage(dhcpv6.WithServerID(had.reply.Options.ServerID()), dhcpv6.WithRequestedOptions(dhcpv6.OptionDNSRecursiveNameServer), d.identify)
	if err != nil {
		return nil, err
	}
	question.MessageType = dhcpv6.MessageTypeRenew
	question.AddOption(dhcpv6.OptElapsedTime(0))
	question.AddOption(had.reply.Options.OneIANA())
	return client.SendAndRead(ctx, client.RemoteAddr(), question, nclient6.IsMessageType(dhcpv6.MessageTypeReply))
}

// identify says who asks: the machine, by its UUID as firmware sends it or by the port's MAC address, and its agent.
func (d *dhcp6) identify(m dhcpv6.DHCPv6) {
	var id dhcpv6.DUID = &dhcpv6.DUIDLL{HWType: 1, LinkLayerAddr: d.link.HardwareAddr}
	if uuid := machineID(d.uuid); uuid != nil {
		id = &dhcpv6.DUIDUUID{UUID: [16]byte(uuid[1:])}
	}
	m.UpdateOption(dhcpv6.OptClientID(id))
	m.UpdateOption(&dhcpv6.OptUserClass{UserClasses: [][]byte{[]byte(class)}})
}

// noLeaseError reports that a server has answered, and gives no address.
type noLeaseError struct{ why string }

func (e *noLeaseError) Error() string { return e.why }

// offered6 parses the server's answer.
func offered6(reply *dhcpv6.Message) (*lease6, error) {
	association := reply.Options.OneIANA()
	if reply.Options.ServerID() == nil || association == nil {
		return nil, &noLeaseError{"the server's answer gives no address"}
	}
	for _, one := range association.Options.Addresses() {
		a, ok := netip.AddrFromSlice(one.IPv6Addr)
		if ok && a.Is6() && !a.Is4In6() && a.IsGlobalUnicast() && one.ValidLifetime > 0 {
			return &lease6{a, one.ValidLifetime, reply}, nil
		}
	}
	if status := association.Options.Status(); status != nil {
		return nil, &noLeaseError{fmt.Sprintf("a DHCPv6 server answered %s", status.StatusCode)}
	}
	return nil, &noLeaseError{"the server's answer gives no address"}
}

// ask asks the port's network where the daemon is, by an information-request (RFC 8415, section 18.2.6). The answer
// is in the parameters of the boot file (RFC 5970, section 3.2). Anyone in the network could send it.
func (d *dhcp6) ask(ctx context.Context) error {
	client, err := nclient6.New(d.link.Name, nclient6.WithTimeout(dhcpTimeout), nclient6.WithRetry(1))
	if err != nil {
		return err
	}
	defer client.Close()
	question, err := dhcpv6.NewMessage(dhcpv6.WithRequestedOptions(dhcpv6.OptionBootfileParam), d.identify)
	if err != nil {
		return err
	}
	question.MessageType = dhcpv6.MessageTypeInformationRequest
	question.AddOption(dhcpv6.OptElapsedTime(0))
	var wrong error
	_, err = client.SendAndRead(ctx, client.RemoteAddr(), question, func(answer *dhcpv6.Message) bool {
		words := answer.Options.BootFileParam()
		if answer.MessageType != dhcpv6.MessageTypeReply || len(words) == 0 {
			return false // from another server
		}
		wrong = d.learn(d.link.Name, strings.Join(words, " "))
		return wrong == nil
	})
	if err != nil && wrong != nil {
		return fmt.Errorf("the DHCP server answered, and its answer does not say where the daemon is: %s", printable(wrong.Error()))
	}
	return err
}
