package network

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// maxNeighborFile bounds what is read of the LLDP frames of one interface.
const maxNeighborFile = 64 << 10

// neighbor is the switch and its port at the other end of an interface, from the
// LLDP frames that systemd-networkd keeps; empty where it has none.
func neighbor(h *inside.Host, index int) string {
	f, err := os.Open(h.Path("/run/systemd/netif/lldp/" + strconv.Itoa(index)))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNeighborFile))
	if err != nil {
		return ""
	}
	return parseLLDP(text)
}

// parseLLDP reads the first frame of a file of systemd-networkd: its length in
// eight octets, the lowest first, then the Ethernet frame.
func parseLLDP(text []byte) string {
	if len(text) < 8 {
		return ""
	}
	size := binary.LittleEndian.Uint64(text)
	text = text[8:]
	const head = 14 // of Ethernet
	if size > uint64(len(text)) || size < head {
		return ""
	}
	var chassis, port, system string
	for rest := text[head:size]; len(rest) >= 2; {
		kind, length := rest[0]>>1, int(binary.BigEndian.Uint16(rest)&0x1ff)
		if kind == 0 || length > len(rest)-2 {
			break
		}
		value := rest[2 : 2+length]
		switch kind {
		case 1:
			chassis = identifier(value, 4)
		case 2:
			port = identifier(value, 3)
		case 5:
			system = printable(value)
		}
		rest = rest[2+length:]
	}
	if system == "" {
		system = chassis
	}
	return strings.TrimSpace(system + " " + port)
}

// identifier is a chassis or a port; one of its subtypes is a MAC address.
func identifier(value []byte, macSubtype byte) string {
	if len(value) < 2 {
		return ""
	}
	if value[0] == macSubtype && len(value) == 7 {
		var parts []string
		for _, b := range value[1:] {
			parts = append(parts, fmt.Sprintf("%02x", b))
		}
		return strings.Join(parts, ":")
	}
	return printable(value[1:])
}

func printable(value []byte) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(value))
}
