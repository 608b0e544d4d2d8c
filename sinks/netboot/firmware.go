package netboot

import (
	"fmt"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// firmware is what a request says about the firmware that sends it.
type firmware struct {
	pxe, http bool
	agent     bool // not firmware, but Slipway's agent
	kind      Firmware
	uuid      string // from SMBIOS in lower case; empty if not sent
}

func (f firmware) boots() bool { return f.pxe || f.http }

// firmwareOf reads options 60, 77, 93 and 97 of a request (RFC 4578).
func firmwareOf(req *dhcpv4.DHCPv4) firmware {
	var f firmware
	class := string(req.Options[uint8(dhcpv4.OptionClassIdentifier)])
	f.pxe, f.http, f.agent = strings.HasPrefix(class, "PXEClient"), strings.HasPrefix(class, "HTTPClient"), class == agentClass
	if id := req.Options[uint8(dhcpv4.OptionClientMachineIdentifier)]; len(id) == 17 && id[0] == 0 {
		f.uuid = uuidOf([16]byte(id[1:]))
	}
	if !f.boots() {
		return f
	}
	f.kind = BIOS // firmware that does not say is old
	if arch := req.Options[uint8(dhcpv4.OptionClientSystemArchitectureType)]; len(arch) >= 2 {
		f.kind = kindOf(uint16(arch[0])<<8 | uint16(arch[1]))
	}
	if string(req.Options[uint8(dhcpv4.OptionUserClassInformation)]) == "iPXE" {
		f.kind = IPXE
	}
	return f
}

// uuidOf formats an SMBIOS UUID, whose first three fields are little-endian (SMBIOS 2.6, section 3.3.2.1). A
// machine without one sends zeros.
func uuidOf(b [16]byte) string {
	if b == [16]byte{} {
		return ""
	}
	return fmt.Sprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15])
}
